"""Files that run uncut: the engine's own output on every frame that fires, under schedules of the output."""

from __future__ import annotations

import base64
import json
import shutil
import zipfile
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import openvino
import pytest
from onnx import TensorProto, helper, numpy_helper

import networks
from clockseg import NetworkError, UsageError, run
from clockseg.cli.main import main
from clockseg.clocks.spec import parse_schedule
from clockseg.networks import WEIGHTS
from clockseg.networks.cutting import cut_network
from clockseg.networks.ends import fitted, frame_input
from clockseg.networks.load import files_of, load
from clockseg.networks.source import Said

SIZE = WIDTH, HEIGHT = 48, 32
SAID = {"input": {"scale": 1 / 255, "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4]}}


def frame(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)


def bare(folder: Path, *, said: dict[str, Any] | None = None, suffix: str = ".onnx") -> Path:
    """The network of ``networks.TINY`` without its cuts, as ONNX or OpenVINO's own files, beside what a user says of it."""
    path = networks.write_tiny(folder)
    path.with_suffix(".json").unlink()
    model = onnx.load(path)
    del model.graph.output[1:]
    for value in (*model.graph.input, *model.graph.output):
        for dim, side in zip(value.type.tensor_type.shape.dim, (1, None, HEIGHT, WIDTH), strict=True):
            if side is not None:
                dim.dim_value = side
    onnx.save(model, path)
    if suffix == ".xml":
        openvino.save_model(openvino.convert_model(path), path.with_suffix(suffix), compress_to_fp16=False)
        path.unlink()
    if said is not None:
        path.with_suffix(".json").write_text(json.dumps(said))
    return path.with_suffix(suffix)


def free(folder: Path) -> Path:
    """A network of a free height and width, which fits multiples of some number only."""
    path = folder / "free.onnx"
    onnx.save(networks.unet(), path)
    return path


def of_bytes(path: Path) -> Path:
    """A network that reads bytes [1, h, w, 3] and gives ids: which colour is the strongest."""
    nodes = [
        helper.make_node("Cast", ["frame"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("ArgMax", ["floats"], ["ids"], axis=3, keepdims=0),
    ]
    ends = [
        helper.make_tensor_value_info("frame", TensorProto.UINT8, [1, HEIGHT, WIDTH, 3]),
        helper.make_tensor_value_info("ids", TensorProto.INT64, [1, HEIGHT, WIDTH]),
    ]
    graph = helper.make_graph(nodes, "strongest", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def reference(path: Path, image: np.ndarray) -> np.ndarray:
    """The labels by OpenVINO alone."""
    model = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    mean, std = (np.array(SAID["input"][name]).reshape(3, 1, 1) for name in ("mean", "std"))
    given = (image.transpose(2, 0, 1) / 255 - mean) / std
    return model([given[None].astype(np.float32)])[0][0].argmax(0)


@pytest.mark.parametrize(("suffix", "engine"), [(".onnx", "openvino"), (".onnx", "onnxruntime"), (".xml", "auto")])
def test_the_labels_are_those_of_the_engine_alone(tmp_path: Path, suffix: str, engine: str) -> None:
    path = bare(tmp_path, said=SAID, suffix=suffix)
    net = load(path, engine=engine)
    assert [stage.name for stage in net.stages] == ["network"]
    assert net.classes == ("class 0", "class 1", "class 2", "class 3")
    assert (net(frame()) == reference(path, frame())).mean() > 0.999
    assert np.array_equal(net.uncut()(frame()), net(frame()))


@pytest.mark.parametrize("suffix", [".onnx", ".xml"])
@pytest.mark.parametrize(
    "schedule", ["skip_frame(3)", "carried(skip_frame(3), warp(flow))", "carried(skip_frame(3), interpolate(flow))"]
)
def test_schedules_of_the_output(tmp_path: Path, suffix: str, schedule: str) -> None:
    net = load(bare(tmp_path, said=SAID, suffix=suffix))
    frames = [np.roll(cv2.GaussianBlur(frame(), (0, 0), 4), index, axis=1) for index in range(4)]  # one shot
    results = list(run(net, frames, parse_schedule(schedule)))
    assert [record.fired for _, record in results] == [(True,), (False,), (False,), (True,)]
    for index, (labels, _) in enumerate(results):
        assert labels.shape == (HEIGHT, WIDTH)
        if index % 3 == 0 and "interpolate" not in schedule:
            assert np.array_equal(labels, net(frames[index]))


@pytest.mark.parametrize(("suffix", "engine"), [(".onnx", "openvino"), (".onnx", "onnxruntime"), (".xml", "openvino")])
def test_bytes_and_ids_need_nothing_said(suffix: str, engine: str, tmp_path: Path) -> None:
    path = of_bytes(tmp_path / "strongest.onnx")
    openvino.save_model(openvino.convert_model(path), path.with_suffix(".xml"))
    net = load(path.with_suffix(suffix), engine=engine)
    assert net.classes == ("class 0", "class 1", "class 2")
    assert np.array_equal(net(frame()), frame().argmax(2))


def test_a_size_that_is_fixed_by_the_file_or_by_constants_inside(tmp_path: Path) -> None:
    path = bare(tmp_path, said={"input": {**SAID["input"], "width": WIDTH, "height": HEIGHT}})
    assert load(path)(frame()).shape == (HEIGHT, WIDTH)
    model = onnx.load(path)
    name = model.graph.input[0].name
    for node in model.graph.node:
        node.input[:] = ["shifted" if one == name else one for one in node.input]
    model.graph.node.insert(0, helper.make_node("Add", [name, "everywhere"], ["shifted"]))
    constant = np.zeros((1, 1, HEIGHT, WIDTH), np.float32)
    model.graph.initializer.append(numpy_helper.from_array(constant, "everywhere"))
    for value in (*model.graph.input, *model.graph.output):
        for dim, side in zip(value.type.tensor_type.shape.dim[2:], ("h", "w"), strict=True):
            dim.dim_param = side
    onnx.save(model, path)
    net = load(path)
    assert (net.sidecar.input.width, net.sidecar.input.height) == SIZE
    assert net(frame()[:20]).shape == (20, WIDTH)  # padded


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("ids", [False, True])
def test_openvinos_own_files_of_any_size(last: bool, ids: bool, tmp_path: Path) -> None:
    """A convolution, with the channels first or last, and its scores or class ids."""
    nodes = [
        helper.make_node(
            "Conv", ["read" if last else "frame", "weights"], ["scores"], kernel_shape=[3, 3], pads=[1] * 4
        )
    ]
    if last:
        nodes.insert(0, helper.make_node("Transpose", ["frame"], ["read"], perm=[0, 3, 1, 2]))
        nodes.append(helper.make_node("Transpose", ["scores"], ["last"], perm=[0, 2, 3, 1]))
    made = "last" if last else "scores"
    if ids:
        nodes.append(helper.make_node("ArgMax", [made], ["ids"], axis=3 if last else 1, keepdims=0))
        output = helper.make_tensor_value_info("ids", INT64, [1, "h", "w"])
    else:
        output = helper.make_tensor_value_info(made, FLOAT, [1, "h", "w", 5] if last else [1, 5, "h", "w"])
    frames = helper.make_tensor_value_info("frame", FLOAT, [1, "h", "w", 3] if last else [1, 3, "h", "w"])
    weights = np.random.default_rng(0).normal(size=(5, 3, 3, 3)).astype(np.float32)
    graph = helper.make_graph(nodes, "any", [frames], [output], [numpy_helper.from_array(weights, "weights")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "any.xml"
    onnx.save(model, path.with_suffix(".onnx"))
    openvino.save_model(openvino.convert_model(path.with_suffix(".onnx")), path, compress_to_fp16=False)
    path.with_suffix(".json").write_text(json.dumps({"input": {"mean": [0.5] * 3, "width": WIDTH, "height": HEIGHT}}))
    expected = load(path)(frame())
    assert expected.shape == (HEIGHT, WIDTH)
    assert expected.max() <= 4
    own = load(path, size="own")
    assert own.classes == ("class 0", "class 1", "class 2", "class 3", "class 4")
    assert np.array_equal(own(frame()), expected)
    assert own(frame()[:20]).shape == (20, WIDTH)


def test_segment_takes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = bare(tmp_path, said={**SAID, "classes": ["a", "b", "c", "d"]}, suffix=".xml")
    clip = tmp_path / "clip"
    clip.mkdir()
    for index in range(5):
        cv2.imwrite(str(clip / f"{index}.png"), frame(index))
    out = tmp_path / "out"
    given = ["--network", str(path), "--schedule", "skip_frame(2)", "--write", "labels", "--out", str(out)]
    assert main(["segment", str(clip), *given]) == 0, capsys.readouterr().err
    assert main(["inspect", str(path)]) == 0
    assert "network" in capsys.readouterr().out


def test_a_network_as_a_video_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = bare(tmp_path)
    assert main(["segment", str(path), "--out", str(tmp_path / "out")]) == 2
    assert f"is a network, not a video. Give it as --network {path}" in capsys.readouterr().err.replace("\n", " ")
    assert not (tmp_path / "out").exists()


def test_what_only_the_user_knows_is_asked_for(tmp_path: Path) -> None:
    path = bare(tmp_path)
    with pytest.raises(UsageError, match=r'runs uncut.*Write .*\.json.*"mean": \[0\.485') as told:
        load(path)
    example = json.loads(str(told.value).split("your own values: ")[1])
    path.with_suffix(".json").write_text(json.dumps(example))
    assert load(path)(frame()).shape == (HEIGHT, WIDTH)
    ids = several(tmp_path / "ids.onnx", {"ids": (INT64, [1, HEIGHT, WIDTH])})
    with pytest.raises(UsageError, match=r'is a map of class ids.*Write .*ids\.json .*"classes": \['):
        load(ids, engine="onnxruntime")


def test_the_example_can_be_pasted(tmp_path: Path) -> None:
    path = free(tmp_path)
    with pytest.raises(UsageError, match=r"takes frames of any size: give --size.*clockseg cut") as told:
        load(path)
    example = json.loads(str(told.value).split("your own values: ")[1])
    path.with_suffix(".json").write_text(json.dumps(example))
    assert load(path)(frame()).shape == (HEIGHT, WIDTH)
    del example["input"]["width"]
    path.with_suffix(".json").write_text(json.dumps(example))
    with pytest.raises(UsageError, match=r"takes frames of any size: give --size"):
        load(path)


def test_a_multiple_is_not_taken_from_a_size_that_fits_by_chance(tmp_path: Path) -> None:
    """`street` fits sizes up to three pixels beyond a multiple of 32, since its first layers round down."""
    path = tmp_path / "plain.onnx"
    shutil.copyfile(WEIGHTS / "street.onnx", path)
    said = {"format": "clockseg-1", "output": "scores", "input": {**SAID["input"], "width": 480, "height": 384}}
    path.with_suffix(".json").write_text(json.dumps(said))
    assert load(path, engine=None).sidecar.input.pad_multiple == 32


def test_frames_of_any_size_are_padded_as_the_network_needs(tmp_path: Path) -> None:
    path = free(tmp_path)
    path.with_suffix(".json").write_text(json.dumps(SAID))
    net = load(path, size=(50, 30))
    assert net.sidecar.input.pad_multiple == fitted(frame_input(onnx.load(path)), (50, 30)).multiple > 1
    assert net(frame()[:30]).shape == (30, WIDTH)
    said = {"input": {**SAID["input"], "pad_multiple": 1}}
    path.with_suffix(".json").write_text(json.dumps(said))
    with pytest.raises(
        NetworkError, match=r'can\'t compile part .* at 50x30 .*multiples of 32: "pad_multiple" .* NAME\.json'
    ):
        load(path, size=(50, 30))(frame()[:30])


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"output": "logit"}, r"'logit' is not a tensor, node or module of this network\. .* Write .* into .*json"),
        ({"input": {**SAID["input"], "name": "image"}}, r"the sidecar's input 'image' is not an input of its network"),
        ({"input": {**SAID["input"], "width": 0, "height": 0}}, r"json: input\.width is 0; it must be a whole number"),
        ({"input": 5}, r"json: input is 5; it must be an object"),
        (
            {"input": {**SAID["input"], "width": 640, "height": 480}},
            r"--size 640x480: the file is fixed to 48x32.*Write .* into .*json",
        ),
        ({"classes": ["a", "b", "c"]}, r"3 classes are named, and 'scores' .* scores 4: .* Write .* into .*json"),
        ({"classes": ["a", "b", "c", "d", "e"]}, r"5 classes are named, and 'scores' .* scores 4"),
        ({"classes": "a"}, r'json: classes is "a"; it must be a list of strings'),
    ],
)
def test_wrong_fields_are_named_with_their_file(tmp_path: Path, said: dict[str, Any], error: str) -> None:
    with pytest.raises((NetworkError, UsageError), match=error):
        load(bare(tmp_path, said={**SAID, **said}))


def test_what_can_not_run(tmp_path: Path) -> None:
    path = bare(tmp_path, said=SAID, suffix=".xml")
    with pytest.raises(
        UsageError, match=r"\.xml runs uncut \(clockseg segment .* give the ONNX file that it was made from"
    ):
        cut_network(path, tmp_path / "net.onnx")
    with pytest.raises(UsageError, match=r"engine 'onnxruntime': .*\.xml runs uncut in openvino"):
        load(path, engine="onnxruntime")
    path.with_suffix(".json").write_text("{")
    with pytest.raises(NetworkError, match="is not JSON"):
        load(path)
    path.with_suffix(".json").unlink()
    path.with_suffix(".bin").unlink()
    with pytest.raises(NetworkError, match=r"can't be read|can't run"):
        load(path)
    (tmp_path / "none.tflite").write_bytes(b"no network")
    with pytest.raises(NetworkError, match=r"none\.tflite can't be read"):
        load(tmp_path / "none.tflite")


def test_all_files_are_named(tmp_path: Path) -> None:
    path = bare(tmp_path, said=SAID, suffix=".xml")
    assert files_of(path) == (path, path.with_suffix(".json"), path.with_suffix(".bin"))


def several(path: Path, outputs: dict[str, tuple[int, list[int]]]) -> Path:
    """A network [1, 3, h, w] with these outputs, each a type and a shape, filled with the mean of the frame."""
    nodes = [helper.make_node("ReduceMean", ["frame"], ["mean"], keepdims=0)]
    ends, constants = [], []
    for name, (kind, shape) in outputs.items():
        constants.append(helper.make_tensor(f"{name}.shape", TensorProto.INT64, [len(shape)], shape))
        nodes.append(helper.make_node("Expand", ["mean", f"{name}.shape"], [f"{name}.floats"]))
        nodes.append(helper.make_node("Cast", [f"{name}.floats"], [name], to=kind))
        ends.append(helper.make_tensor_value_info(name, kind, shape))
    frames = helper.make_tensor_value_info("frame", TensorProto.FLOAT, [1, 3, HEIGHT, WIDTH])
    graph = helper.make_graph(nodes, "several", [frames], ends, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    path.with_suffix(".json").write_text(json.dumps(SAID))
    return path


FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


@pytest.mark.parametrize("suffix", [".onnx", ".xml"])
def test_of_several_outputs_one_must_be_named(tmp_path: Path, suffix: str) -> None:
    maps = (FLOAT, [1, 5, HEIGHT, WIDTH])
    path = several(tmp_path / "two.onnx", {"out": maps, "aux": maps})
    openvino.save_model(openvino.convert_model(path), path.with_suffix(".xml"))
    path = path.with_suffix(suffix)
    with pytest.raises(UsageError, match=r'has 2 outputs: .*aux \[1, 5, 32, 48\].*"output": "') as told:
        load(path)
    assert "class scores are [1, classes, h, w]" in str(told.value)
    path.with_suffix(".json").write_text(json.dumps({**SAID, "output": "aux"}))
    assert load(path)(frame()).shape == (HEIGHT, WIDTH)


def test_a_frame_without_an_axis_of_batches_is_taken(tmp_path: Path) -> None:
    path = bare(tmp_path, said=SAID)
    expected = load(path, engine="onnxruntime")(frame())
    model = onnx.load(path)
    [value] = model.graph.input
    name, read = value.name, "batched"
    for node in model.graph.node:
        node.input[:] = [read if one == name else one for one in node.input]
    model.graph.node.insert(0, helper.make_node("Unsqueeze", [name, "axis"], [read]))
    model.graph.initializer.append(helper.make_tensor("axis", TensorProto.INT64, [1], [0]))
    del value.type.tensor_type.shape.dim[0]
    onnx.save(model, path)
    for engine in ("onnxruntime", "openvino"):
        assert (load(path, engine=engine)(frame()) == expected).mean() > 0.99


ODD = {
    "a classifier": {"y": (FLOAT, [1, 1000])},
    "tokens": {"y": (FLOAT, [1, 197, 768])},
    "key points": {"y": (FLOAT, [1, 17, 2])},
    "a number": {"y": (FLOAT, [1])},
    "boxes alone": {"y": (FLOAT, [1, 84, 8400])},
    "five axes": {"y": (FLOAT, [1, 3, 2, HEIGHT, WIDTH])},
    "too many channels": {"y": (FLOAT, [1, 300, HEIGHT, WIDTH])},
    "a detector": {"y": (FLOAT, [1, 300, 4]), "labels": (FLOAT, [1, 300, 91])},
    "a detector without a batch": {"y": (FLOAT, [9, 4]), "labels": (INT64, [9]), "scores": (FLOAT, [9])},
    "maps with a score each": {"y": (FLOAT, [1, 4, HEIGHT, WIDTH]), "iou": (FLOAT, [1, 4])},
    "YOLACT": {
        "y": (FLOAT, [1, 90, 4]),
        "conf": (FLOAT, [1, 90, 81]),
        "mask": (FLOAT, [1, 90, 32]),
        "proto": (FLOAT, [1, 8, 12, 32]),
    },
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("cut", [False, True])
def test_outputs_of_no_kind_are_refused_with_their_shapes_and_those_of_each_kind(
    name: str, cut: bool, tmp_path: Path
) -> None:
    path = several(tmp_path / "odd.onnx", ODD[name])
    plain = Said(mean=(0,) * 3, std=(1,) * 3)
    made = partial(cut_network, path, tmp_path / "net.onnx", said=plain) if cut else partial(load, path)
    with pytest.raises((NetworkError, UsageError)) as told:
        made(engine="onnxruntime")
    assert str(ODD[name]["y"][1]) in str(told.value) or "300 channels" in str(told.value)
    for kind in ("class scores are [1, classes, h, w]", "a matte is [1, 1, h, w]", "Mask R-CNN"):
        assert kind in str(told.value)


def test_a_file_that_an_engine_does_not_take_for_a_model(tmp_path: Path) -> None:
    (tmp_path / "none.onnx").write_bytes(b"\x08\x08\x12\x00")
    with pytest.raises(NetworkError, match=r"none\.onnx"):
        load(tmp_path / "none.onnx", engine="onnxruntime")


def test_class_ids_may_have_an_axis_of_length_one_on_either_side(tmp_path: Path) -> None:
    for name, keep in (("last", [1, HEIGHT, WIDTH, 1]), ("first", [1, 1, HEIGHT, WIDTH])):
        path = of_bytes(tmp_path / f"{name}.onnx")
        model = onnx.load(path)
        model.graph.node[1].output[0] = "flat"
        model.graph.node.append(helper.make_node("Reshape", ["flat", "shape"], ["ids"]))
        model.graph.initializer.append(helper.make_tensor("shape", TensorProto.INT64, [4], keep))
        model.graph.output[0].CopyFrom(helper.make_tensor_value_info("ids", TensorProto.INT64, keep))
        onnx.save(model, path)
        assert np.array_equal(load(path, engine="openvino")(frame()), frame().argmax(2))


def test_scores_with_channels_last_of_a_frame_with_channels_first(tmp_path: Path) -> None:
    """No names tell the axis of the classes; the proportions of the frame do."""
    path = bare(tmp_path, said=SAID)
    expected = load(path, engine="openvino")(frame())
    model = onnx.load(path)
    model.graph.node.append(helper.make_node("Transpose", [model.graph.output[0].name], ["last"], perm=[0, 2, 3, 1]))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("last", FLOAT, [1, HEIGHT, WIDTH, 4]))
    onnx.save(model, path)
    net = load(path, engine="openvino")
    assert len(net.classes) == 4
    assert np.array_equal(net(frame()), expected)


def test_class_ids_that_are_computed_with_have_other_classes_than_the_argmax(tmp_path: Path) -> None:
    path = of_bytes(tmp_path / "odd.onnx")
    model = onnx.load(path)
    model.graph.node[1].output[0] = "ids3"
    model.graph.node.append(helper.make_node("Mul", ["ids3", "two"], ["ids"]))
    model.graph.initializer.append(helper.make_tensor("two", TensorProto.INT64, [], [2]))
    onnx.save(model, path)
    path.with_suffix(".json").write_text(json.dumps({"classes": list("abcde")}))
    assert np.array_equal(load(path, engine="openvino")(frame()), 2 * frame().argmax(2))


@pytest.mark.parametrize(
    "output", [(INT64, [1, HEIGHT, WIDTH, 3]), (INT64, [2, HEIGHT, WIDTH]), (FLOAT, [1, HEIGHT, WIDTH])]
)
def test_named_classes_of_what_is_no_map_of_classes_are_refused(tmp_path: Path, output: tuple[int, list[int]]) -> None:
    path = several(tmp_path / "colours.onnx", {"y": output})
    path.with_suffix(".json").write_text(json.dumps({**SAID, "classes": ["a", "b"]}))
    with pytest.raises(NetworkError, match=r"colours\.onnx runs uncut: the output 'y' .*class ids are whole numbers"):
        load(path)


@pytest.mark.parametrize("names", [None, {"0": "cat", "1": "dog"}])
def test_a_tensorflow_lite_file_of_several_outputs(tmp_path: Path, names: dict[str, str] | None) -> None:
    """Ultralytics appends an archive with the names of the classes to its file."""
    path = tmp_path / "yolo.tflite"
    path.write_bytes(zlib.decompress(base64.b64decode(TFLITE)))
    if names is not None:
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("metadata.json", json.dumps({"task": "segment", "imgsz": [32, 32], "names": names}))
    net = load(path)
    assert net.sidecar.instances["layout"] == "yolo"
    assert net.classes == (("cat", "dog") if names else ("class 0", "class 1"))
    assert len(net(np.zeros((32, 32, 3), np.uint8))) == 0
    detector = tmp_path / "detector.tflite"
    detector.write_bytes(zlib.decompress(base64.b64decode(TFLITE)))
    with zipfile.ZipFile(detector, "a") as archive:
        archive.writestr("metadata.json", json.dumps({"task": "detect", "names": {"0": "cat"}}))
    with pytest.raises(NetworkError, match=r"task 'detect', which outputs boxes without masks"):
        load(detector)


TFLITE = (
    "eNp9VL9rE2EYfu96Tc42xII1Fix6Q4YMIaTtFQpmEJSi0EKR4tgzmrMG00tJLl0F6SBOTg4O4uQk4ujo4OAf4NDBQaR/QBEHwTTn837fe8lHYg08+b77"
    "3u99nvfX3SIRba9vrMyTRw65lKM5msfZAi2qdYrtwC3gmUWwE/0Ctkjv+9NEv4EYIOCdg/vAMfbfgW/AEVCF7wmuYKGGpXnf4O/YJrpn6/M54t8M1hwi"
    "cbDTGotAETgPdMPOQTPaDRrhw3qvFRNcyZd7zHETOE6SxMWKMIjXdi/e78XBEqlnzc3nmck7Vb6z8ydJHLHXO7tdPrWlBnz+RfhngUvA4zDcD7px/X4r"
    "fNRqBw/aER6imN4KDyPu9ELWZmVXNDm/C8BeMwo6vShu7oXBQdjpNtsR/RBfrslyZbWiApMf12Fz4/Yd70Y7wv04bFRwkkfPRh3MS7w1oAzMSxyMvXoz"
    "ItkfoWg14CP210nnmZH4LNE7B3xGr7akXy+ANeAEF3zgA+wloIC6pH10xN8VzqzM0qt+krDJF162rwFXJ3sbpH2TjfJPOS8Ch+B6Dk17TDMrmtOyfh0k"
    "SUGnUmD7lVMdQ1G4XImfZygIuDpBUNm8tkoSs2XgUPnyjOpaz9BodlP9jKHPZ9uI8anWf8Lnr09HNciKfu3/NaimNUg1bCP2hQHz5akg851FNHmtd7mo"
    "3mWdG0fmwprRNssyakTCy9Mzq1ZH+ZS0qcS2u4NR3dIZKU/WzSejFiZ8+M8kzGErjmnh8CY5VtJ4mKcFv5+D0fswnv+OwemczbmccnJPP4FvPdGcubG5"
    "em/wTZ3Nt2TyzcHn5RifNXyHCuiBi5qlX1dSndczaVuekY8n3xVDZ6jhgMEZ9tEZfr9yRk2mDD36px5ZZSNfX92enLv0u+cYOXqCvsrTUba/Ad7mRg=="
)
"""A TensorFlow Lite file, compressed, as litert-torch writes it: of a frame [1, 3, 32, 32] its mean, as maps [1, 2, 8, 8] and rows [1, 8, 21]."""
