"""FCNs as ONNX files: the same as the module at every size, in every engine, whole and in stages."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch")

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx.reference import ReferenceEvaluator

from clockseg import StagedNetwork, UsageError, adaptive, alternating, load, pipelined, run
from clockseg.engines import onnxruntime, openvino
from clockseg.graph import onnx_reader, sidecar
from clockseg.graph.cost import price
from clockseg.graph.part import FRAME_SIZE, IMAGE, GraphPart
from clockseg.graph.staged import staged as staged_graph
from clockseg.paper.caffe import import_caffe
from clockseg.paper.fcn import MEAN, VARIANTS, FCNDescription, FCNShape, describe, to_onnx, write_fcn
from fcn_costs import stage_costs
from narrow_fcn import CLASSES, NARROW, golden, picture, random_state, with_state

ENGINES = {"openvino": openvino, "onnxruntime": onnxruntime}
ODD = [(333, 281), (1, 1), (25, 26), (26, 25)]
"""Sizes WIDTH, HEIGHT that poolings must round up at."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What engines keep on disk goes to the tests' own folder."""
    monkeypatch.setenv("CLOCKSEG_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def write(folder: Path, variant: Any = "fcn8s", **changes: Any) -> Path:
    """A narrow net of five classes as an ONNX file; frames are fitted into 64x48."""
    shape = FCNShape(variant, 5).narrowed(NARROW)
    return write_fcn(
        random_state(shape), FCNDescription(shape, CLASSES, working=(64, 48)), folder / "net.onnx", **changes
    )


def near(found: np.ndarray, wanted: np.ndarray) -> bool:
    return found.shape == wanted.shape and bool(np.abs(found - wanted).max() <= 1e-4 * np.abs(wanted).max())


def on_floats(state: dict[str, np.ndarray], said: FCNDescription, size: tuple[int, int], engine: Any) -> StagedNetwork:
    """The staged graph with scores instead of labels as its output."""
    open_ended = replace(describe(said, "golden"), classes=(), palette=())
    return engine(staged_graph(to_onnx(state, said.shape), open_ended, size=size))


def each_map(net: StagedNetwork, data: np.ndarray) -> dict[str, np.ndarray]:
    """All maps that parts give for a preprocessed picture, every stage firing; and by the uncut net, under "whole"."""
    frame = {IMAGE: data, FRAME_SIZE: np.array(data.shape[:1:-1])}
    trunk, values, found = frame, {}, {}
    for stage in net.stages:
        trunk = stage.body(trunk)
        values[stage.name] = stage.head(trunk)
        found |= values[stage.name]
    for group in net.groups:
        values[group.name] = group.function(*(values[name] for name in group.reads))
        found |= values[group.name]
    return {**found, **net.finish(values[net.last]), "whole": net.whole(frame)["score"]}


@pytest.fixture
def read_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts read pictures that are preprocessed already."""
    monkeypatch.setattr("clockseg.graph.staged.with_frame", lambda model, tensor, given: model)


@pytest.mark.usefixtures("read_as_they_are")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("size", ["25x33", "64x48", "120x90"])
def test_golden_in_stages(engine: str, size: str) -> None:
    if not golden().is_dir():
        pytest.skip("no shared data folder; set CLOCKSEG_DATA")
    source, wanted = import_caffe(golden() / "fcn8s-tiny.caffemodel"), np.load(golden() / "outputs.npz")
    data = wanted[f"{size}/data"]
    net = on_floats(source.state, source.description, data.shape[:1:-1], ENGINES[engine])
    found = each_map(net, data)
    for name in ("score", "score_pool4", "score_pool3", "upscore2"):
        assert near(found[name], wanted[f"{size}/{name}"]), name
    assert near(found["whole"], wanted[f"{size}/score"])


@pytest.mark.usefixtures("read_as_they_are")
@pytest.mark.parametrize("size", ODD)
def test_trap_10_odd_sizes_are_the_same_everywhere(size: tuple[int, int]) -> None:
    """The module, and both engines in stages and whole."""
    shape = FCNShape(classes=5).narrowed(NARROW)
    state, said = random_state(shape), FCNDescription(shape, CLASSES)
    data, wanted = by_the_module(state, shape, size)
    for engine in ENGINES.values():
        found = each_map(on_floats(state, said, size, engine), data)
        assert all(near(found[name], map) for name, map in wanted.items())
        assert near(found["whole"], wanted["score"])


@pytest.mark.parametrize("size", [(1, 1), (26, 25)])
def test_trap_10_the_file_means_the_same_to_onnx_itself(size: tuple[int, int]) -> None:
    shape = FCNShape(classes=5).narrowed(1 / 64)
    state = random_state(shape)
    data, wanted = by_the_module(state, shape, size)
    model = to_onnx(state, shape)
    found = ReferenceEvaluator(model).run(None, {"data": data})
    assert [value.name for value in model.graph.output] == [*wanted]
    assert all(near(map, there) for map, there in zip(found, wanted.values(), strict=True))


def by_the_module(state: Any, shape: FCNShape, size: tuple[int, int]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """A preprocessed picture, and all maps that torch makes of it."""
    data = np.random.default_rng(1).normal(0, 60, (1, 3, size[1], size[0])).astype(np.float32)
    with torch.inference_mode():
        return data, {
            name: map.numpy() for name, map in with_state(shape, state)(torch.from_numpy(data))._asdict().items()
        }


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_net_runs_in_stages(tmp_path: Path, variant: Any, engine: str) -> None:
    file = write(tmp_path, variant)
    onnx.checker.check_model(onnx.load(file), full_check=True)
    found = load(file, engine=ENGINES[engine], size="own")
    shape = FCNShape(variant, 5).narrowed(NARROW)
    assert tuple(stage.name for stage in found.stages) == shape.cuts
    module = with_state(shape, random_state(shape))
    for size in ((64, 48), (33, 70)):
        image = picture(size)
        assert np.mean(found(image) == labels(module, image)) > 0.999
        assert np.mean(found(image) == found.uncut()(image)) > 0.999


def labels(module: Any, image: np.ndarray, *, order: str = "bgr", mean: tuple[float, ...] = MEAN) -> np.ndarray:
    """What the module makes of a frame, uint8 RGB: class ids [h, w]."""
    data = (image[..., ::-1] if order == "bgr" else image) - np.array(mean, np.float32)
    with torch.inference_mode():
        return module(torch.from_numpy(data.transpose(2, 0, 1)[None])).score.argmax(1)[0].numpy()


@pytest.mark.parametrize("order", ["bgr", "rgb"])
def test_trap_15_frames_become_bgr_minus_the_mean(tmp_path: Path, order: Any) -> None:
    """The order and the mean of the description, and neither scale nor deviation."""
    shape, image = FCNShape("pool3", 5).narrowed(NARROW), picture((40, 50))
    state, mean = random_state(shape), (1.0, 2.0, 3.0)
    file = write_fcn(state, FCNDescription(shape, CLASSES, mean, order, (40, 50)), tmp_path / "net.onnx")
    wanted = labels(with_state(shape, state), image, order=order, mean=mean)
    assert np.mean(load(file, engine="openvino")(image) == wanted) > 0.999


def test_schedules_on_the_papers_net(tmp_path: Path) -> None:
    net = load(write(tmp_path), engine="openvino")
    frames = [picture((48, 32), seed) for seed in range(5)]
    oracle = [net(frame) for frame in frames]
    schedules = {"adaptive(0)": adaptive(0), "alternating": alternating, "pipelined(2)": pipelined(2)}
    shown = {name: [output for output, _ in run(net, frames, one)] for name, one in schedules.items()}
    assert all(np.array_equal(a, b) for a, b in zip(shown["adaptive(0)"], oracle, strict=True))
    assert all(np.array_equal(shown["alternating"][t], shown["pipelined(2)"][t]) for t in (1, 3))
    assert all(np.array_equal(shown["alternating"][t], oracle[t]) for t in (0, 2, 4))
    assert not np.array_equal(shown["alternating"][1], oracle[1])


def test_what_is_held_are_the_score_maps_uncropped(tmp_path: Path) -> None:
    net = load(write(tmp_path))
    trunk, held = net.prepare(picture((64, 48))), {}
    for stage in net.stages:
        trunk = stage.body(trunk)
        held[stage.name] = {name: map.shape for name, map in stage.head(trunk).items() if name != FRAME_SIZE}
    assert held == {
        "pool3": {"score_pool3": (1, 5, 31, 33)},
        "pool4": {"score_pool4": (1, 5, 16, 17)},
        "fc7": {"upscore2": (1, 5, 6, 8)},
    }
    watched = np.zeros((1, 5, 2, 2), np.float32)
    assert net.stages[1].scores({"score_pool4": watched}) is watched
    parts = [part.outputs for part in _bodies(load(tmp_path / "net.onnx", engine=None))]
    assert parts == [("pool3", "score_pool3"), ("pool4", "score_pool4"), ("fc7", "upscore2")]


def _bodies(net: StagedNetwork) -> list[GraphPart]:
    return [stage.body for stage in net.stages if isinstance(stage.body, GraphPart)]


def test_expected_2_the_file_costs_what_the_list_says(tmp_path: Path) -> None:
    """Multiply-adds and parameters of the parts, read from the graph, against those from the layers' shapes."""
    net = load(write(tmp_path), engine=None)
    listed = stage_costs(FCNShape(classes=5).narrowed(NARROW), (64, 48))
    wanted = [listed["pool3"], listed["pool4"], listed["fc7"] + listed["upscore2"]]
    wanted += [listed["upscore_pool4"], listed["upscore8"]]
    parts = [*_bodies(net), *(group.function for group in net.groups)]
    found = [price(part, (64, 48)) for part in parts if isinstance(part, GraphPart)]
    assert [(cost.multiply_adds, cost.parameters) for cost in found] == [
        (cost.multiply_adds, cost.parameters) for cost in wanted
    ]


def test_the_sidecar(tmp_path: Path) -> None:
    found = sidecar.read(write(tmp_path, size=(640, 480)).with_suffix(".json"))
    assert found.input == sidecar.Input("data", 640, 480, "bgr", 1.0, (104.00698793, 116.66876762, 122.67891434))
    assert (found.input.std, found.input.pad_multiple) == ((1, 1, 1), 1)
    assert found.cuts == (("pool3",), ("pool4",), ("fc7",))
    assert found.scores == ("score_pool3", "score_pool4", "upscore2")
    assert (found.output, found.classes, found.schedule) == ("score", CLASSES.names, "adaptive(0.25)")


def test_a_net_of_one_stage_recommends_no_schedule() -> None:
    shape = FCNShape("pool3", 5)
    assert describe(FCNDescription(shape, CLASSES), "x").schedule is None


def test_weights_of_16_bits_stay_so_and_are_computed_with_in_32(tmp_path: Path) -> None:
    (tmp_path / "half").mkdir()
    whole, half = write(tmp_path), write(tmp_path / "half", half=True)
    assert half.stat().st_size < 0.6 * whole.stat().st_size
    shape, image = FCNShape(classes=5).narrowed(NARROW), picture((64, 48))
    rounded = {name: value.astype(np.float16).astype(np.float32) for name, value in random_state(shape).items()}
    wanted = labels(with_state(shape, rounded), image)
    for engine in ENGINES.values():
        assert np.mean(load(half, engine=engine)(image) == wanted) > 0.999


@pytest.mark.parametrize("size", ["big", 1.5, (1, 2, 3), (640.0, 480.0), ("640", "480")])
def test_a_size_that_is_none_is_told(tmp_path: Path, size: Any) -> None:
    with pytest.raises(UsageError, match=r'give the longer side, \(WIDTH, HEIGHT\), or "own"'):
        load(write(tmp_path), engine="openvino", size=size)


def test_a_fixed_file_has_no_own_size(tmp_path: Path) -> None:
    model = onnx_reader.read(write(tmp_path))
    height, width = model.graph.input[0].type.tensor_type.shape.dim[2:]
    height.dim_value, width.dim_value = 48, 64
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(Exception, match='size "own": this network\'s file is fixed to 64x48'):
        load(tmp_path / "net.onnx", size="own")
