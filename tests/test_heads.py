"""``train heads``: score maps for stages that have none, learnt from the network's own output."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
from onnx import helper

from clockseg import NetworkError, Session, UsageError, adaptive, frame_oracle, load
from clockseg.cli.main import main
from clockseg.clockwork.step import fill
from clockseg.datasets import Clip, read_data
from clockseg.graph import onnx_reader, sidecar
from clockseg.graph.heads import Head, feature_map, with_heads
from clockseg.graph.sidecar import Input, Sidecar
from clockseg.graph.static import fix
from clockseg.networks.framing import Framing
from clockseg.training.frames import HELD_OUT, plan
from clockseg.training.heads import Cells, Grid, draw, train_heads
from clockseg.training.logistic import fit
from networks import CLASSES, TINY, TWO_BRANCHES, Builder, tiny, two_branches, write_network
from video_making import write_video

BARE = replace(TINY, name="bare", scores=())
PLANTED = Sidecar(
    "planted",
    Input("input", 48, 32, pad_multiple=8, pad_value=(90, 90, 90)),
    "scores",
    (("low",), ("deep",)),
    ("low", "deep"),
    classes=CLASSES,
)


def planted(form: str = "map") -> onnx.ModelProto:
    """Labels that a linear head on the first stage can tell exactly; ``form``: how that stage's features lie."""
    build = Builder(3)
    features = build.node("Tanh", build.conv("input", 3, 8, stride=4), to="low" if form == "map" else "")
    low = "low"
    if form == "channels last":
        build.node("Transpose", features, to="low", perm=[0, 2, 3, 1])
        low = build.node("Transpose", "low", perm=[0, 3, 1, 2])
    if form == "tokens":
        rows = build.node("Reshape", features, build.constant(np.array([1, 8, -1], np.int64)))
        build.node("Transpose", rows, to="low", perm=[0, 2, 1])
        low = build.node("Reshape", build.node("Transpose", "low", perm=[0, 2, 1]), build.node("Shape", features))
    if form == "8 bits":
        scale, zero = build.constant(np.array(1 / 127, np.float32)), build.constant(np.array(0, np.int8))
        build.node("Identity", features, to="low")
        low = build.node("DequantizeLinear", build.node("QuantizeLinear", "low", scale, zero), scale, zero)
    deep = build.node("Mul", low, build.constant(np.array(2, np.float32)), to="deep")
    # Scores without a bias, so that the sign of mixed features decides.
    small = build.conv(deep, 8, len(CLASSES), kernel=1)
    full = build.up_to(small, "input", len(CLASSES))
    build.node("Identity", full, to="scores")
    return build.model({"scores": len(CLASSES)})


def frames(folder: Path, count: int, *, size: tuple[int, int] = (48, 32), seed: int = 0) -> Path:
    """A clip of blobs of colour that drift."""
    noise = np.random.default_rng(seed).integers(0, 256, (9, 3 * count + 12, 3)).astype(np.uint8)
    (folder / "images").mkdir(parents=True)
    for at in range(count):
        view = noise[:, 2 * at : 2 * at + 12]
        cv2.imwrite(str(folder / "images" / f"{at:03}.png"), cv2.resize(view, size, interpolation=cv2.INTER_CUBIC))
    return folder


def trained(tmp_path: Path, model: onnx.ModelProto, said: Sidecar, name: str = "out", **options):
    path = write_network(tmp_path, model, said)
    if not (tmp_path / "clip").exists():
        frames(tmp_path / "clip", 24)
    return train_heads(
        path, read_data(tmp_path / "clip"), tmp_path / f"{name}.onnx", engine="openvino", threads=1, **options
    )


# What a head learns.
def test_logistic_regression_is_scikit_learns() -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    x = rng.normal(3, [1, 20, 0.1, 5], (600, 4))
    scaled = (x - x.mean(axis=0)) / x.std(axis=0)
    labels = (scaled @ rng.normal(0, 1, (4, 3)) + rng.gumbel(size=(600, 3))).argmax(axis=1)
    weights = rng.uniform(0.2, 3, 600)
    found = fit(x, np.eye(3)[labels], weights, iterations=300)
    other = LogisticRegression(C=1 / (1e-4 * weights.sum()), max_iter=1000, tol=1e-8).fit(scaled, labels, weights)
    mine, theirs = x @ found.weight.T + found.bias, other.decision_function(scaled)
    np.testing.assert_allclose(
        mine - mine.mean(axis=1, keepdims=True), theirs - theirs.mean(axis=1, keepdims=True), atol=0.1
    )


def test_a_channel_that_never_changes_and_a_class_that_never_shows() -> None:
    x = np.stack([np.linspace(-1, 1, 50), np.full(50, 7.0)], axis=1)
    found = fit(x, np.eye(3)[(x[:, 0] > 0).astype(int)], np.ones(50))
    assert found.weight.shape == (3, 2)
    assert np.isfinite(found.weight).all()
    assert (found.weight[:, 1] == 0).all()
    assert set((x @ found.weight.T + found.bias).argmax(axis=1)) == {0, 1}


def test_rare_classes_weigh_more() -> None:
    shares = np.eye(2)[[0] * 99 + [1]].astype(np.float32)
    weights = Cells(np.zeros((100, 1)), shares).weights()
    assert weights[-1] / weights[0] == pytest.approx(np.sqrt(99), rel=1e-3)


def test_cells_lie_where_the_picture_is() -> None:
    framing = Framing(48, 32, pad_multiple=32, pad_value=(0, 0, 0))
    # 96x64 frames are scaled to 48x32 and padded to 64x32: at stride 8 the last two of eight columns hold nothing.
    grid = Grid.of((4, 8), framing, (96, 64))
    assert grid.shape == (4, 6)
    labels = np.zeros((64, 96), np.uint8)
    labels[16:32, 32:48] = 3
    labels[48:, 80:] = 255
    centres = grid.centres(labels)
    assert (centres[1, 2], (centres == 3).sum(), centres[3, 5]) == (3, 1, 255)
    shares = grid.shares(labels, np.array([1 * 6 + 2, 0, 23]), 4)
    assert shares.tolist() == [[0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0]]
    labels[16:32, 32:36] = 1
    assert grid.shares(labels, np.array([8]), 4).tolist() == [[0, 0.25, 0, 0.75]]
    features = np.arange(32, dtype=np.float32).reshape(1, 4, 8)
    drawn = draw(features, labels, grid, count=99, classes=4, random=np.random.default_rng(0))
    # All cells of the picture but the one of no class.
    assert sorted(drawn.features[:, 0]) == [row * 8 + column for row in range(4) for column in range(6)][:-1]


# Which frames.
def clip(count: int, name: str = "c") -> Clip:
    return Clip(name, Path(name), tuple(Path(f"{n}.jpg") for n in range(count)), (None,) * count)


def test_nothing_is_learnt_from_what_is_held_out() -> None:
    found = plan([clip(100), clip(7), clip(50)], frames=60)
    learn = {part.clip.images: part.places for part in found.learn}
    held = {part.clip.images: part.places for part in found.held_out}
    assert sum(map(len, learn.values())) == found.frames == 60
    for images, places in held.items():
        assert places == frozenset(range(len(images) - len(images) // 5, len(images)))
        assert not places & learn[images]
    assert len(held) == 2
    # Spread evenly: no gap is over three frames.
    first = sorted(learn[clip(100).images])
    assert max(b - a for a, b in itertools.pairwise(first)) <= 3


def test_single_pictures_and_long_videos() -> None:
    pictures = plan([clip(1, f"p{n}") for n in range(10)], frames=240)
    assert (pictures.frames, [part.clip.name for part in pictures.held_out]) == (8, ["p4", "p9"])
    long = plan([clip(5000)], frames=240)
    assert (long.frames, len(long.held_out[0].places)) == (240, HELD_OUT)


def test_the_length_of_a_video(tmp_path) -> None:
    pictures = [np.full((32, 48, 3), 9 * n, np.uint8) for n in range(11)]
    [video] = read_data(write_video(tmp_path / "v.mp4", pictures))
    assert video.expected() == 11
    assert replace(video, every=3).expected() == 4
    assert replace(video, every=3, limit=2).expected() == 2
    [part] = plan([video], frames=240).held_out
    seen = [int(image.mean()) for image in part.images(pytest.fail)]
    assert seen == pytest.approx([81, 90], abs=4)


# The whole of it.
@pytest.mark.parametrize("form", ["map", "channels last"])
def test_a_head_finds_what_is_there_in_any_form(tmp_path, form) -> None:
    found = trained(tmp_path, planted(form), PLANTED)
    [head] = found.facts["heads"]
    assert [head[name] for name in ("stage", "features", "channels", "scores")] == [
        "low",
        "low",
        8,
        "clockseg.scores.low",
    ]
    assert head["agreement"]["pixel_acc"] > 0.9
    assert head["agreement"]["mean_iu"] > 0.75
    net = load(found.path, engine="onnxruntime", threads=1)
    output, memory = fill(net, frame_oracle(2), np.full((32, 48, 3), 90, np.uint8))
    assert output.shape == (32, 48)
    assert net.stages[0].scores(memory.stages[0].held.value).shape == (1, len(CLASSES), 8, 12)


def test_a_network_in_8_bits_is_refused(tmp_path) -> None:
    with pytest.raises(NetworkError, match=r"'low' holds INT8.*Train heads on the network in float"):
        trained(tmp_path, planted("8 bits"), PLANTED)
    assert not (tmp_path / "out.onnx").exists()


def test_tokens_are_refused(tmp_path) -> None:
    with pytest.raises(NetworkError, match=r"'low' has shape \[1, 96, 8\].*--stage"):
        trained(tmp_path, planted("tokens"), PLANTED)
    assert not (tmp_path / "out.onnx").exists()


def test_the_network_stays_as_it_was(tmp_path) -> None:
    found = trained(tmp_path, tiny(), BARE)
    old, new = (onnx_reader.read(path) for path in (tmp_path / "bare.onnx", found.path))
    assert list(new.graph.node)[: len(old.graph.node)] == list(old.graph.node)
    assert list(new.graph.initializer)[: len(old.graph.initializer)] == list(old.graph.initializer)
    assert [value.name for value in new.graph.output][:4] == [value.name for value in old.graph.output]
    said = sidecar.read(found.path.with_suffix(".json"))
    assert said == replace(BARE, name="out", scores=("clockseg.scores.low", "clockseg.scores.mid", None))
    image = np.random.default_rng(0).integers(0, 256, (60, 90, 3), dtype=np.uint8)
    for engine in ("openvino", "onnxruntime"):
        before, after = (load(path, engine=engine, threads=1) for path in (tmp_path / "bare.onnx", found.path))
        value = before.prepare(image)
        for name, array in before.whole(value).items():
            np.testing.assert_array_equal(after.whole(value)[name], array)
        np.testing.assert_array_equal(Session(after, frame_oracle)(image), Session(before, frame_oracle)(image))


def test_clocks_watch_the_heads(tmp_path) -> None:
    found = trained(tmp_path, tiny(), BARE)
    with pytest.raises(UsageError, match="no class scores"):
        Session(load(tmp_path / "bare.onnx", engine="openvino", threads=1), adaptive(0.1))
    for engine in ("openvino", "onnxruntime"):
        session = Session(load(found.path, engine=engine, threads=1), adaptive(0.02, 0.02))
        fired = []
        for frame in read_data(tmp_path / "clip")[0]:
            for _ in range(2):  # what doesn't change doesn't fire
                session(frame.image)
                fired.append(session.record.fired)
        assert {True, False} == {stages[1] for stages in fired[1:]}
        assert all(signal is not None for signal in session.record.signal[1:2])


def test_a_head_is_its_convolution(tmp_path) -> None:
    found = trained(tmp_path, tiny(), BARE, stages=["mid"])
    net = load(found.path, engine="onnxruntime", threads=1)
    _, memory = fill(net, frame_oracle(3), np.full((32, 48, 3), 90, np.uint8))
    weights = {w.name: onnx.numpy_helper.to_array(w) for w in onnx.load(found.path).graph.initializer}
    features = net.stages[1].features(memory.stages[1].trunk.value)[0]
    wanted = np.tensordot(weights["clockseg.head.mid.weight"][:, :, 0, 0], features, 1)
    wanted += weights["clockseg.head.mid.bias"][:, None, None]
    np.testing.assert_allclose(net.stages[1].scores(memory.stages[1].held.value)[0], wanted, rtol=1e-3, atol=1e-3)
    assert net.stages[0].scores is None


def test_the_same_seed_gives_the_same_file(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("clockseg.training.heads.MOST_CELLS", 500)
    first, same, other = (
        trained(tmp_path, tiny(), BARE, "out", stages=["low"], seed=seed, frames=9).path.read_bytes()
        for seed in (0, 0, 1)
    )
    assert first == same != other


def test_heads_for_the_rest(tmp_path) -> None:
    found = trained(tmp_path, tiny(), replace(BARE, scores=("scores_1", None, None)))
    assert [head["stage"] for head in found.facts["heads"]] == ["mid"]
    assert sidecar.read(found.path.with_suffix(".json")).scores == ("scores_1", "clockseg.scores.mid", None)
    again = sidecar.read(found.path.with_suffix(".json"))
    with pytest.raises(UsageError, match="low, mid already"):
        train_heads(found.path, read_data(tmp_path / "clip"), tmp_path / "twice.onnx", engine="openvino")
    model = onnx.load(found.path)
    with pytest.raises(NetworkError, match="given heads before"):
        trained(tmp_path, model, replace(again, name="bare", scores=("scores_1", None, None)))


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"classes": (), "palette": ()}, {}, "no classes"),
        ({}, {"stages": ["midd"]}, "Did you mean mid"),
        ({}, {"stages": ["deep"]}, "all but the last"),
        ({"scores": ("scores_1", "scores_2", None)}, {}, "already"),
        ({"cuts": (("deep",),), "stages": ("deep",)}, {}, "one stage"),
        (
            {"cuts": (("deep",),), "stages": ("deep",)},
            {"stages": ["deep"]},
            "one stage, which no clock can watch; cut it",
        ),
        ({}, {"frames": 0}, "frames=0"),
    ],
)
def test_what_can_not_be_done_is_said_first(tmp_path, changes, options, message) -> None:
    with pytest.raises(UsageError, match=message):
        trained(tmp_path, tiny(), replace(BARE, **changes), **options)
    assert not (tmp_path / "out.onnx").exists()


def test_a_cut_of_several_tensors_gives_its_own_first_one() -> None:
    said = replace(TWO_BRANCHES, cuts=(("stem",), ("fine1", "coarse1"), ("fine2", "coarse2")))
    model = two_branches()
    static = fix(model, {"input": (1, 3, 24, 32)})
    found = feature_map(model, static, said.cuts[1][0], stage="stage2")
    assert (found.tensor, found.nodes, found.channels) == ("fine1", (), 8)


def test_features_with_channels_last_are_told_from_a_map_of_the_same_shape() -> None:
    """[1, 32, 64, 128]: at 512x256 it might be 32 channels of 64 rows, were it not made by a transpose."""
    build = Builder()
    low = build.conv("input", 3, 128, stride=8)
    build.node("Transpose", low, perm=[0, 2, 3, 1], to="last")
    model = build.model({})
    model.graph.output.append(helper.make_tensor_value_info("last", onnx.TensorProto.FLOAT, None))
    static = fix(model, {"input": (1, 3, 256, 512)})
    found = feature_map(model, static, "last", stage="s")
    assert ([node.op_type for node in found.nodes], found.channels) == (["Transpose"], 128)


def test_a_head_computes_in_the_networks_own_floats() -> None:
    build = Builder()
    half = build.node("Cast", build.block("input", 3, 4, stride=2), to="low")
    build.nodes[-1].attribute.append(helper.make_attribute("to", onnx.TensorProto.FLOAT16))
    model = build.model({})
    model.graph.output.append(helper.make_tensor_value_info(half, onnx.TensorProto.FLOAT16, [1, 4, None, None]))
    features = feature_map(model, fix(model, {"input": (1, 3, 16, 16)}), "low", stage="s")
    made = with_heads(model, [Head(features, np.ones((2, 4)), np.zeros(2))])
    onnx.checker.check_model(made, full_check=True)
    assert made.graph.output[-1].type.tensor_type.elem_type == onnx.TensorProto.FLOAT16


# The command.
def test_the_command(tmp_path, capsys) -> None:
    path = write_network(tmp_path, tiny(), BARE)
    frames(tmp_path / "data" / "a", 16)
    frames(tmp_path / "data" / "b", 12, seed=1, size=(60, 44))
    given = ["train", "heads", str(path), str(tmp_path / "data"), "--engine", "openvino", "--threads", "1"]
    out = tmp_path / "new" / "heads.onnx"
    assert main([*given, "--out", str(out)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].split()[:2] == ["stage", "features"]
    assert [line.split()[0] for line in told[1:3]] == ["low", "mid"]
    assert "clockseg tune" in told[-1]
    assert sorted(file.name for file in out.parent.iterdir()) == ["heads.json", "heads.onnx"]
    assert main([*given, "--out", str(out), "--json"]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main([*given, "--out", str(out), "--json", "--overwrite", "--stage", "mid", "--frames", "5"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["frames"], [head["stage"] for head in facts["heads"]]) == (5, ["mid"])
    assert main([*given, "--out", str(tmp_path / "x.pt")]) == 2
    assert ".onnx" in capsys.readouterr().err
    schedule = ["--schedule", "adaptive(0.05)", "--json", "--quiet", "--engine", "openvino"]
    assert main(["evaluate", str(tmp_path / "data"), "--network", str(out), *schedule]) == 0
    assert json.loads(capsys.readouterr().out)["schedules"][0]["agreement"]["pixel_acc"] > 0.3


def test_a_clip_that_can_not_be_read_is_told_and_the_rest_is_used(tmp_path, capsys) -> None:
    path = write_network(tmp_path, tiny(), BARE)
    frames(tmp_path / "a", 12)
    (tmp_path / "text.mp4").write_text("no video")
    (tmp_path / "a" / "labels").mkdir()
    (tmp_path / "a" / "labels" / "000.png").write_text("no labels: nobody asks for them")
    (tmp_path / "classes.json").write_text('{"classes": ["other", "ones"], "ignore": 255}')
    given = ["train", "heads", str(path), "--engine", "openvino", "--quiet", "--out", str(tmp_path / "out.onnx")]
    assert main([*given, *(str(tmp_path / name) for name in ("a", "nothing", "text.mp4"))]) == 1
    told = capsys.readouterr().err
    assert "nothing: no such file" in told
    assert "Clip text is left out" in told
    assert (tmp_path / "out.onnx").exists()
    for bad in ("nothing", "text.mp4"):
        assert main([*given, str(tmp_path / bad), "--overwrite"]) == 1


def test_pictures_that_break_off_are_used_as_far_as_they_go(tmp_path) -> None:
    folder = frames(tmp_path / "a", 6)
    (folder / "images" / "003.png").write_text("no picture")
    told: list[str] = []
    [part] = plan(read_data(folder), frames=240).learn
    assert len(list(part.images(told.append))) == 3
    assert "The rest of clip a is left out" in told[0]
