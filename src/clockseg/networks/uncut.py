"""Networks that run uncut: files of OpenVINO and TensorFlow Lite, and ONNX files that were not cut, clocked at their output.

A schedule such as skip_frame, warp or interpolate needs no stages: the whole network runs on key frames. NAME.json beside the
file may say what the file doesn't; it is a sidecar (``clockseg.graph.sidecar``) without "cuts".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper

from clockseg.clockwork.network import Stage, StagedNetwork
from clockseg.engines.compiled import PerSize
from clockseg.errors import NetworkError, UsageError, first_line
from clockseg.graph import onnx_reader, sidecar
from clockseg.graph.extraction import built, with_labels
from clockseg.graph.part import FRAME_SIZE, IMAGE, LABELS, Built, GraphPart, Pick, Tensors
from clockseg.graph.sidecar import MOST_CLASSES, Input, Sidecar
from clockseg.instances.heads import Head
from clockseg.instances.recognising import KINDS, Recognised, recognise, recognised, shown
from clockseg.libraries import opencv
from clockseg.networks.cut_input import IMAGENET, frame_input, smallest_multiple
from clockseg.networks.cut_output import alike, the_classes
from clockseg.networks.network_file import File, Port, Run, channels_axis, layout
from clockseg.networks.source import RECOMMENDED, numbered
from clockseg.types import Array, Size

_SIZES = 4
"""Working sizes for which a network stays compiled."""


def describe(file: File, size: Size | None) -> Sidecar:
    """Return the sidecar of a file: what stands in NAME.json beside it, completed with what the file itself tells.

    ``size``: the working size (WIDTH, HEIGHT) that the user gave, for a file of free sizes. ``NetworkError`` names a field of
    NAME.json that is wrong, ``UsageError`` those that are missing.
    """
    path, data = file.path, sidecar.beside(file.path)
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
    found = None if data.get("classes") == [] else _recognised(file)
    named = data.get("output") or (found.head.outputs[0] if found else _by_kind(file, beside))
    _check_name(beside, "output", named, "output", file.outputs)
    output = next(one for one in file.outputs if one.name == named)
    known: dict[str, Any] = {"name": frame.name, **({"scale": 1.0} if frame.type == np.uint8 else {})}
    known |= {} if found is None else _reads(found, frame)
    if working := file.size or size:
        known |= {"width": working[0], "height": working[1]}
    examples = _examples(frame, known | given)
    classes = list(found.class_names if found else numbered(_classes(file, output)).names)
    full: dict[str, Any] = {
        "format": sidecar.FORMAT,
        "name": path.stem,
        "input": {},
        "output": output.name,
        "classes": classes or (["background", "person"] if output.type.kind in "iu" else []),
        **data,
    }
    full["input"] = known | examples | said if isinstance(said, dict) else said
    if found is not None and isinstance(heads := data.get("instances", {}), dict):
        full["instances"] = found.head.facts() | heads
    told = sidecar.parse(json.dumps({"cuts": [[output.name]], "schedule": RECOMMENDED, **full}), source=str(beside))
    if found is None:
        _check_classes(beside, file, output, told.classes)
        if told.classes or "classes" not in data:
            _check_kind(beside, file, output, told.classes)
    missing = [f"input.{name}" for name in examples]
    missing += ["classes"] if not classes and full["classes"] and "classes" not in data else []
    if missing:
        raise UsageError(
            f"{path.name} runs uncut, and neither it nor {beside.name} says {', '.join(missing)}{_or_cut(file, examples)} write {beside}, with your "
            f"own values: {json.dumps({key: value for key, value in full.items() if found is None or key != 'classes'})}"
        )
    if "pad_multiple" not in full["input"] and path.suffix == ".onnx" and file.size is None:
        told = replace(told, input=replace(told.input, pad_multiple=_multiple(path, told.input)))
    return told


def _recognised(file: File) -> Recognised | None:
    """Return the instance head of a file; None if its outputs are not those of an instance network."""
    if file.path.suffix == ".onnx":
        return recognise(onnx_reader.read(file.path))
    whole = {one.name for one in file.outputs if one.type.kind in "iu"}
    return recognised({one.name: one.shape for one in file.outputs}, whole, file.told)


def _reads(found: Recognised, frame: Port) -> dict[str, Any]:
    """Return the fields of a sidecar's input that an instance network's file tells."""
    told: dict[str, Any] = {} if found.size is None else {"width": found.size[0], "height": found.size[1]}
    if found.pixels and frame.type.kind == "f":
        told |= {"scale": 1 / 255, "mean": [*found.pixels[0]], "std": [*found.pixels[1]]}
    told |= {} if found.stride is None else {"pad_multiple": found.stride}
    return told | ({"pad_value": list(found.pad_value)} if found.pad_value else {})


def _by_kind(file: File, beside: Path) -> str:
    """Return the output of class scores, or of class ids if there is none; ``UsageError`` if several may be it."""
    found = the_classes({one.name: (one.type.kind == "f", one.shape) for one in file.outputs})
    if found is None:
        shapes = shown({one.name: one.shape for one in file.outputs})
        raise UsageError(
            f"{file.path.name} has {len(file.outputs)} outputs: {shapes}. Write the name of the one to use into {beside}: "
            f'{{"output": "{file.outputs[0].name}"}}. {KINDS}'
        )
    return found


def _or_cut(file: File, examples: Mapping[str, Any]) -> str:
    """Return the end of a sentence that offers to cut a file, for those that can be, up to the alternative."""
    if file.path.suffix != ".onnx":
        return ":"
    out = file.path.with_name(f"{file.path.stem}-cut.onnx")
    size = "" if file.size else " --size WIDTHxHEIGHT"
    pixels = f" {IMAGENET}" if "mean" in examples else ""
    return f". Cut it, with your own values (clockseg cut {file.path} --out {out}{size}{pixels}), or"


def _check_name(beside: Path, field: str, name: object, kind: str, ports: Sequence[Port]) -> None:
    """Check that a ``field`` of the sidecar names one of the file's inputs or outputs, ``ports``."""
    there = [port.name for port in ports]
    if name not in there:
        raise NetworkError(
            f"{beside}: {field} is {json.dumps(name)}, and the file has no such {kind}; it has {', '.join(there)}. Write one "
            "of these, or leave the field out."
        )


def _check_kind(beside: Path, file: File, output: Port, classes: Sequence[str]) -> None:
    """Check that an output is a map of class scores or class ids or, of no ``classes``, a map of numbers."""
    shape, frame, axis = output.shape, file.size, channels_axis(output.shape, file, None)
    if output.type.kind in "iub":
        others = (shape[0], min(shape[1], shape[3])) if len(shape) == 4 else shape[:-2]
        fits = len(shape) in (2, 3, 4) and all(side <= 1 for side in others)
    elif len(shape) == 3 and not classes:
        fits = not (frame and all(shape)) or alike(shape, (1, *frame[::-1]))
    else:
        fits = axis is not None and shape[axis] <= MOST_CLASSES
    if not fits:
        raise NetworkError(
            f"{file.path.name} outputs {shown({output.name: shape})}, which is no map of at most {MOST_CLASSES} classes. {KINDS} "
            f'For numbers of any other shape, write {{"classes": []}} into {beside}.'
        )


def _check_classes(beside: Path, file: File, output: Port, classes: Sequence[str]) -> None:
    """Check that there are as many ``classes`` as the output scores; none stand for an output of numbers."""
    axis = channels_axis(output.shape, file, len(classes))
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
    axis = channels_axis(output.shape, file, None)
    if output.type.kind != "f" or axis is None:
        return file.ids.get(output.name, 0)
    return output.shape[axis] if 1 < output.shape[axis] <= MOST_CLASSES else 0


def _examples(frame: Port, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return examples for the fields of a sidecar's input that only the user knows and that are not ``given``."""
    found: dict[str, Any] = {name: 512 for name in ("width", "height") if name not in given}
    if frame.type.kind == "f" and not {"mean", "std", "scale"}.intersection(given):
        found |= {"scale": 1 / 255, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
    return found


@dataclass(frozen=True)
class Body:
    """The whole network as the one stage's body: from uint8 frames to its output, class ids as labels."""

    file: File
    said: Sidecar
    runners: PerSize[Size, list[Array]]

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs that are read: that of the classes or numbers, or those of an instance head."""
        return Head.read(self.said.instances).outputs if self.said.instances else (self.said.output,)

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
        last, *_ = layout(self.file.inputs[0])
        shape = (1, *size[::-1], 3) if last else (1, 3, *size[::-1])
        return self.file.compile(shape[-len(self.file.inputs[0].shape) :], self.outputs)

    def _read(self, image: Array) -> Array:
        """Return the frames, uint8 [1, h, w, 3], as the network reads them."""
        last, *_ = layout(self.file.inputs[0])
        kind = self.file.inputs[0].type
        image = image[..., ::-1] if self.said.input.colour == "bgr" else image
        factor, offset = (one.astype(np.float32) for one in self.said.input.affine())
        read = image if kind.kind in "iu" else image * factor + offset
        read = read if last else read.transpose(0, 3, 1, 2)
        return np.ascontiguousarray(read[0] if len(self.file.inputs[0].shape) == 3 else read, kind)

    def _value(self, given: list[Array], size: Size) -> dict[str, Array]:
        """Return the output by name: labels uint8 [1, h, w] at the frame's size, or numbers [1, channels, h, w].

        Those of an instance head as they are.
        """
        if self.said.instances:
            return dict(zip(self.outputs, given, strict=True)) | {FRAME_SIZE: np.array(size)}
        [made] = given
        channels = len(self.said.classes) or None if made.dtype.kind == "f" else 1
        if channels_axis(made.shape, self.file, channels, size) == 3:
            made = np.ascontiguousarray(made.transpose(0, 3, 1, 2))
        if made.dtype.kind == "f" or not self.said.classes:
            return {self.said.output: made, FRAME_SIZE: np.array(size)}
        labels: Array = made.reshape(made.shape[-2:]).astype(np.uint8)
        if labels.shape != (size[1], size[0]):
            labels = opencv().resize(labels, size, interpolation=opencv().INTER_NEAREST_EXACT)
        return {LABELS: labels[None], FRAME_SIZE: np.array(size)}


def staged(file: File, said: Sidecar) -> StagedNetwork:
    """Return the file as a network of one stage, whose scores the part ``finish`` makes labels of; see ``describe``.

    The parts behind the network's own are graphs, which an engine has to compile.
    """
    body = Body(file, said, PerSize())
    kind = next(one for one in file.outputs if one.name == said.output).type.kind
    scores = kind == "f" and bool(said.classes) and not said.instances

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
    labels = said.classes and not scores and not said.instances
    picked = Pick((LABELS,) if labels else body.outputs)
    return StagedNetwork(
        said.name,
        (Stage("network", body, scores=None),),
        finish=finish if scores else picked,
        sidecar=replace(said, stages=("network",)),
        engine=file.engine,
        fused=Pick((said.output,)) if scores else picked,
    )
