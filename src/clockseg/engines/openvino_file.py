"""Files that OpenVINO reads and that are no ONNX, its own and TensorFlow Lite's, as an ONNX graph of one node.

So they take the same way as any network: frames are prepared before the node, labels are computed behind it. Only OpenVINO
compiles such a graph, as it puts the file's own operations in the place of the node.
"""

from __future__ import annotations

import functools
import json
import os
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from clockseg import libraries
from clockseg.errors import ClocksegError, NetworkError, first_line
from clockseg.files import file_identity
from clockseg.types import Size

SUFFIXES = (".xml", ".tflite")
_OPERATOR, _DOMAIN = "File", "clockseg"
_COUNT = "clockseg.classes."
"""In the graph's metadata, before an output's name: the number of classes whose ids it gives."""


def graph_of(path: Path, size: Size) -> onnx.ModelProto:
    """Return the file as a graph of one node, with the inputs, outputs and metadata of the file.

    ``size``: (WIDTH, HEIGHT) for which the outputs' shapes are told, if the file takes frames of any size. ``NetworkError`` if
    OpenVINO can't read it.
    """
    core = _core(os.getpid())
    try:
        model = core.read_model(str(path))
    except ClocksegError:
        raise
    except Exception as error:  # OpenVINO raises many types
        raise NetworkError(
            f"{path} can't be read (openvino: {first_line(error)}). Is it complete, with its weights next to it?"
        ) from error
    inputs = [_value(port, _name(port, "input")) for port in model.inputs]
    if len(model.inputs) == 1 and model.inputs[0].partial_shape.is_dynamic:
        _reshape(model, size)
    outputs = [_value(port, _name(port, f"output{index}")) for index, port in enumerate(model.outputs)]
    names = [[value.name for value in values] for values in (inputs, outputs)]
    files = [one for one in (path, path.with_suffix(".bin")) if one.is_file()]
    node = helper.make_node(
        _OPERATOR,
        *names,
        name="file",
        domain=_DOMAIN,
        path=str(path.resolve()),
        identity=repr([file_identity(one) for one in files]),  # compiled models are kept by their graph's digest
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(_DOMAIN, 1)]
    made = helper.make_model(helper.make_graph([node], "file", inputs, outputs), opset_imports=opsets, ir_version=8)
    counts = {f"{_COUNT}{name}": _count(port) for name, port in zip(names[1], model.outputs, strict=True)}
    helper.set_model_props(made, _metadata(path, model) | {key: str(count) for key, count in counts.items() if count})
    return made


def class_count(model: onnx.ModelProto, output: str) -> int:
    """Return the number of classes whose ids an output of ``graph_of`` gives; 0 if the file doesn't tell."""
    return next((int(one.value) for one in model.metadata_props if one.key == f"{_COUNT}{output}"), 0)


@functools.cache
def _core(process: int) -> Any:
    """Return the core of this process, which knows the node."""
    core = libraries.openvino_core()
    extension = libraries.openvino("openvino.frontend.onnx").ConversionExtension
    core.add_extension(extension(_OPERATOR, _DOMAIN, lambda node: _spliced(core, node)))
    return core


def _spliced(core: Any, node: Any) -> list[Any]:
    """Return the outputs of the file's operations, which read what the node reads."""
    model = core.read_model(node.get_attribute("path"))
    [frame] = model.get_parameters()
    for reader in frame.output(0).get_target_inputs():
        reader.replace_source_output(node.get_input(0))
    return [result.input_value(0) for result in model.get_results()]


def _reshape(model: Any, size: Size) -> None:
    """Fix the frame's free sides to ``size``; they stay free where the network doesn't take it."""
    shape = model.inputs[0].partial_shape
    rank = len(shape)
    last = rank in (3, 4) and str(shape[rank - 1]) == "3" and str(shape[rank - 3]) != "3"
    wanted = (1, *size[::-1], 3) if last else (1, 3, *size[::-1])
    if rank in (3, 4):
        sides = [one if side.is_dynamic else side.get_length() for side, one in zip(shape, wanted[-rank:], strict=True)]
        with suppress(RuntimeError):
            model.reshape(sides)


def _name(port: Any, default: str) -> str:
    return str(port.get_any_name()) if port.get_names() else default


def _value(port: Any, name: str) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(port.get_element_type().to_dtype()))
    sides = [None if side.is_dynamic else side.get_length() for side in port.partial_shape]
    return helper.make_tensor_value_info(name, kind, sides)


def _metadata(path: Path, model: Any) -> dict[str, str]:
    """Return what OpenVINO's or TensorFlow Lite's file says of itself, in the words of an ONNX file's metadata."""

    def said(key: str) -> str:
        place = ["model_info", key]
        return str(model.get_rt_info(place).astype(str)) if model.has_rt_info(place) else ""

    if zipfile.is_zipfile(path):
        return _appended(path)
    found = {"names": repr(said("labels").split()), "args": repr({"iou": said("iou_threshold")})}
    return {key: value for key, value in found.items() if "''" not in value}


def _appended(path: Path) -> dict[str, str]:
    """Return the metadata that Ultralytics appends to a TensorFlow Lite file, as an archive; empty if it isn't theirs."""
    try:
        with zipfile.ZipFile(path) as archive:
            told = json.loads(archive.read("metadata.json"))
        names = {"names": repr([*told["names"].values()])}
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, TypeError, AttributeError):
        return {}
    return {key: str(value) for key, value in told.items()} | names


_MOVED = ("Convert", "Squeeze", "Unsqueeze", "Reshape", "Transpose")
"""Operators behind which class ids are the same."""


def _count(port: Any) -> int:
    """Return the number of classes of an output behind an argmax, which in OpenVINO is a TopK; 0 for any other."""
    node = port.get_node().input_value(0).get_node()
    while node.get_type_name() in _MOVED:
        node = node.input_value(0).get_node()
    if node.get_type_name() != "TopK":
        return 0
    side = node.input_value(0).get_partial_shape()[node.get_attributes()["axis"]]
    return 0 if side.is_dynamic else int(side.get_length())
