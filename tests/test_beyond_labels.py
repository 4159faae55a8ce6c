"""Networks that give maps of numbers: restored to the frame, clocked, written, and compared by relative error."""

from __future__ import annotations

import json
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from clockseg import (
    DataError,
    Session,
    Stage,
    StagedNetwork,
    UsageError,
    VideoError,
    alternating,
    difference,
    frame_oracle,
    load,
    parse_schedule,
    read_summary,
    read_trace,
    segment,
    skip_frame,
)
from clockseg.cli.main import main
from clockseg.datasets import read_data
from clockseg.evaluation.evaluate import evaluate
from clockseg.evaluation.metrics import Deviation, deviation
from clockseg.graph.sidecar import Input, Sidecar
from clockseg.networks.framing import Framing
from clockseg.segmenting.results import check_writes, read_values
from clockseg.video import Heat, LabelWriter, ValueWriter, open_clip
from networks import TINY, Builder, write_network, write_tiny
from toy_networks import write_clip
from video_making import picture, write_video

DEPTH = Sidecar(
    "depth", Input("input", 48, 32, pad_multiple=8), "depth", (("low",), ("mid",), ("deep",)), ("low", "mid", "deep")
)
EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "depth_and_edges.py"


def depth(channels: int = 1, *, squeezed: bool = False, pooled: bool = False, ids: bool = False) -> onnx.ModelProto:
    """Three stages and a positive map at stride 2: [1, channels, h / 2, w / 2], or what the options make of it."""
    build = Builder(5)
    low = build.block("input", 3, 8, stride=2, to="low")
    mid = build.block(low, 8, 12, stride=2, to="mid")
    deep = build.block(mid, 12, 16, stride=2, to="deep")
    small = build.up_to(build.conv(deep, 16, channels, kernel=1), low, channels)
    fused = build.node("Add", build.node("Add", small, build.conv(low, 8, channels, kernel=1)), small)
    last = build.node("Softplus", fused, to="" if squeezed or pooled or ids else "depth")
    if squeezed:
        build.node("Squeeze", last, build.constant(np.array([1], np.int64)), to="depth")
    if pooled:
        build.node("ReduceMean", last, build.constant(np.array([2, 3], np.int64)), to="depth", keepdims=0)
    if ids:
        build.node("ArgMax", last, to="depth", axis=1, keepdims=0)
    model = build.model({})
    rank, kind = 2 if pooled else 3 if squeezed or ids else 4, onnx.TensorProto.INT64 if ids else onnx.TensorProto.FLOAT
    model.graph.output.append(onnx.helper.make_tensor_value_info("depth", kind, [None] * rank))
    return model


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_network(tmp_path_factory.mktemp("depth"), depth(), DEPTH)


@pytest.fixture(scope="module")
def net(network: Path) -> StagedNetwork:
    return load(network, engine="openvino", threads=1)


@pytest.fixture
def video(tmp_path: Path) -> Path:
    return write_video(tmp_path / "drive.mp4", [picture(64, 44, seed) for seed in range(7)])


def loaded(folder: Path, model: onnx.ModelProto, sidecar: Sidecar = DEPTH) -> StagedNetwork:
    return load(write_network(folder, model, sidecar), engine="openvino", threads=1)


# Restoring.
def ramp(framing: Framing, frame: tuple[int, int], stride: int, axis: int) -> np.ndarray:
    """What a network that tells where in the frame a place lies would give, [1, 1, H / stride, W / stride]."""
    scaled, padded = framing.scaled(frame), framing.padded(frame)
    cells = -(-padded[axis] // stride)
    places = (np.arange(cells) + 0.5) * padded[axis] / cells * frame[axis] / scaled[axis] - 0.5
    other = -(-padded[1 - axis] // stride)
    row = np.broadcast_to(places, (other, cells)).astype(np.float32)
    return (row if axis == 0 else row.T)[None, None]


@pytest.mark.parametrize("stride", [1, 4, 8])
@pytest.mark.parametrize(
    ("framing", "frame"),
    [
        (Framing(480, 360, 32), (960, 540)),
        (Framing(480, 360, 32), (160, 90)),
        (Framing(512, 512, fixed=True), (1280, 720)),
        (Framing(48, 32, 8), (64, 44)),
        (Framing(pad_multiple=32), (97, 53)),
    ],
)
def test_a_map_lies_on_the_frame_where_it_was_computed(framing, frame, stride) -> None:
    image = np.zeros((frame[1], frame[0], 3), np.uint8)
    for axis in (0, 1):
        found = framing.restore({"depth": ramp(framing, frame, stride, axis)}, image)
        assert found.shape == (1, frame[1], frame[0])
        places = np.arange(frame[axis])
        wanted = places if axis == 0 else places[:, None]
        # At the picture's edge a map of some stride is level: there is nothing to interpolate to.
        edge = stride * frame[axis] / framing.scaled(frame)[axis]
        inside = (places >= edge) & (places < frame[axis] - edge)
        apart = np.abs(found[0] - wanted)
        assert (apart[:, inside] if axis == 0 else apart[inside]).max() < 0.5


def test_what_shapes_become(tmp_path) -> None:
    framing, image = Framing(48, 32, 8), np.zeros((44, 64, 3), np.uint8)
    values = np.random.default_rng(0).random((1, 2, 16, 24))
    two = framing.restore({"y": values.astype(np.float32)}, image)
    assert (two.shape, two.dtype) == ((2, 44, 64), np.float32)
    with pytest.raises(ValueError, match="read-only"):
        two[0, 0, 0] = 1
    flat = framing.restore({"y": values[:, 0]}, image)
    assert (flat.shape, flat.dtype) == ((44, 64), np.float64)
    np.testing.assert_allclose(flat, two[0], rtol=1e-5)
    half = framing.restore({"y": values.astype(np.float16)}, image)
    assert half.dtype == np.float32
    np.testing.assert_allclose(half, two, atol=1e-3)
    for other in (np.zeros((1, 7), np.float32), np.zeros((1, 384, 7), np.float32), np.zeros((1, 16, 24), np.int64)):
        assert framing.restore({"y": other}, image).shape == other.shape


# Running.
@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
@pytest.mark.parametrize(
    ("channels", "squeezed", "shape"), [(1, False, (1, 44, 64)), (2, False, (2, 44, 64)), (1, True, (44, 64))]
)
def test_cut_is_whole_and_has_the_frames_size(tmp_path, engine, channels, squeezed, shape) -> None:
    path = write_network(tmp_path, depth(channels, squeezed=squeezed), DEPTH)
    net = load(path, engine=engine, threads=1)
    session, image = Session(net, frame_oracle), picture(64, 44)
    for _ in range(2):
        found, whole = session(image), net.uncut()(image)
        assert found.shape == whole.shape == shape
        assert found.dtype == np.float32
        assert np.abs(found - whole).max() <= 1e-4 * np.abs(whole).max()


@pytest.mark.parametrize("gate", [difference(0.05, of="features"), difference(0.05, of="pixels")])
def test_clocks_that_need_no_labels(net, gate) -> None:
    session, image = Session(net, gate), picture(64, 44)
    first = session(image)
    np.testing.assert_array_equal(session(image), first)
    assert not session.record.fired[-1]
    other = session(255 - image)
    assert session.record.fired[-1]
    assert np.abs(other - first).max() > 0


def test_a_clock_that_needs_labels_is_refused_with_the_way_out(network, video, tmp_path, capsys) -> None:
    given = ["--network", str(network), "--engine", "openvino", "--schedule", "adaptive(0.2)"]
    assert main(["segment", str(video), *given, "--out", str(tmp_path / "out")]) == 2
    assert 'of="features"' in capsys.readouterr().err


# Writing.
def test_segment_writes_values(net, video, tmp_path) -> None:
    done = segment(video, tmp_path / "out", net, alternating)
    assert sorted(path.name for path in done.folder.iterdir()) == [
        "overlay.mp4",
        "summary.json",
        "trace.jsonl",
        "values.mkv",
    ]
    session = Session(net, alternating)
    expected = [session(frame.image) for frame in open_clip(video)]
    found = list(read_values(done.folder))
    assert len(found) == len(read_trace(done.folder)) == 7
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape == (1, 44, 64)
        np.testing.assert_allclose(a, b, rtol=5e-4)
    assert read_summary(done.folder)["classes"] == []


def test_npy_is_exact_and_an_older_result_goes(net, video, tmp_path) -> None:
    segment(video, tmp_path / "out", net, skip_frame(2))
    done = segment(video, tmp_path / "out", net, skip_frame(2), write=["npy"], overwrite=True, limit=3)
    assert sorted(path.name for path in done.folder.iterdir()) == ["npy", "summary.json"]
    session = Session(net, skip_frame(2))
    files = sorted((done.folder / "npy").iterdir())
    assert [file.name for file in files] == ["000000.npy", "000001.npy", "000002.npy"]
    for file, frame in zip(files, open_clip(video), strict=False):
        np.testing.assert_array_equal(np.load(file), session(frame.image))


def test_segment_on_the_command_line(network, video, tmp_path, capsys) -> None:
    given = ["--network", str(network), "--engine", "openvino", "--threads", "1", "--quiet"]
    assert main(["segment", str(video), "--out", str(tmp_path / "out"), *given]) == 0
    assert len(list(read_values(tmp_path / "out" / "drive"))) == 7
    assert main(["segment", str(video), "--out", str(tmp_path / "b"), *given, "--write", "labels"]) == 2
    assert "numbers" in capsys.readouterr().err
    given[1] = str(write_tiny(tmp_path))
    assert main(["segment", str(video), "--out", str(tmp_path / "b"), *given, "--write", "values"]) == 2
    assert "the network gives labels" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("options", "shape"), [({"ids": True, "channels": 3}, "int64"), ({"pooled": True}, r"\[1, 1\]")]
)
def test_what_is_no_map_is_told_and_leaves_nothing(tmp_path, video, options, shape) -> None:
    net = loaded(tmp_path, depth(**options))
    assert Session(net, frame_oracle)(picture(64, 44)).size
    with pytest.raises(UsageError, match=f"{shape}.*classes"):
        segment(video, tmp_path / "out", net, frame_oracle)
    assert not (tmp_path / "out").exists()


def test_kinds_of_files_by_network() -> None:
    assert check_writes(None) == ("labels", "overlay", "trace")
    assert check_writes(["npy"], "values") == ("npy",)
    with pytest.raises(UsageError, match=r"'png'.*values, overlay, trace, npy"):
        check_writes(["png"], "values")
    with pytest.raises(UsageError, match="'film'; there are"):
        check_writes(["film"])


def test_numbers_survive_the_video(tmp_path) -> None:
    rng = np.random.default_rng(0)
    maps = [rng.normal(0, 10.0**scale, (2, 21, 33)).astype(np.float32) for scale in (-3, 0, 3)]
    maps[1][0, 0, :5] = [0.0, -0.0, np.nan, np.inf, -np.inf]
    with ValueWriter(tmp_path / "values.mkv", fps=10) as writer:
        for values in maps:
            writer.append(values)
    assert writer.clipped == 0
    found = list(read_values(tmp_path / "values.mkv"))
    for a, b in zip(found, maps, strict=True):
        np.testing.assert_array_equal(a, b.astype(np.float16).astype(np.float32))


def test_maps_of_other_sizes_and_of_other_channels(tmp_path) -> None:
    with ValueWriter(tmp_path / "values.mkv") as writer:
        writer.append(np.full((8, 12), 2.0))
        writer.append(np.full((30, 20), 3.0))
        with pytest.raises(UsageError, match="channels"):
            writer.append(np.zeros((2, 8, 12)))
        writer.append(np.full((8, 12), -1e6))
    assert writer.clipped == 96
    assert [(values.shape, values.mean()) for values in read_values(tmp_path / "values.mkv")] == [
        ((8, 12), 2.0),
        ((8, 12), 3.0),
        ((8, 12), -65504.0),
    ]
    for bad in (np.zeros((3, 4), np.uint8), np.zeros((17, 4, 4), np.float32), np.zeros((0, 4), np.float32)):
        with pytest.raises(UsageError), ValueWriter(tmp_path / "bad.mkv") as writer:
            writer.append(bad)
    assert not (tmp_path / "bad.mkv").exists()


def test_a_label_video_is_no_value_video(tmp_path) -> None:
    with LabelWriter(tmp_path / "labels.mkv") as writer:
        writer.append(np.zeros((4, 4), np.uint8))
    with pytest.raises(VideoError, match="not a value video"):
        list(read_values(tmp_path / "labels.mkv"))


def test_the_overlay_runs_from_dark_to_bright_and_is_clear_where_nothing_is_known() -> None:
    values = np.linspace(0, 5, 100, dtype=np.float32).reshape(10, 10)
    values[0, 0] = np.nan
    image = np.full((10, 10, 3), 7, np.uint8)
    drawn = Heat()(image, values[None]).astype(int)
    assert drawn[0, 0].tolist() == [7, 7, 7]
    assert drawn[-1].sum() > 2 * drawn[0, 1:].sum() / 9 * 10 * 0.9
    heat = Heat()
    heat.levels(values)
    # One bright spot moves the scale by a tenth of the way, not at once.
    spot = np.where(values > 4, 50, values)
    assert heat.levels(spot)[5, 0] > 254 * 0.2
    assert Heat().levels(np.full((2, 2), np.nan)).tolist() == [[255, 255], [255, 255]]


# Comparing.
def test_a_deviation_is_a_sum() -> None:
    rng = np.random.default_rng(0)
    pairs = [(rng.random((3, 4)), rng.random((3, 4))) for _ in range(3)]
    total = sum((deviation(a, b) for a, b in pairs), Deviation())
    a, b = (np.stack(each) for each in zip(*pairs, strict=True))
    assert total.relative_error == pytest.approx(np.abs(a - b).mean() / np.abs(b).mean())
    assert total.worst == max(deviation(a, b).relative_error for a, b in pairs)
    assert total.frames == 3
    assert np.isnan(Deviation().relative_error)
    nothing = np.zeros((2, 2))
    assert deviation(nothing, nothing).relative_error == 0
    assert deviation(nothing + 1, nothing).relative_error == np.inf
    assert deviation(nothing, np.array([[1, np.nan], [1, 2]])).relative_error == 1
    assert deviation(nothing + np.nan, nothing + 1).relative_error == np.inf
    with pytest.raises(DataError, match="shapes"):
        deviation(np.zeros((2, 2)), np.zeros((2, 3)))


def test_evaluation_is_the_relative_error_against_the_uncut_network(net, tmp_path) -> None:
    write_clip(tmp_path / "data" / "a", 6, size=(64, 44), seed=1)
    write_clip(tmp_path / "data" / "b", 4, size=(40, 30), seed=2)
    clips = read_data(tmp_path / "data")
    every, skip = evaluate(net, {"every": frame_oracle, "skip": skip_frame(2)}, clips)
    assert every.deviation.relative_error < 1e-5
    assert skip.tally.fire_rate["deep"] == pytest.approx(3 / 8)
    total = Deviation()
    for clip in clips:
        session = Session(net, skip_frame(2))
        for frame in clip:
            total += deviation(session(frame.image), net.uncut()(frame.image))
    assert skip.deviation.relative_error == pytest.approx(total.relative_error)
    assert 0.001 < skip.deviation.relative_error <= skip.deviation.worst
    apart = [evaluate(net, {"skip": skip_frame(2)}, [clip])[0] for clip in clips]
    assert (apart[0] + apart[1]).deviation == skip.deviation
    with pytest.raises(UsageError, match="same schedule"):
        every + skip


def test_baselines_have_the_same_output(net, tmp_path) -> None:
    write_clip(tmp_path / "a", 2, size=(64, 44))
    clips = read_data(tmp_path / "a")
    other = loaded(tmp_path, depth(2), replace(DEPTH, name="two"))
    found = evaluate(net, {"every": frame_oracle}, clips, baselines=[("same", net)])
    assert found[1].deviation.relative_error == 0
    with pytest.raises(UsageError, match="two gives"):
        evaluate(net, {"every": frame_oracle}, clips, baselines=[("two", other)])


def test_evaluate_on_the_command_line(network, tmp_path, capsys) -> None:
    write_clip(tmp_path / "a", 5, labelled=2, size=(64, 44))
    given = ["evaluate", str(tmp_path / "a"), "--network", str(network), "--engine", "openvino", "--quiet"]
    given += ["--schedule", "frame_oracle", "--schedule", "skip_frame(2)"]
    assert main([*given, "--json"]) == 0
    every, skip = json.loads(capsys.readouterr().out)["schedules"]
    assert every["agreement"]["relative_error"] < 1e-5 < skip["agreement"]["relative_error"]
    assert skip["network_rate"] == 0.5
    assert main(given) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["schedule", "relative", "error", "worst"]
    assert len(rows) == 2


def test_labels_are_still_what_networks_with_classes_give(tmp_path) -> None:
    net = load(write_tiny(tmp_path, TINY), engine="openvino", threads=1)
    assert Session(net, frame_oracle)(picture(64, 44)).dtype == np.uint8


@pytest.mark.parametrize("command", ["inspect", "velocity"])
def test_other_commands_take_such_a_network(network, video, command, capsys) -> None:
    given = [str(network)] if command == "inspect" else [str(video), "--network", str(network)]
    assert main([command, *given, "--engine", "openvino"]) == 0
    assert "deep" in capsys.readouterr().out


def test_the_example(capsys) -> None:
    pytest.importorskip("torch", reason="needs torch")
    runpy.run_path(str(EXAMPLE), run_name="example")["main"]()
    rows = {row.split("  ")[0]: row for row in capsys.readouterr().out.splitlines()}
    assert list(rows) == [
        "skip_frame(2)",
        "alternating",
        'difference(0.2, of="features")',
        'difference(0.2, of="pixels")',
    ]
    for row in rows.values():
        depth, edges = (float(cell.strip(" ,%")) for cell in row.split("depth")[1].split("edges"))
        assert 0 < edges < depth < 20
    # While the bar rests no clock fires, and a fixed rate does.
    assert "48%  48%  48%" in rows["skip_frame(2)"]
    assert " 22%" in rows['difference(0.2, of="pixels")']


def numbers(function) -> StagedNetwork:
    """A network of one stage that gives what ``function`` returns for a frame."""
    sidecar = replace(DEPTH, cuts=(("map",),), stages=("map",))
    return StagedNetwork("numbers", (Stage("map", function, scores=None),), sidecar=sidecar)


def brightening(folder: Path, frames: int = 30) -> Path:
    """A video whose left half stays grey while its right half gets brighter and brighter."""
    images = []
    for number in range(frames):
        image = np.full((64, 96, 3), 100, np.uint8)
        image[:, 48:] = number * 250 // frames
        images.append(image)
    return write_video(folder / "ramp.mp4", images)


def test_a_colour_of_the_overlay_means_one_number_over_the_whole_video(tmp_path) -> None:
    net = numbers(lambda image: image[..., 0].astype(np.float32) / 255)

    found = segment(brightening(tmp_path), tmp_path / "out", net, frame_oracle)

    low, high = found.summary["value_scale"]
    assert low < 0.1
    assert high > 0.85
    with open_clip(tmp_path / "out" / "overlay.mp4") as clip:
        left = np.array([frame.image[8:56, 8:40].mean((0, 1)) for frame in clip])
    assert np.abs(left - left[0]).max() < 6


def test_a_matte_of_one_channel_is_written_and_drawn_over_its_whole_range(tmp_path) -> None:
    net = numbers(lambda image: (image[..., 0] > 90).astype(np.float32)[None])

    found = segment(brightening(tmp_path), tmp_path / "out", net, skip_frame(2))

    assert found.summary["value_scale"] == [0.0, 1.0]
    mattes = list(read_values(tmp_path / "out"))
    assert mattes[0][0, :, :40].min() == 1.0
    assert mattes[0][0, :, 56:].max() == 0.0


def test_numbers_that_change_though_the_picture_rests_flicker_and_less_from_both_sides(tmp_path) -> None:
    video = write_video(tmp_path / "still.mp4", [picture(96, 64, 1)] * 24)
    noise = np.random.default_rng(0)

    def shaky(image):
        return (image[..., 0] / 255 + noise.uniform(-0.1, 0.1)).astype(np.float32)

    def flicker(function, schedule: str) -> float:
        [found] = evaluate(numbers(function), {"it": parse_schedule(schedule)}, read_data(video))
        return found.facts()["flicker"]["flicker"]

    def steady(image):
        return (image[..., 0] / 255).astype(np.float32)

    every, both = flicker(shaky, "frame_oracle"), flicker(shaky, "carried(skip_frame(4), interpolate(flow))")

    assert flicker(steady, "frame_oracle") < 0.01
    assert every > 0.1
    assert both < every / 2
