"""Clocks that a graph makes: what it may read, how it fires, and how one is trained."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from clockseg import Session, UsageError, parse_schedule, run
from clockseg.carry import Flow, Warp, identity
from clockseg.clocks import PICTURE, budget, learned
from clockseg.clocks.rates import carried
from clockseg.clockwork.network import Group, Stage, StagedNetwork
from clockseg.clockwork.schedule import schedule_for
from clockseg.datasets import Clip
from clockseg.execution.recording import needs, record, replay
from clockseg.files import InputChanged

WARP = Warp(Flow())


def brightness(image: np.ndarray) -> np.ndarray:
    return image[None, None, ::4, ::4, 0].astype(np.float32)


NET = StagedNetwork(
    "light",
    (Stage("a", brightness), Stage("b", lambda trunk: trunk * 2)),
    (Group("sum", ("a", "b"), lambda a, b: a + b),),
    finish=lambda value: {"labels": (value[:, 0] > 384).astype(np.uint8)},
    restore=lambda value, image: value["labels"][0],
)


def clock(path: Path, inputs: dict[str, list], read: str, *, output: str = "Identity") -> str:
    """A clock that gives the mean of its input ``read``."""
    rank = len(inputs[read])
    nodes = [helper.make_node("ReduceMean", [read], ["mean"], axes=list(range(1, rank)), keepdims=0)]
    nodes.append(helper.make_node(output, ["mean"], ["out"]))
    graph = helper.make_graph(
        nodes,
        "clock",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, path)
    return str(path)


def grey(level: int) -> np.ndarray:
    return np.full((48, 64, 3), level, np.uint8)


def moving(count: int) -> list[np.ndarray]:
    import cv2

    noise = np.random.default_rng(0).integers(0, 256, (12, 32, 3), dtype=np.uint8)
    wide = cv2.resize(noise, (256, 96), interpolation=cv2.INTER_CUBIC)
    return [np.ascontiguousarray(wide[:, 3 * t : 3 * t + 128]) for t in range(count)]


def test_it_reads_the_picture_now_and_at_the_last_firing(tmp_path: Path) -> None:
    levels = [0, 51, 102, 204, 51]
    for name in ("now", "fired"):
        file = clock(tmp_path / f"{name}.onnx", {name: [1, 1, 6, 8]}, name)
        records = [record for _, record in run(NET, map(grey, levels), learned(file, 0.5))]
        told = [record.signal[0] for record in records[1:]]
        # Of "fired" it fires never, so that what was last fired on stays the first frame, which is black.
        wanted = [0.2, 0.4, 0.8, 0.2] if name == "now" else [0.0] * 4
        assert told == pytest.approx(wanted, abs=1e-6)
    fired = [record.fired[0] for _, record in run(NET, map(grey, levels), learned(str(tmp_path / "now.onnx"), 0.5))]
    assert fired == [True, False, False, True, False]


def test_it_fires_by_what_motion_leaves_unexplained(tmp_path: Path) -> None:
    file = clock(tmp_path / "r.onnx", {"residual": [1, 1, 6, 8]}, "residual")
    images = [*moving(3), grey(0), grey(0)]
    fired = [record.fired[0] for _, record in run(NET, images, carried(learned(file, 0.4), WARP))]
    assert fired == [True, False, False, True, False]
    with pytest.raises(UsageError, match="estimates none"):
        Session(NET, learned(file, 0.4))


@pytest.mark.parametrize(
    "inputs",
    [
        {"picture": [1, 1, 6, 8]},
        {"now": [1, 3, 6, 8]},
        {"now": [1, 1, "h", 8]},
        {"since": [1, 2]},
        {"history": [1, 5, 8]},
    ],
)
def test_what_no_clock_is_given_is_refused_with_what_is(tmp_path: Path, inputs: dict[str, list]) -> None:
    file = clock(tmp_path / "x.onnx", inputs, next(iter(inputs)))
    with pytest.raises(UsageError, match="Allowed inputs are:\nnow, fired"):
        learned(file)


def test_what_isnt_a_clock_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give the path of a clock"):
        learned(str(tmp_path / "none.onnx"))
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"no graph")
    with pytest.raises(UsageError, match="not a valid ONNX file"):
        learned(str(bad))
    file = clock(tmp_path / "s.onnx", {"since": [1, 1]}, "since", output="Exp")
    with pytest.raises(UsageError, match="must be one number"):
        list(run(NET, [grey(0)] * 2, learned(file)))


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        (
            [("NonZero", "now", "a"), ("Cast", "a", "b"), ("ReduceSum", "b", "out")],
            "whose size is not fixed or too large",
        ),
        ([("Tile", "now,large", "a"), ("ReduceSum", "a", "out")], "whose size is not fixed or too large"),
        (
            [("Resize", "black,,twice", "a"), ("Sum", "a,since", "b"), ("ReduceSum", "b", "out")],
            "resizes along the batch",
        ),
        ([("ReduceSum", "black", "out")], "depend on 0 inputs"),
        ([("File", "now", "a"), ("ReduceSum", "a", "out")], "No Op registered for File"),
    ],
)
def test_what_an_engine_might_not_survive_is_refused(tmp_path: Path, nodes: list[tuple], why: str) -> None:
    options = {"ReduceSum": {"keepdims": 0}, "Cast": {"to": TensorProto.FLOAT}, "File": {"domain": "clockseg"}}
    graph = helper.make_graph(
        [helper.make_node(kind, given.split(","), [made], **options.get(kind, {})) for kind, given, made in nodes],
        "clock",
        [
            helper.make_tensor_value_info("now", TensorProto.FLOAT, [1, 1, 6, 8]),
            helper.make_tensor_value_info("since", TensorProto.FLOAT, [1, 1]),
        ],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [])],
        [
            helper.make_tensor("large", TensorProto.INT64, [4], [1, 1, 2000, 2000]),
            helper.make_tensor("black", TensorProto.FLOAT, [8, 3, 3, 3], [0.0] * 216),
            helper.make_tensor("twice", TensorProto.FLOAT, [4], [2.0, 1.0, 1.0, 1.0]),
        ],
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("clockseg", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "x.onnx")
    with pytest.raises(UsageError, match=why):
        learned(str(tmp_path / "x.onnx"))


@pytest.mark.parametrize("limit", ["MOST_BYTES", "MOST_NODES"])
def test_a_large_file_is_no_clock(tmp_path: Path, monkeypatch, limit: str) -> None:
    monkeypatch.setattr(sys.modules["clockseg.clocks.learned"], limit, 1)
    with pytest.raises(UsageError, match="too large"):
        learned(clock(tmp_path / "x.onnx", {"since": [1, 1]}, "since"))


def test_inputs_that_do_not_matter_are_not_made(tmp_path: Path) -> None:
    one = learned(clock(tmp_path / "x.onnx", {"since": [1, 1], "residual": [1, 1, 6, 8], "now": [1, 1, 6, 8]}, "since"))
    assert one.watches(1) == frozenset()
    assert not one.needs_motion


def test_a_clock_is_of_one_version_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "c.onnx"
    one = learned(clock(path, {"now": [1, 1, 6, 8]}, "now"))
    assert one.watches(1) == {PICTURE}
    clock(path, {"since": [1, 1]}, "since")
    for old in (one, replace(one, threshold=0.5)):
        with pytest.raises(InputChanged, match=r"c\.onnx: it was replaced"):
            old.watches(1)
    new = learned(str(path))
    assert new.watches(1) == frozenset()
    clock(path, {"now": [1, 1, 6, 8]}, "now")
    with pytest.raises(InputChanged, match=r"c\.onnx"):
        list(run(NET, map(grey, [0, 1]), new))


def test_replayed_it_decides_as_it_did(tmp_path: Path) -> None:
    file = clock(tmp_path / "now.onnx", {"now": [1, 1, 6, 8], "since": [1, 1]}, "now")
    schedule = schedule_for(parse_schedule(f'learned("{file}", 0.5)'), 2)
    images = [grey(level) for level in (0, 200, 30, 150)]
    recording = record(NET, images, keep=needs(NET, [schedule]))
    ran = [(one.fired, one.signal) for _, one in run(NET, images, schedule)]
    assert [(one.fired, one.signal) for one in replay(recording, schedule)] == ran


def test_a_budget_keeps_to_its_rate_by_it(tmp_path: Path) -> None:
    file = clock(tmp_path / "now.onnx", {"now": [1, 1, 6, 8]}, "now")
    levels = np.random.default_rng(1).integers(100, 116, 120)  # no cuts
    records = [record for _, record in run(NET, map(grey, levels.tolist()), budget(learned(file), network_rate=0.25))]
    assert abs(sum(record.fired[0] for record in records[1:]) / 119 - 0.25) < 0.03


def clip_of(images: list[np.ndarray]) -> Clip:
    """Pictures in memory as a clip."""
    paths = tuple(Path(f"{index}.png") for index in range(len(images)))
    return Clip("made", Path("made"), paths, (None,) * len(images), read_image=lambda path: images[int(path.stem)])


@pytest.mark.parametrize("carry", [WARP, identity])
def test_training_writes_a_clock_that_runs(tmp_path: Path, monkeypatch, carry) -> None:
    pytest.importorskip("torch")
    from clockseg.training import clock as training

    monkeypatch.setattr(training, "load", lambda network, **options: NET)
    out = tmp_path / "c.onnx"
    choices = {"carry": carry, "passes": 2, "steps": 6}
    found = training.train_clock("light", [clip_of(moving(20))], out, **choices)
    said = json.loads(out.with_suffix(".json").read_text())
    assert said["trained"]["carry"] == str(carry)
    assert said["inputs"][-1] == "since"
    assert set(found["held_out"]["agreement"][0]["firings"]) >= {"learned", "fixed rate"}
    before = out.read_bytes()
    training.train_clock("light", [clip_of(moving(20))], out, **choices)
    assert out.read_bytes() == before
    told = [record.signal[0] for _, record in run(NET, moving(4), carried(learned(str(out)), carry))]
    assert all(0 <= one <= 1 for one in told[1:])


def test_the_graph_gives_what_the_net_in_torch_gives(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from clockseg.clocks.learned import load
    from clockseg.training.clock import ClockNet, exported, inputs_of

    inputs = inputs_of(motion=True)
    torch.manual_seed(0)
    net = ClockNet(torch.rand(4), torch.rand(4) + 0.5).eval()
    onnx.save(exported(net, inputs), tmp_path / "n.onnx")
    values = {name: np.random.default_rng(0).random(shape, np.float32) for name, shape in inputs.items()}
    with torch.no_grad():
        wanted = net(*map(torch.from_numpy, values.values())).item()
    assert load(str(tmp_path / "n.onnx")).run(values).item() == pytest.approx(wanted, abs=1e-5)


def test_samples_are_what_would_be_shown_against_the_network() -> None:
    pytest.importorskip("torch")
    from clockseg.training.clock import samples, takes

    levels = [0, 255] * 12
    clip = clip_of([grey(level) for level in levels])
    learn, held = takes(NET, [clip], identity, frames=24, warn=print)
    assert (len(learn.recording), len(held.recording)) == (20, 4)
    values, change = samples(learn, identity, {"now": (1, 1, 6, 8), "fired": (1, 1, 6, 8)}, passes=2, seed=0)
    apart = np.abs(values["now"] - values["fired"]).mean((1, 2, 3))
    assert 0 < change.mean() < 1
    assert np.allclose(apart, change)  # black shown on white changes all labels, black on black none
