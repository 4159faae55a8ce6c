"""Networks that run uncut: files of OpenVINO and TensorFlow Lite, and ONNX files that were not cut, clocked at their output.

A schedule such as skip_frame, warp or interpolate needs no stages: the whole network runs on key frames. NAME.json beside the
file may say what the file doesn't; it is a sidecar (``clockseg.graph.sidecar``) without "cuts".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
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

    ``size``: the working size (WIDTH, HEIGHT) that the user gave, for a file of free sizes. ``NetworkError`` names a field of
    NAME.json that is wrong, ``UsageError`` those that are missing.
    """
    beside = path.with_suffix(".json")
    data = sidecar.beside(path)
    if data is None:
        sidecar.read(beside)  # which raises the error
    data = data or {}
    said, given = _said(data, beside), data.get("input", {})
    asked, size = size, size or said.size
    model = onnx_reader.read(path) if path.suffix == ".onnx" else openvino_file.graph_of(path, size or _EXAMPLE)
    frame = frame_input(model)
    _check_name(beside, "input.name", given.get("name"), "input", [frame.name])
    _check_name(beside, "output", data.get("output"), "output", [value.name for value in model.graph.output])
    if asked is None and frame.size and said.size not in (None, frame.size):
        (width, height), (fixed_width, fixed_height) = said.size, frame.size
        raise NetworkError(
            f"{beside}: the size is {width}x{height}, and this network's file is fixed to {fixed_width}x{fixed_height}. Write "
            "that, or leave width and height out."
        )
    head = recognised(model, said)
    known = replace(said, size=None if frame.size else size).over(Said() if head is None else implied(head, frame))
    with _explained(path, beside):
        frame = frame if head or known.pad_multiple else fitted(frame, known.size)
        examples = _examples(frame, known, given)
        known = known.over(_as_said(given | examples))
        known = replace(known, size=None) if frame.size else known
        if head is None:
            found = settle_whole(frame, known, path.stem)
        else:
            found = settle_instances(head, Source(model, path.stem), known, path.stem)
    told = json.loads(sidecar.dump(found.sidecar))
    full = told | data | {"input": told["input"] | given, "output": found.sidecar.output}
    if head is not None:
        full["instances"] = head.head.facts() | data.get("instances", {})
    missing = [f"input.{name}" for name in examples]
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


def _as_said(reads: Mapping[str, Any]) -> Said:
    """Return the size and the normalisation in a sidecar's input, as far as they are complete."""
    return Said(
        size=(reads["width"], reads["height"]) if {"width", "height"} <= reads.keys() else None,
        mean=tuple(reads["mean"]) if "mean" in reads else None,
        std=tuple(reads["std"]) if "std" in reads else None,
        scale=reads.get("scale"),
    )


def _parsed(data: dict[str, Any], beside: Path) -> Sidecar:
    """Check each field of ``data``, of which none is required."""
    given = data.get("input", {})
    full = {"format": sidecar.FORMAT, "output": "", "cuts": [[""]], **data}
    full["input"] = {"name": "", "width": 1, "height": 1} | given if isinstance(given, dict) else given
    return sidecar.parse(json.dumps(full), source=str(beside))


def _said(data: dict[str, Any], beside: Path) -> Said:
    """Return what NAME.json says, as the options of ``clockseg cut`` would; pixels are normalised if any of it is said."""
    told = _parsed(data, beside)
    reads, given = told.input, data.get("input", {}).keys()
    normalised = not given.isdisjoint(("mean", "std", "scale"))
    return Said(
        output=told.output or None,
        classes=told.classes if "classes" in data else None,
        palette=told.palette or None,
        ignore=told.ignore,
        size=(reads.width, reads.height) if {"width", "height"} <= given else None,
        mean=reads.mean if normalised else None,
        std=reads.std if normalised else None,
        scale=reads.scale if "scale" in given else None,
        colour=reads.colour if "colour" in given else None,
        pad_multiple=reads.pad_multiple if "pad_multiple" in given else None,
    )


def _check_name(beside: Path, field: str, name: str | None, kind: str, there: Sequence[str]) -> None:
    """Check that a ``field`` of the sidecar, if it is given, names one of the file's inputs or outputs."""
    if name is not None and name not in there:
        raise NetworkError(
            f"{beside}: {field} is {json.dumps(name)}, and the file has no such {kind}; it has {', '.join(there)}. Write one "
            "of these, or leave the field out."
        )


def _examples(frame: FrameInput, known: Said, given: dict[str, Any]) -> dict[str, Any]:
    """Return examples for the fields of a sidecar's input that only the user knows, and that are not ``given``."""
    found: dict[str, Any] = {}
    if frame.size is None and known.size is None:
        found = {name: 512 for name in ("width", "height") if name not in given}
    if not frame.bytes and known.mean is None:
        found |= {"scale": 1 / 255, "mean": [*IMAGENET[0]], "std": [*IMAGENET[1]]}
    return found


def _or_cut(path: Path, examples: dict[str, Any]) -> str:
    """Return the end of a sentence that offers to cut a file, for those that can be, up to the alternative."""
    if path.suffix != ".onnx":
        return ":"
    out = path.with_name(f"{path.stem}-cut.onnx")
    size = " --size WIDTHxHEIGHT" if {"width", "height"} & examples.keys() else ""
    pixels = f" {IMAGENET_OPTIONS}" if "mean" in examples else ""
    return f". Cut it, with your own values (clockseg cut {path} --out {out}{size}{pixels}), or"
