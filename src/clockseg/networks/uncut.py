"""Networks that run uncut: files of OpenVINO and TensorFlow Lite, and ONNX files that were not cut, clocked at their output.

A schedule such as skip_frame, warp or interpolate needs no stages: the whole network runs on key frames. NAME.json beside the
file may say what the file doesn't; it is a sidecar (``clockseg.graph.sidecar``) without "cuts".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from clockseg import libraries
from clockseg.clockwork.network import Part, Stage, StagedNetwork
from clockseg.engines.compiled import PerSize
from clockseg.errors import NetworkError, UsageError, first_line
from clockseg.execution.machine import threads_or_all
from clockseg.graph import onnx_reader, sidecar
from clockseg.graph.extraction import built, with_labels
from clockseg.graph.part import FRAME_SIZE, IMAGE, LABELS, Built, GraphPart, Pick, Tensors
from clockseg.graph.sidecar import MOST_CLASSES, Input, Sidecar
from clockseg.libraries import opencv
from clockseg.networks.cut_input import IMAGENET, frame_input, smallest_multiple
from clockseg.networks.source import RECOMMENDED, numbered
from clockseg.types import Array, Size

SUFFIXES = (".xml", ".tflite")
"""Files that OpenVINO reads and that are no ONNX: its own, and those of TensorFlow Lite."""
_SIZES = 4
"""Working sizes for which a network stays compiled."""
Run = Callable[[Array], Array]


def is_uncut(path: Path) -> bool:
    """Return True for a file that runs uncut: no ONNX file, or one whose sidecar is absent or names no cuts."""
    if path.suffix != ".onnx":
        return path.suffix in SUFFIXES
    data = _beside(path)
    return path.is_file() and data is not None and "cuts" not in data


@dataclass(frozen=True)
class Port:
    """An input or output of a file: its name, its numpy type, and its sides, 0 for a free one."""

    name: str
    type: np.dtype[Any]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class File:
    """A network's file as an engine reads it. ``compile``: from the shape of the input and the output's name, a function.

    ``ids``: the number of classes whose ids an output gives, as far as the file tells.
    """

    path: Path
    engine: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    compile: Callable[[tuple[int, ...], str], Run]
    ids: Mapping[str, int]

    @property
    def size(self) -> Size | None:
        """The working size (WIDTH, HEIGHT) that the file is fixed to; None where it takes any."""
        _, height, width = _layout(self.inputs[0])
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
            except (RuntimeError, ValueError) as error:
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

    def port(given: Any) -> Port:
        sides = tuple(0 if side.is_dynamic else side.get_length() for side in given.partial_shape)
        return Port(given.get_any_name(), np.dtype(given.get_element_type().to_dtype()), sides)

    def compile(shape: tuple[int, ...], output: str) -> Run:
        own = core.read_model(str(path))
        own.reshape(list(shape))
        request = core.compile_model(own, "CPU", options).create_infer_request()
        libraries.keep_after_fork(request)

        def run(array: Array) -> Array:
            request.infer([library.Tensor(array)])
            return np.array(request.get_tensor(output).data)

        return run

    return File(
        path, "openvino", tuple(map(port, model.inputs)), tuple(map(port, model.outputs)), compile, _counted(model)
    )


def _counted(model: Any) -> dict[str, int]:
    """Return the number of classes by output, for outputs behind an argmax of OpenVINO's, which is a TopK."""
    found: dict[str, int] = {}
    for output in model.outputs:
        node = output.get_node().input_value(0).get_node()
        while node.get_type_name() != "TopK" and node.get_input_size() >= 1:
            node = node.input_value(0).get_node()
        if node.get_type_name() == "TopK":
            side = node.input_value(0).get_partial_shape()[node.get_attributes()["axis"]]
            found |= {} if side.is_dynamic else {output.get_any_name(): side.get_length()}
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
        kind = TensorProto.DataType.Value(_ONNX_TYPES.get(given.type[7:-1], given.type[7:-1].upper()))
        sides = tuple(side if isinstance(side, int) else 0 for side in given.shape)
        return Port(given.name, helper.tensor_dtype_to_np_dtype(kind), sides)

    inputs = tuple(map(port, session.get_inputs()))

    def compile(shape: tuple[int, ...], output: str) -> Run:
        return lambda array: session.run([output], {inputs[0].name: array})[0]

    return File(path, "onnxruntime", inputs, tuple(map(port, session.get_outputs())), compile, {})


_ONNX_TYPES = {"float": "FLOAT", "double": "DOUBLE"}


def describe(file: File, size: Size | None) -> Sidecar:
    """Return the sidecar of a file: what stands in NAME.json beside it, completed with what the file itself tells.

    ``size``: the working size (WIDTH, HEIGHT) that the user gave, for a file of free sizes. ``NetworkError`` names a field of
    NAME.json that is wrong, ``UsageError`` those that are missing.
    """
    path, data = file.path, _beside(file.path)
    beside = path.with_suffix(".json")
    if data is None:
        return sidecar.read(beside)  # which raises the error
    if len(file.inputs) != 1:
        names = ", ".join(one.name for one in file.inputs)
        raise NetworkError(f"{path.name} has {len(file.inputs)} inputs ({names}); one, the frame, can be given.")
    [frame] = file.inputs
    said = data.get("input", {})
    given = said if isinstance(said, dict) else {}
    _check_name(beside, "input.name", given.get("name", frame.name), "input", file.inputs)
    named = data.get("output", file.outputs[0].name)
    _check_name(beside, "output", named, "output", file.outputs)
    output = next(one for one in file.outputs if one.name == named)
    known: dict[str, Any] = {"name": frame.name, **({"scale": 1.0} if frame.type == np.uint8 else {})}
    if working := file.size or size:
        known |= {"width": working[0], "height": working[1]}
    examples, classes = _examples(frame, known | given), list(numbered(_classes(file, output)).names)
    full: dict[str, Any] = {
        "format": sidecar.FORMAT,
        "name": path.stem,
        "input": {},
        "output": output.name,
        "classes": classes or (["background", "person"] if output.type.kind in "iu" else []),
        **data,
    }
    full["input"] = known | examples | said if isinstance(said, dict) else said
    found = sidecar.parse(json.dumps({"cuts": [[output.name]], "schedule": RECOMMENDED, **full}), source=str(beside))
    _check_classes(beside, file, output, found.classes)
    missing = [f"input.{name}" for name in examples]
    missing += ["classes"] if not classes and full["classes"] and "classes" not in data else []
    if missing:
        raise UsageError(
            f"{path.name} runs uncut, and neither it nor {beside.name} says {', '.join(missing)}{_or_cut(file)} write {beside}, with your "
            f"own values: {json.dumps(full)}"
        )
    if "pad_multiple" not in given and path.suffix == ".onnx" and file.size is None:
        found = replace(found, input=replace(found.input, pad_multiple=_multiple(path, found.input)))
    return found


def _or_cut(file: File) -> str:
    """Return the end of a sentence that offers to cut a file, for those that can be, up to the alternative."""
    if file.path.suffix != ".onnx":
        return ":"
    out = file.path.with_name(f"{file.path.stem}-cut.onnx")
    size = "" if file.size else " --size WIDTHxHEIGHT"
    return f". Cut it, with your own values (clockseg cut {file.path} --out {out}{size} {IMAGENET}), or"


def _check_name(beside: Path, field: str, name: object, kind: str, ports: Sequence[Port]) -> None:
    """Check that a ``field`` of the sidecar names one of the file's inputs or outputs, ``ports``."""
    there = [port.name for port in ports]
    if name not in there:
        raise NetworkError(
            f"{beside}: {field} is {json.dumps(name)}, and the file has no such {kind}; it has {', '.join(there)}. Write one "
            "of these, or leave the field out."
        )


def _check_classes(beside: Path, file: File, output: Port, classes: Sequence[str]) -> None:
    """Check that there are as many ``classes`` as the output scores; none stand for an output of numbers."""
    axis = _channels_axis(output.shape, file, len(classes))
    floats = output.type.kind == "f"
    scored = (output.shape[axis] if floats and axis is not None else 0) or file.ids.get(output.name, 0)
    if classes and scored and scored != len(classes):
        raise NetworkError(
            f"{beside}: classes has {len(classes)} names, and the output {output.name!r} {list(output.shape)} scores {scored}; "
            + (
                "cut it (clockseg cut), which takes two names for one channel, or give []."
                if scored == 1
                else "give a name for each, in the order of its channels, or [] if it does not score classes."
            )
        )


def _multiple(path: Path, reads: Input) -> int:
    """Return the multiple that the sides of frames must have, as ``clockseg cut`` finds it; 1 where it can't tell."""
    try:
        frame = frame_input(onnx_reader.read(path))
        return smallest_multiple(frame, (reads.width, reads.height)) or 1
    except NetworkError:
        return 1


def _classes(file: File, output: Port) -> int:
    """Return the number of classes that an output gives ids or scores of, as far as the file tells, else 0."""
    axis = _channels_axis(output.shape, file, None)
    if output.type.kind != "f" or axis is None:
        return file.ids.get(output.name, 0)
    return output.shape[axis] if 1 < output.shape[axis] <= MOST_CLASSES else 0


def _examples(frame: Port, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return examples for the fields of a sidecar's input that only the user knows and that are not ``given``."""
    found: dict[str, Any] = {name: 512 for name in ("width", "height") if name not in given}
    if frame.type.kind == "f" and not {"mean", "std", "scale"}.intersection(given):
        found |= {"scale": 1 / 255, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
    return found


def _beside(path: Path) -> dict[str, Any] | None:
    """Return the JSON object beside a file, empty if there is no such file; None if it is damaged."""
    beside = path.with_suffix(".json")
    try:
        data = json.loads(beside.read_text(encoding="utf-8")) if beside.is_file() else {}
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _layout(frame: Port) -> tuple[bool, int, int]:
    """Return whether a frame's channels come last, its height and its width (0: free); ``NetworkError`` if it is no frame."""
    shape = frame.shape
    if len(shape) == 4 and shape[0] in (0, 1):
        if shape[1] in (0, 3) and not (shape[1] == 0 and shape[3] == 3):
            return False, shape[2], shape[3]
        if shape[3] == 3:
            return True, shape[1], shape[2]
    raise NetworkError(
        f"the network's input {frame.name!r} is {list(shape)}; it must be a frame, [1, 3, height, width] or "
        "[1, height, width, 3]. Export it so."
    )


def _channels_axis(shape: Sequence[int], file: File, classes: int | None) -> int | None:
    """Return the axis of channels of an output, 1 or 3: as many as ``classes``, else as the frame's; None if it has none."""
    if len(shape) != 4:
        return None
    fitting = [axis for axis in (1, 3) if classes in (None, shape[axis])]
    like_frame = 3 if _layout(file.inputs[0])[0] else 1
    return fitting[0] if len(fitting) == 1 else like_frame


@dataclass(frozen=True)
class Body:
    """The whole network as the one stage's body: from uint8 frames to its output, class ids as labels."""

    file: File
    said: Sidecar
    runners: PerSize[Size, Array]

    def __call__(self, value: Tensors) -> dict[str, Array]:
        image = value[IMAGE]
        size = (image.shape[2], image.shape[1])
        try:
            made = self.runners.run(size, self._compiled, self._read(image), most=_SIZES)
        except Exception as error:  # engines raise many types
            if isinstance(error, NetworkError):
                raise
            free = f'another --size, or "pad_multiple": 32 under "input" in {self.file.path.with_suffix(".json")}, which pads '
            raise NetworkError(
                f"{self.file.engine} can't run {self.file.path.name} at {size[0]}x{size[1]} ({first_line(error)}). Give "
                f"{'' if self.file.size else f'{free}frames to multiples of 32, or '}another --engine."
            ) from error
        return self._value(made, size)

    def _compiled(self, size: Size) -> Run:
        last, *_ = _layout(self.file.inputs[0])
        width, height = size
        return self.file.compile((1, height, width, 3) if last else (1, 3, height, width), self.said.output)

    def _read(self, image: Array) -> Array:
        """Return the frames, uint8 [1, h, w, 3], as the network reads them."""
        last, *_ = _layout(self.file.inputs[0])
        kind = self.file.inputs[0].type
        image = image[..., ::-1] if self.said.input.colour == "bgr" else image
        factor, offset = (one.astype(np.float32) for one in self.said.input.affine())
        read = image if kind.kind in "iu" else image * factor + offset
        return np.ascontiguousarray(read if last else read.transpose(0, 3, 1, 2), kind)

    def _value(self, made: Array, size: Size) -> dict[str, Array]:
        """Return the output by name: labels uint8 [1, h, w] at the frame's size, or numbers [1, channels, h, w]."""
        if _channels_axis(made.shape, self.file, len(self.said.classes) or None) == 3:
            made = np.ascontiguousarray(made.transpose(0, 3, 1, 2))
        if made.dtype.kind == "f" or not self.said.classes:
            return {self.said.output: made, FRAME_SIZE: np.array(size)}
        labels: Array = made.reshape(made.shape[-2:]).astype(np.uint8)
        if labels.shape != (size[1], size[0]):
            labels = opencv().resize(labels, size, interpolation=opencv().INTER_NEAREST_EXACT)
        return {LABELS: labels[None], FRAME_SIZE: np.array(size)}


@dataclass(frozen=True)
class Whole:
    """The network and what makes its output, one after the other."""

    body: Part
    finish: Part

    def __call__(self, value: Tensors) -> Any:
        return self.finish(self.body(value))


def staged(file: File, said: Sidecar) -> StagedNetwork:
    """Return the file as a network of one stage, whose scores the part ``finish`` makes labels of; see ``describe``.

    The parts behind the network's own are graphs, which an engine has to compile.
    """
    body = Body(file, said, PerSize())
    scores = next(one for one in file.outputs if one.name == said.output).type.kind == "f" and bool(said.classes)

    def build(size: Size) -> Built:
        width, height = size
        made = body({IMAGE: np.zeros((1, height, width, 3), np.uint8)})[said.output]
        info = helper.make_tensor_value_info(said.output, helper.np_dtype_to_tensor_dtype(made.dtype), made.shape)
        graph = helper.make_graph([], "finish", [info], [info])
        return built(
            with_labels(
                helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), said.output, size
            )
        )

    finish = GraphPart("finish", (said.output,), (LABELS,), build)
    shown = Pick((LABELS,) if said.classes and not scores else (said.output,))
    return StagedNetwork(
        said.name,
        (Stage("network", body, scores=None),),
        finish=finish if scores else shown,
        sidecar=replace(said, stages=("network",)),
        engine=file.engine,
        fused=Pick((said.output,)) if scores else shown,
    )
