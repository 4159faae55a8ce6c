"""Networks that run uncut: files of OpenVINO and TensorFlow Lite, and ONNX files that were not cut, clocked at their output.

A schedule such as skip_frame, warp or interpolate needs no stages: the whole network runs on key frames. NAME.json beside the
file may say what the file doesn't; it is a sidecar (``clockseg.graph.sidecar``) without "cuts".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import onnx

from clockseg.engines import openvino_file
from clockseg.errors import NetworkError, UsageError
from clockseg.graph import onnx_reader, sidecar
from clockseg.graph.extraction import SCORES
from clockseg.graph.sidecar import Sidecar
from clockseg.instances.recognising import IMAGENET
from clockseg.networks.cut_input import IMAGENET_OPTIONS, FrameInput, fitted, frame_input
from clockseg.networks.settling import implied, recognised, settle_instances, settle_whole
from clockseg.networks.source import Said, Source, numbered
from clockseg.types import Size

_EXAMPLE = (512, 512)
"""The working size that is shown as an example where only the user knows it."""
_CLASSES = ("background", "person")


def read(path: Path, size: Size | None) -> tuple[onnx.ModelProto, Sidecar]:
    """Read a file as a graph that frames fit, with its sidecar: what stands in NAME.json, completed with what the file tells.

    ``size``: the working size (WIDTH, HEIGHT) that the user gave, for a file of free sizes. ``NetworkError`` says what is
    wrong with NAME.json or with the file, ``UsageError`` which fields are missing.
    """
    beside = path.with_suffix(".json")
    data = sidecar.beside(path)
    if data is None:
        sidecar.read(beside)  # which raises the error
    data = data or {}
    said, given = _said(data, beside), data.get("input", {})
    sized = size or said.size
    model = onnx_reader.read(path) if path.suffix == ".onnx" else openvino_file.graph_of(path, sized or _EXAMPLE)
    frame = frame_input(model)
    names = {
        "input.name": (given.get("name"), [frame.name]),
        "output": (said.output, [one.name for one in model.graph.output]),
    }
    for field, (name, there) in names.items():
        if name not in (None, *there):
            raise NetworkError(f"{beside}: {field} is {json.dumps(name)}, and the file has {', '.join(there)}.")
    if size is not None:
        said = replace(said, size=None if frame.size else size)
    head = recognised(model, said)
    with _explained(path, beside):
        if head is not None:
            said = said.over(implied(head, frame))
        elif said.pad_multiple is None:
            frame = fitted(frame, said.size)
        examples = _examples(frame, said)
        normal = {name: value for name, value in examples.items() if name in ("scale", "mean", "std")}
        said = said.over(Said(size=_EXAMPLE if "width" in examples else None, **normal))
        if head is None:
            found = settle_whole(frame, said, path.stem)
        else:
            found = settle_instances(head, Source(model, path.stem), said, path.stem)
    told = json.loads(sidecar.dump(found.sidecar))
    full = told | data | {"input": told["input"] | given, "output": found.sidecar.output}
    if head is not None:
        full["instances"] = head.head.facts() | data.get("instances", {})
    missing = [f"input.{name}" for name in examples if name not in given]
    kinds = {value.name: value.type.tensor_type.elem_type for value in found.model.graph.output}
    if "classes" not in full and kinds[found.sidecar.output] not in SCORES:
        count = openvino_file.class_count(model, found.sidecar.output)
        missing += [] if count else ["classes"]
        full["classes"] = list(numbered(count).names if count else _CLASSES)
    if missing:
        own = {"format": sidecar.FORMAT, "input": examples | given}
        own |= {"classes": full["classes"]} if full.get("classes") and head is None else {}
        raise UsageError(
            f"{path.name} runs uncut, and neither it nor {beside.name} says {', '.join(missing)}{_or_cut(path, examples)} write "
            f"{beside}, with your own values: {json.dumps(own | data | own)}"
        )
    return found.model, sidecar.parse(json.dumps(full), source=str(beside))


def _said(data: Mapping[str, Any], beside: Path) -> Said:
    """Return what NAME.json says, as the options of ``clockseg cut`` would; none of its fields is required."""
    full = {"format": sidecar.FORMAT, "output": "", "cuts": [[""]], **data}
    given = full.get("input", {})
    full["input"] = {"name": "", "width": 1, "height": 1} | given if isinstance(given, dict) else given
    told = sidecar.parse(json.dumps(full), source=str(beside))
    values = vars(told) | vars(told.input) | {"size": (told.input.width, told.input.height)}
    there = {*data, *data.get("input", {})}
    there |= {"size"} if {"width", "height"} <= there else set()
    # Pixels are normalised if any of it is said.
    there |= {"mean", "std"} if there & {"mean", "std", "scale"} else set()
    return Said(**{field.name: values[field.name] for field in fields(Said) if field.name in there})


@contextmanager
def _explained(path: Path, beside: Path) -> Iterator[None]:
    """Add to errors, which speak of the options of ``clockseg cut``, that a file which runs uncut has a NAME.json instead."""
    try:
        yield
    except (NetworkError, UsageError) as error:
        raise type(error)(
            f"{path.name} runs uncut: {error} Without a cut, write into {beside} what these options would say, such as "
            '{"output": "NAME", "classes": ["NAME", "NAME"]}.'
        ) from error


def _examples(frame: FrameInput, said: Said) -> dict[str, Any]:
    """Return examples for the fields of a sidecar's input that only the user knows."""
    size = {} if frame.size or said.size else dict(zip(("width", "height"), _EXAMPLE, strict=True))
    known = frame.bytes or said.mean is not None
    return size | ({} if known else {"scale": 1 / 255, "mean": IMAGENET[0], "std": IMAGENET[1]})


def _or_cut(path: Path, examples: dict[str, Any]) -> str:
    """Return the end of a sentence that offers to cut a file, for those that can be, up to the alternative."""
    if path.suffix != ".onnx":
        return ":"
    out = path.with_name(f"{path.stem}-cut.onnx")
    size = " --size WIDTHxHEIGHT" if "width" in examples else ""
    pixels = f" {IMAGENET_OPTIONS}" if "mean" in examples else ""
    return f". Cut it, with your own values (clockseg cut {path} --out {out}{size}{pixels}), or"
