"""Tensors of a network: those that names stand for, and the class scores, of which the output is often a softmax or an argmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from clockseg.errors import NetworkError, UsageError
from clockseg.graph import extraction, onnx_reader
from clockseg.graph.neutral import Graph
from clockseg.graph.nodes import attribute, extended
from clockseg.graph.rule import nearest_tensors
from clockseg.graph.static import Static
from clockseg.instances.recognising import KINDS, shown
from clockseg.networks.source import Said, Told
from clockseg.types import Size

_SAME = ("Identity", "Cast", "Squeeze", "Unsqueeze")
_LAYOUTS = ([0, 2, 3, 1], [0, 3, 1, 2])
SCORES, LABELS = "clockseg.scores", "clockseg.labels"
"""Names of tensors added behind an output that is neither scores [1, c, h, w] nor labels: the same in that layout; ids."""
Cuts = tuple[tuple[str, ...], ...]


class Outcome(NamedTuple):
    """A network and its output: class scores [1, c, h, w], class ids, or a map of numbers.

    ``channels``: of scores; 0 for numbers, None for ids.
    """

    model: onnx.ModelProto
    tensor: str
    channels: int | None
    told: tuple[Told, ...] = ()


def outcome(model: onnx.ModelProto, static: Static, frame: str, said: Said) -> Outcome:
    """Return the output that the user named, or the only one, as class scores, class ids or a map of numbers.

    ``frame``: the network's input, whose proportions tell the sides of a map from its classes. Behind a softmax, a sigmoid
    or an argmax, which don't change which class is the highest, the scores themselves are taken: they are what clocks,
    warping and confidence read, and an argmax of small maps is done faster here. ``UsageError`` if there are several
    outputs, ``NetworkError`` where the classes don't fit.
    """
    there = [value.name for value in model.graph.output]
    if said.output is None and len(there) != 1:
        shapes = {one: static.shape(one) for one in there if one in static.types}
        raise UsageError(
            f"the network has {len(there)} outputs: choose the class scores with --output: {shown(shapes)}. {KINDS}"
        )
    output, told = said.output or there[0], []
    if said.output is None:
        told.append(Told("output", output, "the only output"))
    elif output not in there:
        output = tensor_named(output, onnx_reader.neutral(static, frame))
    _, _, height, width = static.shape(frame)
    kind, shape = static.types[output]
    classes = None if said.classes is None else len(said.classes)
    if classes is None and len(shape) == 3 and shape[0] < 2 and kind in extraction.SCORES:
        classes = 0 if stretched(shape[1:], (width, height)) <= 0.25 else None
    found = _outcome(model, static, output, classes, (width, height))
    return found._replace(told=(*told, *found.told))


def _outcome(model: onnx.ModelProto, static: Static, output: str, classes: int | None, frame: Size) -> Outcome:
    """Return ``output`` as ``classes`` class scores or ids; 0: a map of numbers; None: as many as there are."""
    axis = class_axis(static, output, classes or None, frame)
    if classes == 0:
        return _channels_first(model, static, output, SCORES, 0) if axis == 3 else Outcome(model, output, 0)
    tensor, axis, passed = _behind(static, output, axis)
    kind, shape = static.types[tensor]
    if kind not in extraction.SCORES or axis is None:
        return _ids(model, static, output, classes)
    channels = shape[axis]
    if channels == 1 and classes == 2:
        logit = "before the sigmoid" if "Sigmoid" in passed else "taken for a logit"
        return _above_zero(model, static, tensor, f"above 0 of its one channel, {logit}")
    if classes is not None and channels != classes:
        raise NetworkError(
            f"{classes} classes are named, and {tensor!r} {list(shape)} scores {channels}: give {channels} names in the order "
            "of its channels by --classes FILE, or another --output."
        )
    why = f"the scores behind {', '.join(reversed(passed))}" if passed else "the scores, channels first"
    told = () if tensor == output else (Told("scores", tensor, f"{why}: the labels are the same"),)
    if axis == 3:
        return _channels_first(model, static, tensor, SCORES, channels, told)
    return Outcome(model, tensor, channels, told)


def class_axis(static: Static, tensor: str, classes: int | None, frame: Size) -> int | None:
    """Return the axis of classes of a map of scores, 1 or 3, as long as there are ``classes``, if their number is known.

    Where both may be it: the one beside sides in the proportion of ``frame``.
    """
    shape = static.shape(tensor)
    if len(shape) != 4 or static.types[tensor][0] not in extraction.SCORES:
        return None
    fitting = [axis for axis in (1, 3) if classes in (None, shape[axis])] or [1, 3]
    return min(fitting, key=lambda axis: stretched(shape[2:] if axis == 1 else shape[1:3], frame))


def stretched(sides: tuple[int, ...], frame: Size) -> float:
    """Return the distance of a map of ``sides`` (height, width) from the frame's proportions: 0 if both strides are equal.

    Also if a side is not known.
    """
    return abs(math.log(frame[1] / sides[0]) - math.log(frame[0] / sides[1])) if all(sides) else 0.0


def _ids(model: onnx.ModelProto, static: Static, output: str, classes: int | None) -> Outcome:
    """Return ``output`` as class ids [.., h, w]."""
    kind, shape = static.types[output]
    if kind in extraction.SCORES or len(shape) < 2:
        raise NetworkError(
            f"the output {output!r} has shape {list(shape)} and is neither a map of class scores [1, classes, h, w] nor of "
            f"class ids: give another --output, or --classes none if it does not score classes (depth, edges). {KINDS}"
        )
    if len(shape) == 4 and shape[3] == 1 and shape[1] != 1:
        return _channels_first(model, static, output, LABELS, None)
    if any(length > 1 for length in shape[:-2]):
        raise NetworkError(
            f"the output {output!r} has shape {list(shape)}; class ids must be [1, h, w]. Export the network up to its argmax, or "
            f"give another --output. {KINDS}"
        )
    if classes == 2:
        # Masks are 0 and 1, or 0 and 255.
        return _above_zero(model, static, output, "above 0")
    return Outcome(model, output, None, (Told("labels", output, "class ids, no scores behind them were found"),))


def _behind(static: Static, output: str, axis: int | None) -> tuple[str, int | None, list[str]]:
    """Return the scores that an output is made of, by operators that do not change which class scores highest.

    ``axis``: the one of classes, None if the output is labels. Returns the tensor, its axis of classes, and the operators that
    were passed.
    """
    makers = {name: node for node in static.nodes for name in node.output}
    tensor, passed = output, []
    while (node := makers.get(tensor)) is not None and _moves_nothing(static, node):
        tensor = node.input[0]
    if node is not None and node.op_type == "ArgMax" and len(static.shape(node.input[0])) == 4:
        over = int(attribute(node, "axis", 0)) % 4
        if over in (1, 3):
            output, axis, passed = node.input[0], over, ["ArgMax"]
    tensor = output
    while axis is not None and (node := makers.get(tensor)) is not None:
        operator = node.op_type
        if operator == "Transpose" and list(attribute(node, "perm", ())) in _LAYOUTS:
            axis = attribute(node, "perm", ())[axis]
        elif operator == "Sigmoid" or (
            operator in ("Softmax", "LogSoftmax") and int(attribute(node, "axis", -1)) % 4 == axis
        ):
            passed.append(operator)
        elif operator != "Identity":
            break
        tensor = node.input[0]
    return tensor, axis, passed


def _moves_nothing(static: Static, node: onnx.NodeProto) -> bool:
    """Return True if a node gives the numbers that it reads, but for axes of length 1."""
    before, after = ([side for side in static.shape(name) if side != 1] for name in (node.input[0], node.output[0]))
    return node.op_type in _SAME or (node.op_type == "Reshape" and before == after)


def _channels_first(
    model: onnx.ModelProto, static: Static, tensor: str, name: str, channels: int | None, told: Sequence[Told] = ()
) -> Outcome:
    """Return the outcome of ``tensor`` [n, h, w, c], as another output ``name`` [n, c, h, w]."""
    node = helper.make_node("Transpose", [tensor], [name], name=name, perm=[0, 3, 1, 2])
    kind, (batch, _, _, last) = static.types[tensor]
    output = helper.make_tensor_value_info(name, kind, [batch, last or None, None, None])
    layout = Told("layout", name, f"{tensor} with channels first")
    return Outcome(extended(model, [node], output), name, channels, (*told, layout))


def _above_zero(model: onnx.ModelProto, static: Static, tensor: str, why: str) -> Outcome:
    """Return the labels that are 1 where ``tensor`` is above 0, as another output."""
    zero, sign, floats = f"{LABELS}.zero", f"{LABELS}.above", f"{LABELS}.float"
    value = numpy_helper.from_array(np.zeros((), np.float32), zero)
    nodes = [
        helper.make_node("Cast", [tensor], [floats], name=floats, to=TensorProto.FLOAT),
        helper.make_node("Constant", [], [zero], name=zero, value=value),
        helper.make_node("Greater", [floats, zero], [sign], name=sign),
        helper.make_node("Cast", [sign], [LABELS], name=LABELS, to=TensorProto.UINT8),
    ]
    shape = [*(side or None for side in static.shape(tensor)[:-2]), None, None]
    output = helper.make_tensor_value_info(LABELS, TensorProto.UINT8, shape)
    told = Told("labels", LABELS, f"class 1 where {tensor} is {why}")
    return Outcome(extended(model, nodes, output), LABELS, None, (told,))


def parse_cuts(text: str, graph: Graph) -> Cuts:
    """Parse ``NAME,NAME+NAME`` into one set of tensors per cut; each NAME as ``tensor_named`` takes it.

    >>> from clockseg.graph.neutral import Node
    >>> graph = Graph((Node("a", ("x",), ("y",)), Node("b", ("y",), ("z", "w"))), ("x",))
    >>> parse_cuts("y,z+w", graph)
    (('y',), ('z', 'w'))
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise NetworkError(f"cuts {text!r}: a name is missing; give NAME,NAME, or NAME+NAME where several cross.")
    several = ([part] if part in graph.dynamic else [name.strip() for name in part.split("+")] for part in parts)
    return tuple(tuple(tensor_named(name, graph) for name in names) for names in several)


def tensor_named(name: str, graph: Graph) -> str:
    """Return the tensor called ``name``, else the first that the node of this name makes, else the last that is made in a module.

    A module's path is what exporters put before its tensors: ``encoder.layer3`` names the last of ``/encoder/layer3/..``.
    ``NetworkError`` tells the nearest names.

    >>> from clockseg.graph.neutral import Node
    >>> graph = Graph((Node("conv", ("x",), ("/net/low/Conv_output_0",)),
    ...                Node("relu", ("/net/low/Conv_output_0",), ("/net/low/Relu_output_0",))), ("x",))
    >>> tensor_named("conv", graph), tensor_named("net.low", graph)
    ('/net/low/Conv_output_0', '/net/low/Relu_output_0')
    """
    if name in graph.dynamic or not name:
        return name
    made = [node.outputs[0] for node in graph.nodes if node.name == name]
    inside = [
        tensor for tensor in graph.position if tensor in graph.dynamic and _path(tensor).startswith(_path(name) + ".")
    ]
    found = made or inside[-1:]
    if not found:
        known = [*graph.dynamic, *(node.name for node in graph.nodes)]
        raise NetworkError(f"{name!r} is not a tensor, node or module of this network. {nearest_tensors(name, known)}")
    return found[0]


def _path(name: str) -> str:
    return name.strip("/").replace("/", ".").replace("::", ".")
