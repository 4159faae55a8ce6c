"""Corrections of propagated scores: the file that their training writes, the network in it, and its use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import pytest

import networks
from clockseg.carry import Flow, Warp
from clockseg.cli import main as commands
from clockseg.clocks.rates import carried, frame_oracle, skip_frame
from clockseg.clockwork.session import Session
from clockseg.datasets import read_data
from clockseg.errors import DataError, NetworkError, TrainingError, UsageError
from clockseg.graph import sidecar
from clockseg.graph.correction import network_alone, with_addition
from clockseg.networks.load import assemble, load, read
from clockseg.networks.quantization import quantize

pytest.importorskip("torch")

from recipes.fitting import Recipe
from recipes.street.correction.__main__ import main
from recipes.street.correction.fusion import repeated
from recipes.street.correction.training import Choices, train_correction

WARP = Warp(Flow(), of="fused")
QUICK = Choices(samples=12, recipe=Recipe(steps=6, batch=2))


def _picture(seed: int, shift: int = 0) -> np.ndarray:
    """Blobs, so that flow finds its way."""
    noise = np.random.default_rng(seed).integers(0, 256, (8, 16, 3)).astype(np.uint8)
    large = cv2.resize(noise, (96, 48), interpolation=cv2.INTER_CUBIC)
    return np.ascontiguousarray(large[8:40, shift : shift + 48])


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """A clip folder of frames that pan over one picture."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "clip" / "images").mkdir(parents=True)
    for shift in range(30):
        cv2.imwrite(str(folder / "clip" / "images" / f"{shift}.png"), _picture(1, shift))
    return folder


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    network = networks.write_tiny(folder)
    return train_correction(network, read_data(data), folder / "out", choices=QUICK, engine="openvino", threads=1).path


def _video() -> Iterator[np.ndarray]:
    return (_picture(3, shift) for shift in range(9))


def test_the_network_itself_is_the_same_bit_for_bit(trained) -> None:
    model, said = read(trained)
    plain, before = read(trained.parent.parent / "tiny.onnx")
    alone, added = network_alone(model, said)
    assert [node.SerializeToString() for node in alone.graph.node] == [n.SerializeToString() for n in plain.graph.node]
    assert {value.name for value in alone.graph.input} == {"input"}
    assert with_addition(alone, added).SerializeToString() == model.SerializeToString()
    assert replace(said, name="tiny", correction=None) == before
    for here, there in zip(_run(load(trained, threads=1), frame_oracle), _run(_plain(trained), frame_oracle)):
        assert np.array_equal(here, there)


def _plain(trained: Path):
    return load(trained.parent.parent / "tiny.onnx", threads=1)


def _run(net, schedule) -> list[np.ndarray]:
    session = Session(net, schedule)
    return [session(image) for image in _video()]


MOVING = carried(skip_frame(4), WARP)


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
def test_frames_that_are_not_fresh_are_corrected_and_fresh_ones_are_not(trained, engine) -> None:
    net = load(trained, engine=engine, threads=1)
    fresh = _run(net, frame_oracle)
    session = Session(net, MOVING)
    for t, image in enumerate(_video()):
        labels = session(image)
        assert labels.shape == image.shape[:2]
        assert session.record.propagated == ("corrected" if t % 4 else "")
        assert t % 4 or np.array_equal(labels, fresh[t])


def test_what_is_corrected_is_learnt(data, tmp_path) -> None:
    # Enough steps to overfit: what is corrected must come nearer to what the network gives than what is only moved.
    network = networks.write_tiny(tmp_path)
    choices = replace(QUICK, samples=20, recipe=Recipe(steps=80, batch=4))
    train_correction(network, read_data(data), tmp_path / "out", choices=choices, engine="openvino", threads=1)
    log = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
    losses = [entry["loss"] for entry in log if entry["event"] == "step"]
    assert losses[-1] < 0.8 * losses[0]


def test_it_starts_by_adding_nothing(data, tmp_path) -> None:
    network = networks.write_tiny(tmp_path)
    choices = replace(QUICK, recipe=Recipe(steps=1, batch=2, rate=0.0))
    found = train_correction(network, read_data(data), tmp_path / "out", choices=choices, engine="openvino", threads=1)
    net = load(found.path, threads=1)
    for here, there in zip(_run(net, MOVING), _run(_plain(found.path), carried(skip_frame(4), WARP))):
        assert np.array_equal(here, there)


def test_any_onnx_tool_runs_the_file(trained) -> None:
    import onnxruntime

    _, said = read(trained)
    given = {"input": np.zeros((1, 3, 32, 48), np.float32)}
    given[said.correction.moved] = np.zeros((1, 4, *_grid(said)), np.float32)
    given[said.correction.unexplained] = np.zeros((1, 1, *_grid(said)), np.float32)
    session = onnxruntime.InferenceSession(str(trained), providers=["CPUExecutionProvider"])
    scores, corrected = session.run([said.output, said.correction.output], given)
    assert scores.shape == corrected.shape == (1, 4, 32, 48)


def _grid(said: sidecar.Sidecar) -> tuple[int, int]:
    return 16, 24


def test_other_sizes_run(trained) -> None:
    net = load(trained, engine="onnxruntime", threads=1, size=(72, 56))
    session = Session(net, MOVING)
    shapes = {session(np.random.default_rng(0).integers(0, 256, (30, 41, 3)).astype(np.uint8)).shape for _ in range(3)}
    assert shapes == {(30, 41)}


def test_maps_of_odd_size(data, tmp_path) -> None:
    said = networks.renamed(networks.TINY, input=replace(networks.TINY.input, width=42, height=30, pad_multiple=2))
    network = networks.write_tiny(tmp_path, said)
    choices = replace(QUICK, recipe=Recipe(steps=2, batch=2))
    found = train_correction(network, read_data(data), tmp_path / "out", choices=choices, engine="openvino", threads=1)
    net = load(found.path, engine="onnxruntime", threads=1)
    assert {labels.shape for labels in _run(net, MOVING)} == {(32, 48)}


def test_a_video_is_learned_from(tmp_path) -> None:
    network = networks.write_tiny(tmp_path)
    video = str(tmp_path / "moving.mp4")
    writer = cv2.VideoWriter(video, cv2.VideoWriter_fourcc(*"mp4v"), 10, (48, 32))
    for shift in range(40):
        writer.write(_picture(3, shift))
    writer.release()
    choices = replace(QUICK, samples=6, recipe=Recipe(steps=3, batch=2))
    train_correction(network, read_data(video), tmp_path / "out", choices=choices, engine="openvino", threads=1)
    start = json.loads((tmp_path / "out" / "log.jsonl").read_text().splitlines()[0])
    assert start["samples"] >= 4


def test_training_is_resumed_and_not_overwritten(data, tmp_path) -> None:
    network = networks.write_tiny(tmp_path)
    options = {"engine": "openvino", "threads": 1}
    train_correction(network, read_data(data), tmp_path / "out", choices=QUICK, **options)
    with pytest.raises(UsageError, match="--resume"):
        train_correction(network, read_data(data), tmp_path / "out", choices=QUICK, **options)
    longer = replace(QUICK, resume=True, recipe=Recipe(steps=9, batch=2))
    train_correction(network, read_data(data), tmp_path / "out", choices=longer, **options)
    steps = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in steps if entry["event"] == "step"] == list(range(1, 10))
    with pytest.raises(UsageError, match=r'"seed": 0.*"seed": 1.*without --resume'):
        train_correction(network, read_data(data), tmp_path / "out", choices=replace(longer, seed=1), **options)


def test_a_training_whose_loss_is_no_number_ends_with_its_step(tmp_path) -> None:
    import torch

    from recipes.fitting import fit

    def loss_of(net: Any, random: np.random.Generator) -> Any:
        return net.weight.sum() * (np.nan if random.integers(0, 2) else 1)

    net = torch.nn.Linear(1, 1)
    with pytest.raises(TrainingError, match=r"the loss is nan at step \d"):
        fit(net, loss_of, Recipe(steps=50, batch=1), tmp_path / "state.pt", settings={})


def test_a_correction_is_replaced_by_another(trained, data, tmp_path) -> None:
    again = train_correction(
        trained, read_data(data), tmp_path, choices=QUICK, name="again", engine="openvino", threads=1
    )
    model, said = read(again.path)
    assert sum(value.name == said.correction.output for value in model.graph.output) == 1


def test_what_cant_be_trained_is_refused(data, tmp_path) -> None:
    network = networks.write_tiny(tmp_path)
    with pytest.raises(DataError, match="no clip other to hold out"):
        train_correction(
            network, read_data(data), tmp_path / "y", choices=replace(QUICK, hold_out=("other",)), threads=1
        )
    bare = networks.write_tiny(tmp_path, networks.renamed(networks.TINY, name="bare", classes=(), palette=()))
    with pytest.raises(UsageError, match="no classes"):
        train_correction(bare, read_data(data), tmp_path / "z", choices=QUICK)


def test_files_that_are_not_what_their_sidecar_says(trained) -> None:
    model, said = read(trained)
    for change, message in (
        ({"moved": "x"}, "'x', which is not an input"),
        ({"output": "x"}, "'x', which is not an output"),
        ({"of": "x"}, "correction is of 'x', but in network"),
    ):
        wrong = replace(said, correction=replace(said.correction, **change))
        with pytest.raises(NetworkError, match=message):
            assemble(model, wrong, engine=None)
    text = json.loads(sidecar.dump(said)) | {"correction": {"output": "corrected"}}
    with pytest.raises(NetworkError, match=r"has no correction\.of"):
        sidecar.parse(json.dumps(text), source="x.json")
    text["correction"] = json.loads(sidecar.dump(said))["correction"] | {"reads": "low"}
    with pytest.raises(NetworkError, match=r"unknown field correction\.reads"):
        sidecar.parse(json.dumps(text), source="x.json")
    text["correction"]["reads"] = None
    assert sidecar.parse(json.dumps(text), source="x.json") == said


def test_sidecars_keep_it(trained) -> None:
    _, said = read(trained)
    assert sidecar.parse(sidecar.dump(said), source="x.json") == said


def test_in_eight_bits_it_keeps_its_correction(trained, data, tmp_path) -> None:
    made = quantize(
        trained, read_data(data), tmp_path / "int8.onnx", frames=3, repeat=1, engine="onnxruntime", threads=1
    )
    net = load(made.file, engine="onnxruntime", threads=1)
    assert net.correction is not None
    session = Session(net, MOVING)
    records = [(session(image), session.record.propagated)[1] for image in _video()]
    assert records[1:4] == ["corrected"] * 3
    onnx.checker.check_model(read(made.file)[0])


def test_inspect_tells_of_it(trained, capsys) -> None:
    assert commands.main(["inspect", str(trained), "--engine", "onnxruntime", "--threads", "1", "--repeat", "2"]) == 0
    assert "correction" in capsys.readouterr().out


def test_as_a_command(data, tmp_path, capsys) -> None:
    network = networks.write_tiny(tmp_path)
    out = tmp_path / "out"
    line = [str(network), str(data), "--out", str(out), "--samples", "8", "--steps", "2"]
    assert main([*line, "--engine", "openvino", "--threads", "1"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("frames old")
    assert str(out / "tiny-stale.onnx") in printed
    assert main([*line, "--quiet"]) == 2
    assert "--resume" in capsys.readouterr().err


def test_constants_on_the_way_may_stand_behind_a_long_chain() -> None:
    build = networks.Builder()
    coarse = build.conv("input", 3, 4, stride=4, to="coarse")
    factor = build.constant(np.ones((1, 4, 1, 1), np.float32))
    for _ in range(1200):
        factor = build.node("Identity", factor)
    build.node("Mul", coarse, factor, to="scores")
    made = repeated(build.model({"scores": 4}).graph, "coarse", "scores", reads="moved", prefix="again.")
    assert len(made) == 1201
    assert (list(made[-1].input), list(made[-1].output)) == (["moved", f"again.{factor}"], ["again.scores"])
