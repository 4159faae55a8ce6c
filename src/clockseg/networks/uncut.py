"""Networks that run uncut: files of OpenVINO and TensorFlow Lite, and ONNX files that were not cut, clocked at their output.

A schedule such as skip_frame, warp or interpolate needs no stages: the whole network runs on key frames. NAME.json beside the
file may say what the file doesn't; it is a sidecar (``clockseg.graph.sidecar``) without "cuts".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import onnx

from clockseg.engines.openvino_file import graph_of
from clockseg.errors import NetworkError, UsageError
from clockseg.graph import onnx_reader, sidecar
from clockseg.graph.sidecar import Sidecar
from clockseg.instances.recognising import IMAGENET
from clockseg.networks.cut_input import FrameInput, frame_input
from clockseg.networks.settling import settle_whole
from clockseg.networks.source import Said, Source
from clockseg.types import Size

_EXAMPLE = (512, 512)
"""The working size that is shown as an example where only the user knows it."""


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
    model = onnx_reader.read(path) if path.suffix == ".onnx" else graph_of(path, size or said.size or _EXAMPLE)
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
    try:
        found = settle_whole(Source(model, path.stem), said, path.stem)
    except (NetworkError, UsageError) as error:
        example = {"format": sidecar.FORMAT} | data | {"input": _examples(frame, said) | given}
        raise type(error)(
            f"{path.name} runs uncut: {error} Write what these options of clockseg cut would say into {beside} (such as "
            f'"output": "NAME", "classes": ["NAME", "NAME"]), with your own values: {json.dumps(example)}'
        ) from error
    told = json.loads(sidecar.dump(found.sidecar))
    full = told | data | {"input": told["input"] | given, "output": found.sidecar.output}
    if found.sidecar.instances is not None:
        full["instances"] = told["instances"] | data.get("instances", {})
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


def _examples(frame: FrameInput, said: Said) -> dict[str, Any]:
    """Return examples for the fields of a sidecar's input that only the user knows."""
    size = {} if frame.size or said.size else dict(zip(("width", "height"), _EXAMPLE, strict=True))
    known = frame.bytes or said.mean is not None
    return size | ({} if known else {"scale": 1 / 255, "mean": IMAGENET[0], "std": IMAGENET[1]})
