"""Settings of an instance network: it is recognised by its outputs, and runs as one stage."""

from __future__ import annotations

from dataclasses import replace

import onnx
from onnx import helper

from clockseg.errors import UsageError
from clockseg.graph.nodes import copied
from clockseg.graph.sidecar import Sidecar
from clockseg.graph.static import declared_shape
from clockseg.instances.network import STAGE
from clockseg.instances.recognising import Recognised, recognise
from clockseg.networks.class_names import numbered
from clockseg.networks.cut_input import describe, frame_input
from clockseg.networks.cut_settling import Cutting, Settled
from clockseg.networks.cut_source import Said, Source, Told

_UNKNOWN = 91
"""Classes of a network that doesn't say how many it has: COCO's ids, with which nearly all of these are trained."""
_GREY = (114, 114, 114)
"""The colour with which YOLO's own letterbox pads."""


def settle_instances(source: Source, given: Said, cutting: Cutting, name: str) -> Settled | None:
    """Settle everything of an instance network; None if ``source`` is none, or the user says that it gives numbers."""
    if given.classes == ():
        return None
    found = recognise(source.model)
    if found is None:
        return None
    if cutting.at != "auto":
        raise UsageError("--at: an instance network runs as one stage; leave it out.")
    frame = frame_input(_batched(source.model))
    size = found.size if frame.size is None else None
    plain = Said(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0), scale=1 / 255) if found.plain else Said()
    stride = found.stride if frame.size is None else None
    said = given.over(source.said).over(replace(plain, size=size, pad_multiple=stride))
    reads, told = describe(frame, said, {})
    reads = replace(reads, pad_value=_GREY) if found.head.layout.startswith("yolo") else reads
    names, names_told = _classes(found, said)
    head = found.head
    about = (
        Told("output", ", ".join(head.outputs), found.why),
        Told(
            "instances",
            head.layout,
            f"with a score of at least {head.score:g}; boxes overlap by at most {head.overlap:g}",
        ),
    )
    sidecar = Sidecar(
        name,
        reads,
        head.outputs[0],
        (head.outputs,),
        (STAGE,),
        classes=names,
        palette=said.palette or (),
        instances=head.facts(),
    )
    return Settled(frame.model, frame, sidecar, None, (*source.told, *frame.told, *told, *about, *names_told), ())


def _classes(found: Recognised, said: Said) -> tuple[tuple[str, ...], tuple[Told, ...]]:
    count = found.classes
    if said.classes:
        if count is not None and len(said.classes) != count:
            raise UsageError(
                f"{len(said.classes)} classes are named, and the network scores {count}; give as many names."
            )
        return said.classes, ()
    if found.names and len(set(found.names)) == len(found.names):
        return found.names, (Told("classes", str(len(found.names)), "named in the file's metadata"),)
    names = numbered(count or _UNKNOWN).names
    return names, (Told("classes", str(len(names)), "without names; give them by --classes FILE"),)


def _batched(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return ``model`` with an input [3, h, w] turned into one of [1, 3, h, w]."""
    weights = {weight.name for weight in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    if len(inputs) != 1 or len(declared_shape(inputs[0])) != 3:
        return model
    name, inner = inputs[0].name, f"clockseg.{inputs[0].name}"
    model = copied(model)
    for node in model.graph.node:
        for index, read in enumerate(node.input):
            if read == name:
                node.input[index] = inner
    [value] = [value for value in model.graph.input if value.name == name]
    channels, height, width = declared_shape(value)
    given = helper.make_tensor_value_info(
        name, value.type.tensor_type.elem_type, [1, channels or 3, height or "height", width or "width"]
    )
    model.graph.input.remove(value)
    model.graph.input.insert(0, given)
    model.graph.initializer.append(helper.make_tensor(f"{inner}.axis", onnx.TensorProto.INT64, [1], [0]))
    model.graph.node.insert(0, helper.make_node("Squeeze", [name, f"{inner}.axis"], [inner], name=inner))
    return model
