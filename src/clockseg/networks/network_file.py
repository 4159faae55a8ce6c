"""Network files as an engine reads them: their inputs and outputs, and a function that runs them as they are."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from clockseg import libraries
from clockseg.errors import ClocksegError, NetworkError, UsageError, first_line
from clockseg.execution.machine import threads_or_all
from clockseg.networks import cut_output
from clockseg.types import Array, Size

Run = Callable[[Array], list[Array]]


@dataclass(frozen=True)
class Port:
    """An input or output of a file: its name, its numpy type, and its sides, 0 for a free one."""

    name: str
    type: np.dtype[Any]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class File:
    """A network's file as an engine reads it. ``compile``: from the shape of the input and the outputs' names, a function.

    ``ids``: the number of classes whose ids an output gives, as far as the file tells; ``told``: the metadata
    of a file that is no ONNX.
    """

    path: Path
    engine: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    compile: Callable[[tuple[int, ...], tuple[str, ...]], Run]
    ids: Mapping[str, int]
    told: Mapping[str, str]

    @property
    def size(self) -> Size | None:
        """The working size (WIDTH, HEIGHT) that the file is fixed to; None where it takes any."""
        _, height, width = layout(self.inputs[0])
        return (width, height) if width and height else None


def read(path: Path, *, engine: str, precision: str = "f32", threads: int | None = None) -> File:
    """Read a file with ``engine``: "openvino", "onnxruntime" (ONNX only), or for "auto" the first of them that can.

    ``NetworkError`` if the engine can't read it, ``UsageError`` for another engine.
    """
    readers: dict[str, Callable[[], File]] = {"openvino": lambda: _in_openvino(path, precision, threads)}
    if path.suffix == ".onnx":
        readers["onnxruntime"] = lambda: _in_onnxruntime(path, precision, threads)
    if engine != "auto" and engine not in readers:
        raise UsageError(f"engine {engine!r}: {path.name} runs uncut in {' or '.join(readers)}; give one of these.")
    errors: list[str] = []
    for name, reader in readers.items():
        if engine in ("auto", name):
            try:
                return reader()
            except ClocksegError:
                raise
            except Exception as error:  # engines raise many types
                errors.append(f"{name}: {first_line(error)}")
    raise NetworkError(f"{path} can't be read ({'; '.join(errors)}). Is it complete, with its weights next to it?")


def _in_openvino(path: Path, precision: str, threads: int | None) -> File:
    library, core = libraries.openvino(), libraries.openvino_core()
    model = core.read_model(str(path))
    options = {
        "INFERENCE_PRECISION_HINT": precision,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads_or_all(threads),
    }

    def port(given: Any, name: str) -> Port:
        sides = tuple(0 if side.is_dynamic else side.get_length() for side in given.partial_shape)
        return Port(name, np.dtype(given.get_element_type().to_dtype()), sides)

    inputs = tuple(port(one, _port_name(one, "input")) for one in model.inputs)
    outputs = tuple(port(one, _port_name(one, f"output{index}")) for index, one in enumerate(model.outputs))
    names = [one.name for one in outputs]

    def compile(shape: tuple[int, ...], wanted: tuple[str, ...]) -> Run:
        own = core.read_model(str(path))
        own.reshape(list(shape))
        request = core.compile_model(own, "CPU", options).create_infer_request()
        libraries.keep_after_fork(request)

        def run(array: Array) -> list[Array]:
            request.infer([library.Tensor(array)])
            return [np.array(request.get_output_tensor(names.index(name)).data) for name in wanted]

        return run

    ids = _counted(dict(zip(names, model.outputs, strict=True)))
    return File(path, "openvino", inputs, outputs, compile, ids, _metadata(path, model))


def _port_name(port: Any, default: str) -> str:
    return str(port.get_any_name()) if port.get_names() else default


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


def _counted(outputs: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of classes by output, for outputs behind an argmax of OpenVINO's, which is a TopK."""
    found: dict[str, int] = {}
    for name, output in outputs.items():
        node = output.get_node().input_value(0).get_node()
        while node.get_type_name() in _MOVED:
            node = node.input_value(0).get_node()
        if node.get_type_name() == "TopK":
            side = node.input_value(0).get_partial_shape()[node.get_attributes()["axis"]]
            found |= {} if side.is_dynamic else {name: side.get_length()}
    return found


def _in_onnxruntime(path: Path, precision: str, threads: int | None) -> File:
    if precision != "f32":
        raise UsageError(f"precision {precision!r}: ONNX Runtime runs here in f32; use the engine 'openvino' for bf16.")
    library = libraries.onnxruntime()
    options = library.SessionOptions()
    options.intra_op_num_threads = threads_or_all(threads)
    options.log_severity_level = 3
    session = library.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    libraries.keep_after_fork(session)

    def port(given: Any) -> Port:
        kind = TensorProto.DataType.Value(given.type.removeprefix("tensor(").removesuffix(")").upper())
        sides = tuple(side if isinstance(side, int) else 0 for side in given.shape)
        return Port(given.name, helper.tensor_dtype_to_np_dtype(kind), sides)

    inputs = tuple(map(port, session.get_inputs()))

    def compile(shape: tuple[int, ...], wanted: tuple[str, ...]) -> Run:
        return lambda array: session.run(list(wanted), {inputs[0].name: array})

    return File(path, "onnxruntime", inputs, tuple(map(port, session.get_outputs())), compile, {}, {})


def layout(frame: Port) -> tuple[bool, int, int]:
    """Return whether a frame's channels come last, its height and its width (0: free); ``NetworkError`` if it is no frame."""
    shape = (1, *frame.shape) if len(frame.shape) == 3 else frame.shape
    if len(shape) == 4 and shape[0] in (0, 1):
        if shape[1] in (0, 3) and not (shape[1] == 0 and shape[3] == 3):
            return False, shape[2], shape[3]
        if shape[3] == 3:
            return True, shape[1], shape[2]
    raise NetworkError(
        f"the network's input {frame.name!r} is {list(shape)}; it must be a frame, [1, 3, height, width] or "
        "[1, height, width, 3]. Export it so."
    )


def channels_axis(shape: Sequence[int], file: File, channels: int | None, size: Size | None = None) -> int | None:
    """Return the axis of ``channels`` of an output, 1 or 3 (``cut_output.channels_axis``); None if it has none.

    ``size``: of the frame; None: that of the file. Where nothing tells, the axis is that of the frame's channels.
    """
    if len(shape) != 4:
        return None
    last, *_ = layout(file.inputs[0])
    return cut_output.channels_axis(shape, channels, size or file.size, 3 if last else 1)
