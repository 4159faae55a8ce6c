"""``clockseg cut`` on ONNX files of all sorts: what it settles, what it writes, what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import networks
from clockseg.cli.cut import report
from clockseg.cli.main import main
from clockseg.errors import DataError, NetworkError, UsageError
from clockseg.graph import onnx_reader, sidecar
from clockseg.graph.sidecar import Input, Sidecar
from clockseg.graph.static import Static
from clockseg.networks import checking, cutting
from clockseg.networks.cutting import cut_network
from clockseg.networks.ends import class_axis
from clockseg.networks.load import load
from clockseg.networks.settling import Cutting, Settled, settle
from clockseg.networks.source import Said, Source, read_class_names

SIZE = (96, 64)
SAID = Said(size=SIZE, mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3), output="scores")
BY_WORK = Cutting(measured=False)
"""Times differ from run to run; multiply-adds don't."""
FLAGS = ("--size", "96x64", "--mean", "0.5,0.4,0.3", "--std", "0.2,0.25,0.3", "--engine", "openvino")


def saved(folder: Path, model: onnx.ModelProto, name: str = "model") -> Path:
    onnx.save(model, folder / f"{name}.onnx")
    return folder / f"{name}.onnx"


def cut(folder: Path, model: onnx.ModelProto, said: Said = SAID, cutting: Cutting = BY_WORK, **options: Any) -> Any:
    return cut_network(
        saved(folder, model), folder / "net.onnx", said=said, cutting=cutting, engine="openvino", repeat=1, **options
    )


def settled(folder: Path, model: onnx.ModelProto, said: Said = SAID, cutting: Cutting = BY_WORK) -> Settled:
    """All but running and writing it."""
    return settle(Source(onnx_reader.read(saved(folder, model)), "model"), said, cutting, "net")


def labels_by_reference(model: onnx.ModelProto, image: np.ndarray, output: str, *, bgr: bool = False) -> np.ndarray:
    """What the file gives for the frame, prepared by hand."""
    pixels = (image[..., ::-1] if bgr else image).astype(np.float32) / 255
    x = ((pixels - np.array(SAID.mean, np.float32)) / np.array(SAID.std, np.float32)).transpose(2, 0, 1)[None]
    [scores] = ReferenceEvaluator(model).run([output], {"input": x})
    return scores


def frame() -> np.ndarray:
    return checking.picture(SIZE)


def followed_by(model: onnx.ModelProto, nodes: list[onnx.NodeProto], kind: int, weights: Any = ()) -> onnx.ModelProto:
    """``model`` whose only output is what the last of ``nodes`` makes."""
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(weights)
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info(nodes[-1].output[0], kind, None))
    model.graph.output[0].type.tensor_type.shape.SetInParent()
    for _ in range(4 if kind == TensorProto.FLOAT else 3):
        model.graph.output[0].type.tensor_type.shape.dim.add()
    return model


# What is written


def test_the_file_is_copied_and_the_sidecar_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, classes = saved(tmp_path, networks.tiny()), tmp_path / "names.txt"
    classes.write_text("\n".join(networks.CLASSES))
    out = tmp_path / "new" / "net.onnx"
    flags = [*FLAGS, "--output", "scores", "--at", "low,mid,deep", "--colour", "bgr", "--classes", str(classes)]
    assert main(["cut", str(source), *flags, "--out", str(out)]) == 0
    assert out.read_bytes() == source.read_bytes()
    said = sidecar.read(out.with_suffix(".json"))
    assert said.cuts == (("low",), ("mid",), ("deep",))
    assert said.classes == networks.CLASSES
    assert (said.input.width, said.input.height, said.input.colour, said.ignore) == (96, 64, "bgr", 255)
    assert sorted(file.name for file in out.parent.iterdir()) == ["net.json", "net.onnx"]
    net = load(out, engine="openvino")
    scores = labels_by_reference(networks.tiny(), frame(), "scores", bgr=True)[0]
    second, first = np.sort(scores, axis=0)[-2:]
    sure = first - second > 1e-3
    assert np.array_equal(net(frame())[sure], scores.argmax(0)[sure])
    told = capsys.readouterr().out
    for line in ("stage 2 ends at mid 1x12x16x24", "clockseg segment VIDEO --network", "outputs in stages and whole: "):
        assert line in told


def test_the_time_of_the_default_schedule_is_measured_on_a_made_video(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [*FLAGS, "--output", "scores", "--at", "low,mid,deep", "--out", str(tmp_path / "net.onnx")]
    source = str(saved(tmp_path, networks.tiny()))
    assert main(["cut", source, *flags]) == 0
    told = capsys.readouterr().out
    found = re.search(r"on a made video it takes (\d+\.\d\d) of the uncut network's time", told)
    assert found is not None
    assert ("Estimating motion takes longer than this network" in told) == (float(found[1]) > 1)
    assert main(["cut", source, *flags, "--overwrite", "--schedule", "skip_frame(2)"]) == 0
    assert "made video" not in capsys.readouterr().out


def test_the_next_lines_name_what_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = cut(tmp_path, networks.unet(), cutting=Cutting(at="enc1,enc2,enc3"))
    for there in ((), ("onnxruntime",)):
        monkeypatch.setattr("importlib.util.find_spec", lambda name, there=there: name in there or None)
        told = report(found)
        assert ("clockseg quantize" in told) == ("onnxruntime" in there)


def test_names_of_classes_may_be_given_as_a_list(tmp_path: Path) -> None:
    source, out = saved(tmp_path, networks.tiny()), tmp_path / "net.onnx"
    flags = [*FLAGS, "--output", "scores", "--at", "low,mid,deep", "--classes", ", ".join(networks.CLASSES)]
    assert main(["cut", str(source), *flags, "--out", str(out)]) == 0
    assert sidecar.read(out.with_suffix(".json")).classes == networks.CLASSES


@pytest.mark.parametrize("name", ["names.txt", "nowhere.onnx"])
def test_a_file_that_is_no_network_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (tmp_path / "names.txt").write_text("road\ncar")
    assert main(["cut", str(tmp_path / name), *FLAGS, "--out", str(tmp_path / "net.onnx")]) == 1
    assert "Give a complete ONNX file, NAME.onnx" in capsys.readouterr().err.replace("\n", " ")


def test_what_is_settled_is_told_with_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = saved(tmp_path, networks.unet())
    assert main(["cut", str(source), *FLAGS, "--out", str(tmp_path / "net.onnx")]) == 0
    told = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: line for line in told if line.startswith("  ")}
    assert "the only input" in rows["input"]
    assert "scores" in rows["output"]
    assert "without names" in rows["classes"]
    assert " 4 " in rows["pad"]
    assert sidecar.read(tmp_path / "net.json").input.pad_multiple == 4


def test_every_option_arrives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    seen = []
    monkeypatch.setattr(cutting, "settle", lambda *given: seen.append(given) or _end())
    classes = tmp_path / "classes.json"
    classes.write_text('{"classes": ["a", "b"], "palette": [[1, 2, 3], [4, 5, 6]]}')
    flags = ["--size", "96x64", "--mean", "120", "--std", "60,61,62", "--scale", "1/128", "--colour", "bgr"]
    flags += ["--pad-multiple", "8", "--output", "scores", "--classes", str(classes)]
    flags += ["--ignore", "7", "--schedule", "alternating", "--stages", "2"]
    assert main(["cut", str(saved(tmp_path, networks.tiny())), *flags, "--out", str(tmp_path / "net.onnx")]) == 1
    [(source, said, wanted, name)] = seen
    assert said == Said(
        "scores", ("a", "b"), ((1, 2, 3), (4, 5, 6)), 7, SIZE, (120.0,) * 3, (60.0, 61.0, 62.0), 1 / 128, "bgr", 8
    )
    assert wanted == Cutting(stages=2, schedule="alternating")
    assert (source.name, name) == ("model", "net")


def _end() -> None:
    raise NetworkError("that is enough")


def test_scores_of_stages_are_found_and_watched(tmp_path: Path) -> None:
    found = cut(tmp_path, networks.tiny(), cutting=Cutting(at="low,mid,deep"))
    assert found.sidecar.scores == ("scores_1", "scores_2", "scores_3")
    assert len(load(found.file, engine="openvino")) == 3


def test_features_of_as_many_channels_are_no_scores(tmp_path: Path) -> None:
    found = cut(tmp_path, networks.unet(channels=4), cutting=Cutting(at="enc1,enc2,enc3"))
    assert len(found.sidecar.classes) == 4  # as enc1 has channels
    assert found.sidecar.scores == ()


def test_the_choice_is_told(tmp_path: Path) -> None:
    found = settled(tmp_path, networks.tiny())
    assert found.choice.cuts == found.sidecar.cuts
    assert 0 < found.choice.every_frame < 1
    by_work = settled(tmp_path, networks.tiny(), cutting=Cutting(stages=2, measured=False))
    assert len(by_work.sidecar.cuts) == 2
    assert by_work.choice.work == "the multiply-adds"


def test_times_choose_where_they_are_measured(tmp_path: Path) -> None:
    choice = settled(tmp_path, networks.tiny(), cutting=Cutting()).choice
    assert choice.every_frame > 0
    assert choice.work == "the uncut network's time, measured node by node"


def test_a_network_without_skips_is_told_of(tmp_path: Path) -> None:
    found = settled(tmp_path, networks.no_skip(), cutting=Cutting(at="low,deep"))
    assert "the output does not change" in found.notes[0]
    assert settled(tmp_path, networks.tiny(), cutting=Cutting(at="low,mid,deep")).notes == ()


def test_weights_outside_the_file_come_inside(tmp_path: Path) -> None:
    model = networks.tiny()
    (tmp_path / "there").mkdir()
    onnx.save(model, tmp_path / "there" / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    out = tmp_path / "net.onnx"
    cut_network(tmp_path / "there" / "m.onnx", out, said=SAID, cutting=BY_WORK, engine="openvino", repeat=1)
    assert load(out, engine="openvino")(frame()).shape == (64, 96)


# Names


def test_names_of_nodes(tmp_path: Path) -> None:
    found = settled(tmp_path, networks.tiny(), cutting=Cutting(at="node_low, mid ,node_deep"))
    assert found.sidecar.cuts == (("low",), ("mid",), ("deep",))


def test_paths_of_modules(tmp_path: Path) -> None:
    model = networks.tiny()
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = [f"/enc/layer{name}/Relu_output_0" if name in ("mid", "deep") else name for name in names]
    del model.graph.output[2:]
    found = settled(tmp_path, model, cutting=Cutting(at="low,enc.layermid,/enc/layerdeep"))
    assert found.sidecar.cuts[1:] == (("/enc/layermid/Relu_output_0",), ("/enc/layerdeep/Relu_output_0",))


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("low,mit,deep", "'mit' is not a tensor, node or module of this network. Did you mean mid"),
        ("low,,deep", "a name is missing"),
        ("deep,mid", "out of order"),
        ("low,mid,scores_1", "different branches"),
        ("input,mid", "network's input"),
    ],
)
def test_cuts_that_are_none(tmp_path: Path, at: str, said: str) -> None:
    with pytest.raises(NetworkError) as raised:
        settled(tmp_path, networks.tiny(), cutting=Cutting(at=at))
    assert said in str(raised.value)
    assert not (tmp_path / "net.json").exists()


# Outputs


def argmax(axis: int, read: str = "scores", keepdims: int = 0) -> onnx.NodeProto:
    return helper.make_node("ArgMax", [read], ["ids"], axis=axis, keepdims=keepdims)


def test_scores_are_found_behind_an_argmax(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Softmax", ["scores"], ["shares"], axis=1),
        argmax(1, "shares"),
        helper.make_node("Cast", ["ids"], ["labels"], to=TensorProto.INT32),
    ]
    model = followed_by(networks.tiny(), nodes, TensorProto.INT32)
    found = cut(tmp_path, model, said=Said(size=SIZE, mean=SAID.mean, std=SAID.std))
    assert found.sidecar.output == "scores"
    operators = [
        [node.op_type for node in onnx.load(file).graph.node] for file in (found.file, tmp_path / "model.onnx")
    ]
    assert operators[0] == operators[1]
    assert any(told.what == "scores" and "Softmax, ArgMax" in told.why for told in found.told)
    labels = labels_by_reference(model, frame(), "labels")[0]
    assert (load(found.file, engine="openvino")(frame()) == labels).mean() > 0.999


def test_scores_are_found_behind_a_transpose(tmp_path: Path) -> None:
    nodes = [helper.make_node("Transpose", ["scores"], ["last"], perm=[0, 2, 3, 1]), argmax(3, "last")]
    model = followed_by(networks.tiny(), nodes, TensorProto.INT64)
    found = settled(tmp_path, model, said=Said(size=SIZE, mean=SAID.mean, std=SAID.std, classes=networks.CLASSES))
    assert found.sidecar.output == "scores"


def test_channels_last_in_and_out(tmp_path: Path) -> None:
    model = networks.tiny()
    for node in model.graph.node:
        node.input[:] = ["first" if name == "input" else name for name in node.input]
        node.output[:] = ["first_scores" if name == "scores" else name for name in node.output]
    shape = model.graph.input[0].type.tensor_type.shape.dim
    for dim, size in zip(shape, (1, 64, 96, 3), strict=True):
        dim.dim_value = size
    model.graph.node.insert(0, helper.make_node("Transpose", ["input"], ["first"], perm=[0, 3, 1, 2]))
    wanted = [helper.make_node("Mul", ["last", "two"], ["scores"])]
    last = helper.make_node("Transpose", ["first_scores"], ["last"], perm=[0, 2, 3, 1])
    two = numpy_helper.from_array(np.array(2, np.float32), "two")
    model = followed_by(model, [last, *wanted], TensorProto.FLOAT, [two])
    said = Said(mean=SAID.mean, std=SAID.std, classes=networks.CLASSES)
    found = cut(tmp_path, model, said=said)
    assert (found.sidecar.input.width, found.sidecar.input.height) == SIZE
    assert found.sidecar.output == "clockseg.scores"
    plain = tmp_path / "plain"
    plain.mkdir()
    other = cut(plain, networks.tiny())
    ours, theirs = (load(one.file, engine="openvino")(frame()) for one in (found, other))
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("shape", "frame", "axis"),
    [
        ((1, 300, 16, 24), (192, 128), 1),  # 300 features of stride 8
        ((1, 128, 192, 19), (192, 128), 3),
        ((1, 512, 512, 19), (512, 512), 3),
        ((1, 19, 33, 65), (1024, 512), 1),
        ((1, 4, 8, 8), (128, 256), 1),  # of no proportion at all
        ((1, 1000, 1, 1), (224, 224), 1),
    ],
)
def test_the_axis_of_classes_by_the_proportions(shape: tuple[int, ...], frame: tuple[int, int], axis: int) -> None:
    static = Static(types={"y": (TensorProto.FLOAT, shape)})
    assert class_axis(static, "y", None, frame) == axis
    assert class_axis(static, "y", shape[axis], frame) == axis


def test_many_channels_are_channels(tmp_path: Path) -> None:
    """Of 300 channels, no label map holds the ids; they were once taken for rows."""
    build = networks.Builder(6)
    deep = build.block(build.block("input", 3, 8, stride=2, to="low"), 8, 8, stride=2, to="deep")
    build.conv(deep, 8, 300, kernel=1, to="scores")
    with pytest.raises(NetworkError, match="'scores' has 300 channels, and label maps hold 255 classes"):
        settled(tmp_path, build.model({"scores": 300}))


def test_class_ids_without_scores_behind_them(tmp_path: Path) -> None:
    """A threshold on one channel, as ids: there is nothing to walk back to."""
    nodes = [
        helper.make_node("ReduceSum", ["scores", "one"], ["sum"], keepdims=1),
        helper.make_node("Greater", ["sum", "zero"], ["more"]),
        helper.make_node("Cast", ["more"], ["ids"], to=TensorProto.INT32),
    ]
    weights = [
        numpy_helper.from_array(np.array([1], np.int64), "one"),
        numpy_helper.from_array(np.array(0, np.float32), "zero"),
    ]
    model = followed_by(networks.tiny(), nodes, TensorProto.INT32, weights)
    said = Said(size=SIZE, mean=SAID.mean, std=SAID.std, output="ids")
    with pytest.raises(UsageError, match="map of class ids: give --classes"):
        cut(tmp_path, model, said=said)
    found = cut(tmp_path, model, said=Said(classes=("no", "yes")).over(said), cutting=Cutting(at="low,mid,deep"))
    assert found.sidecar.output == "clockseg.labels"  # 1 where the ids are above 0
    assert set(np.unique(load(found.file, engine="openvino")(frame()))) <= {0, 1}


def test_a_network_without_a_place_to_cut_goes_on_with_one_stage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build = networks.Builder()
    build.nodes.append(
        helper.make_node("TopK", ["input", build.constant(np.array([1], np.int64))], ["most", "ids"], axis=1)
    )
    model = build.model({})
    model.graph.output.append(helper.make_tensor_value_info("ids", TensorProto.INT64, [1, 1, None, None]))
    (tmp_path / "names.txt").write_text("red\ngreen\nblue")
    source, out = saved(tmp_path, model), tmp_path / "net.onnx"
    flags = [
        "--mean",
        "0",
        "--std",
        "1",
        "--size",
        "96x64",
        "--classes",
        str(tmp_path / "names.txt"),
        "--out",
        str(out),
    ]
    assert main(["cut", str(source), *flags]) == 0
    assert "only 1 of 3 stages: no tensor was found" in capsys.readouterr().out
    assert sidecar.read(out.with_suffix(".json")).cuts == (("ids",),)
    assert np.array_equal(load(out, engine="openvino")(frame()), frame().argmax(2))
    assert main(["inspect", str(source), "--size", "96x64", "--repeat", "1"]) == 0
    assert "only 1 of 3 stages: no tensor was found" in capsys.readouterr().out


def test_an_operator_that_openvino_lacks_runs_in_onnx_runtime(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    build = networks.Builder()
    low = build.block("input", 3, 4, stride=2, to="low")
    build.nodes.append(
        helper.make_node("MaxPool", [low], ["pooled", "places"], kernel_shape=[2, 2], strides=[2, 2], name="pool")
    )
    deep = build.block(build.block("pooled", 4, 4), 4, 4)
    full = build.node("MaxUnpool", deep, "places", kernel_shape=[2, 2], strides=[2, 2])
    build.conv(full, 4, 5, kernel=1, to="scores")
    source = saved(tmp_path, build.model({"scores": 5}, size=(64, 96)))
    said = Said(mean=SAID.mean, std=SAID.std)
    found = cut_network(source, tmp_path / "net.onnx", said=said, cutting=BY_WORK, repeat=1)
    assert found.inspection.engine == "onnxruntime"
    assert load(found.file)(frame()).shape == (64, 96)
    with pytest.raises(NetworkError, match="the engine can't compile part"):
        cut_network(source, tmp_path / "no.onnx", said=said, cutting=BY_WORK, engine="openvino", repeat=1)


def one_channel(sigmoid: bool) -> onnx.ModelProto:
    build = networks.Builder(5)
    low = build.block("input", 3, 8, stride=2, to="low")
    deep = build.block(low, 8, 8, stride=2, to="deep")
    fused = build.node("Concat", low, build.up_to(deep, low, 8), axis=1)
    logit = build.up_to(build.conv(fused, 16, 1, kernel=1), "input", 1, to="logit")
    if sigmoid:
        build.node("Sigmoid", logit, to="share")
    return build.model({"share" if sigmoid else "logit": 1})


@pytest.mark.parametrize("sigmoid", [True, False])
def test_one_channel_is_two_classes(tmp_path: Path, sigmoid: bool) -> None:
    said = Said(size=SIZE, mean=SAID.mean, std=SAID.std)
    model = one_channel(sigmoid)
    numbers = cut(tmp_path, model, said=said)
    assert numbers.sidecar.classes == ()
    assert any("give --classes FILE with two names" in told.why for told in numbers.told)
    found = cut(tmp_path, model, said=Said(classes=("ground", "thing")).over(said))
    logits = labels_by_reference(model, frame(), "logit")[0, 0]
    sure = np.abs(logits) > 1e-3
    assert 0.02 < (logits > 0).mean() < 0.98
    labels = load(found.file, engine="openvino")(frame())
    assert np.array_equal(labels[sure], (logits > 0)[sure])


def test_a_map_of_numbers_has_no_classes(tmp_path: Path) -> None:
    said = Said(size=SIZE, mean=SAID.mean, std=SAID.std, classes=())
    found = cut(tmp_path, networks.two_branches(), said=said, cutting=Cutting(at="stem,fine1+coarse1,fine2+coarse2"))
    assert (found.sidecar.classes, found.sidecar.ignore, found.sidecar.output) == ((), None, "depth")
    assert found.sidecar.schedule == "carried(skip_frame(6), interpolate(flow))"


# Inputs


def test_a_size_that_is_fixed_in_the_file(tmp_path: Path) -> None:
    model = networks.tiny(size=(64, 96))
    assert settled(tmp_path, model, said=Said(mean=SAID.mean, std=SAID.std, output="scores")).sidecar.input.width == 96
    with pytest.raises(UsageError, match="--size 64x64: the file is fixed to 96x64"):
        settled(tmp_path, model, said=Said(size=(64, 64)).over(SAID))


def fixed_inside(kind: str) -> onnx.ModelProto:
    """A network that declares a free height and width, and has constants inside that fit 128x64 only."""
    build = networks.Builder()
    low = build.block("input", 3, 8, stride=4, to="low")
    deep = build.block(low, 8, 8, stride=2, to="deep")
    if kind == "resize":
        size = build.constant(np.array([1, 8, 16, 32], np.int64))
        up = build.node("Resize", deep, "", "", size, mode="linear")
    elif kind == "reshape":
        flat = build.node("Reshape", deep, build.constant(np.array([1, 8, 128], np.int64)))
        up = build.up_to(build.node("Reshape", flat, build.constant(np.array([1, 8, 8, 16], np.int64))), low, 8)
    else:
        flat = build.node("Reshape", deep, build.constant(np.array([1, 8, -1], np.int64)))
        tokens = build.node("Add", flat, build.constant(np.ones((1, 8, 128), np.float32)))
        shape = build.node("Shape", deep)
        up = build.up_to(build.node("Reshape", tokens, shape), low, 8)
    build.conv(build.node("Concat", up, low, axis=1), 16, 4, kernel=1, to="scores")
    return build.model({"scores": 4})


@pytest.mark.parametrize("kind", ["resize", "reshape", "positions"])
def test_constants_inside_of_a_file_of_free_sizes(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = saved(tmp_path, fixed_inside(kind))
    flags = ["--mean", "0.5", "--std", "0.2", "--engine", "openvino", "--out", str(tmp_path / "net.onnx")]
    assert main(["cut", str(source), *flags, "--size", "128x64"]) == 0
    assert "128x64" in capsys.readouterr().out
    wide = np.zeros((90, 160, 3), np.uint8)
    net = load(tmp_path / "net.onnx", engine="openvino")
    assert net(wide).shape == (90, 160)
    assert net.prepare(wide)["image"].shape == (1, 64, 128, 3)
    assert main(["cut", str(source), *flags, "--overwrite", "--size", "96x64"]) == 1
    assert "fit one size only, give that as --size" in capsys.readouterr().err
    assert main(["inspect", str(source), "--repeat", "1", "--size", "128x64"]) == 0
    assert "128x64" in capsys.readouterr().out


def test_a_sidecar_by_hand_for_constants_inside(tmp_path: Path) -> None:
    said = Sidecar("fixed", Input("input", 128, 64), "scores", (("low",), ("deep",)), classes=networks.CLASSES)
    net = load(networks.write_network(tmp_path, fixed_inside("resize"), said), engine="openvino")
    assert net(np.zeros((64, 128, 3), np.uint8)).shape == (64, 128)
    with pytest.raises(NetworkError, match=r"does not fit 114x64.*fits 128x64 only, cut it again"):
        net(np.zeros((90, 160, 3), np.uint8))


@pytest.mark.parametrize(
    ("mean", "scale", "wanted"), [((120.0,) * 3, None, 1.0), ((0.5,) * 3, None, 1 / 255), ((0.5,) * 3, 2.0, 2.0)]
)
def test_the_scale_follows_the_mean(tmp_path: Path, mean: Any, scale: float | None, wanted: float) -> None:
    found = settled(tmp_path, networks.tiny(), said=Said(mean=mean, scale=scale).over(SAID))
    assert found.sidecar.input.scale == wanted
    assert found.sidecar.input.pad_value[0] == min(255, round(mean[0] / wanted))


def test_a_frame_of_bytes_normalises_itself(tmp_path: Path) -> None:
    build = networks.Builder(6)
    build.node("Cast", "input", to="pixels")
    build.nodes[-1].attribute.append(helper.make_attribute("to", TensorProto.FLOAT))
    low = build.block(
        build.node("Mul", "pixels", build.constant(np.array(1 / 255, np.float32))), 3, 8, stride=2, to="low"
    )
    deep = build.block(low, 8, 8, stride=2, to="deep")
    build.conv(build.node("Add", low, build.up_to(deep, low, 8)), 8, 4, kernel=1, to="scores")
    model = build.model({"scores": 4})
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8
    found = cut(tmp_path, model, said=Said(size=SIZE))
    assert (found.sidecar.input.scale, found.sidecar.input.mean) == (1.0, (0.0, 0.0, 0.0))
    assert load(found.file, engine="openvino")(frame()).shape == (64, 96)


# What is refused


@pytest.mark.parametrize(
    ("said", "error", "text"),
    [
        (Said(size=SIZE, output="scores"), UsageError, "give --mean and --std"),
        (Said(size=SIZE, output="scores", mean=(0.0,) * 3), UsageError, "give --std"),
        (Said(mean=SAID.mean, std=SAID.std, output="scores"), UsageError, "give --size WIDTHxHEIGHT"),
        (
            Said(size=SIZE, mean=SAID.mean, std=SAID.std),
            UsageError,
            "4 outputs: choose the class scores with --output",
        ),
        (Said(output="scorse").over(SAID), NetworkError, "'scorse' is not a tensor, node or module of this network"),
        (
            Said(classes=("a", "b", "c")).over(SAID),
            NetworkError,
            "3 classes are named, and 'scores' [1, 4, 64, 96] scores 4",
        ),
    ],
)
def test_what_is_missing_or_does_not_fit(tmp_path: Path, said: Said, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as raised:
        cut(tmp_path, networks.tiny(), said=said)
    assert text in str(raised.value)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.onnx"]


def test_two_inputs(tmp_path: Path) -> None:
    model = networks.tiny()
    model.graph.input.append(helper.make_tensor_value_info("mask", TensorProto.FLOAT, [1]))
    with pytest.raises(NetworkError, match=r"2 inputs \(input, mask\)"):
        settled(tmp_path, model)


def test_nothing_is_written_where_parts_and_whole_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "TOLERANCES", dict.fromkeys(cutting.TOLERANCES, -1.0))
    with pytest.raises(NetworkError, match="Nothing was written"):
        cut(tmp_path, networks.tiny())
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.onnx"]


def halved(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` computing in 16 bits."""
    for weight in model.graph.initializer:
        if weight.data_type == TensorProto.FLOAT:
            half = numpy_helper.to_array(weight).astype(np.float16)
            weight.CopyFrom(numpy_helper.from_array(half, weight.name))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    return model


def test_a_network_of_16_bits_may_round(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = saved(tmp_path, halved(networks.tiny())), tmp_path / "net.onnx"
    assert main(["cut", str(source), *FLAGS, "--output", "scores", "--at", "low,mid,deep", "--out", str(out)]) == 0
    [told] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  tolerance")]
    assert "0.01" in told
    assert "16 bits" in told
    net = load(out, engine="openvino")
    scores = labels_by_reference(networks.tiny(), frame(), "scores")[0]
    second, first = np.sort(scores, axis=0)[-2:]
    sure = first - second > 0.02 * np.abs(scores).max()
    assert sure.mean() > 0.5
    assert np.array_equal(net(frame())[sure], scores.argmax(0)[sure])


def test_weights_of_16_bits_that_are_widened_must_be_exact(tmp_path: Path) -> None:
    model = networks.tiny()
    for weight in list(model.graph.initializer):
        if weight.data_type == TensorProto.FLOAT:
            name, half = weight.name, numpy_helper.to_array(weight).astype(np.float16)
            weight.CopyFrom(numpy_helper.from_array(half, f"{name}.half"))
            model.graph.node.insert(0, helper.make_node("Cast", [f"{name}.half"], [name], to=TensorProto.FLOAT))
    found = cut(tmp_path, model)
    assert found.apart <= 1e-4
    assert "tolerance" not in {one.what for one in found.told}


def test_what_stands_there_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = saved(tmp_path, networks.tiny())
    (tmp_path / "net.json").write_text("mine")
    arguments = ["cut", str(source), *FLAGS, "--output", "scores", "--out", str(tmp_path / "net.onnx")]
    assert main(arguments) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert (tmp_path / "net.json").read_text() == "mine"
    assert main([*arguments, "--overwrite"]) == 0


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--size", "96"], "give WIDTHxHEIGHT"),
        (["--ignore", "256"], "'256' is not a whole number from 0 to 255"),
        (["--schedule", "alternating", "--video", "v.mp4"], "--video: not allowed with argument --schedule"),
    ],
)
def test_options_that_can_not_be_read(capsys: pytest.CaptureFixture[str], flags: list[str], text: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["cut", "model.onnx", "--out", "net.onnx", *flags])
    assert text in capsys.readouterr().err


def test_the_number_of_stages_is_for_cuts_that_are_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["cut", "model.onnx", "--out", "net.onnx", "--at", "low,mid", "--stages", "2"]) == 2
    assert "--stages needs --at auto" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("std", ["0", "0.2,0,0.2", "0.2,-1,0.2"])
def test_pixels_are_not_divided_by_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str], std: str) -> None:
    source = saved(tmp_path, networks.tiny())
    command = ["cut", str(source), "--out", str(tmp_path / "net.onnx"), "--size", "96x64", "--output", "scores"]
    assert main([*command, "--mean", "0.5", "--std", std]) == 2
    assert "give numbers above 0" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [source]


def test_a_schedule_that_the_network_can_not_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"at stage 2.*either\(difference\(0.1, of=\"features\"\), at_least"):
        cut(tmp_path, networks.unet(), cutting=Cutting(at="enc1,enc2,enc3", schedule="adaptive(0.2)"))
    found = cut(tmp_path, networks.unet(), cutting=Cutting(at="enc1,enc2,enc3", schedule="alternating"))
    assert found.sidecar.schedule == "alternating"


# Files of names and of colours


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "sky\nroad\n"),
        ("a.json", '["sky", "road"]'),
        ("a.json", '{"1": "road", "0": "sky"}'),
        ("config.json", '{"id2label": {"0": "sky", "1": "road"}, "model_type": "x"}'),
        ("classes.json", '{"classes": ["sky", "road"], "palette": [[1, 2, 3], [4, 5, 6]], "ignore": 9}'),
    ],
)
def test_names_of_classes(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    found = read_class_names(tmp_path / name)
    colours = {"palette": ((1, 2, 3), (4, 5, 6)), "ignore": 9} if name == "classes.json" else {}
    assert found == Said(classes=("sky", "road"), **colours)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.txt", "sky\n\nroad", "line 2 is empty"),
        ("a.txt", "sky\nsky", "sky is there twice"),
        ("a.json", '{"0": "sky", "2": "road"}', "'2' is not the id of a class; ids are 0 to 1"),
        ("a.json", '{"sky": 0}', "'sky' is not the id"),
        ("a.json", "[1, 2]", "1 is not the name"),
        ("a.json", "3", "not names of classes"),
        ("a.json", "[", "not JSON"),
        ("a.json", json.dumps([str(number) for number in range(256)]), "256 classes"),
    ],
)
def test_files_that_name_no_classes(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError) as raised:
        read_class_names(tmp_path / name)
    assert said in str(raised.value)


def test_a_file_of_names_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.txt can't be read \(No such file or directory\)"):
        read_class_names(tmp_path / "none.txt")


# The check itself


def test_numbers_that_are_not_finite_can_not_be_compared() -> None:
    theirs = np.array([[[[1.0, 0.0]], [[0.9999, 1.0]]]], np.float32)
    assert checking.apart(theirs + np.float32(1e-4), theirs) == pytest.approx(1e-4, rel=1e-2)
    with pytest.raises(NetworkError, match="outputs NaN or infinity"):
        checking.apart(theirs, np.full_like(theirs, np.nan))


def test_ids_are_apart_by_the_share_of_unequal_ones() -> None:
    assert checking.apart(np.array([1, 2]), np.array([1, 1])) == 0.5
