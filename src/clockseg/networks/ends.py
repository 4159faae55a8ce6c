"""The ends of a network to be cut: its frame input with the preprocessing that it needs, and its output.

The input is made [1, 3, height, width]. The output is class scores where there are any, also behind a softmax or an argmax.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from clockseg.errors import NetworkError, UsageError
from clockseg.graph.extraction import SCORES as FLOATS
from clockseg.graph.neutral import Graph
from clockseg.graph.nodes import attribute, extended, inputs_of, rename, with_sides
from clockseg.graph.onnx_reader import neutral
from clockseg.graph.rule import nearest_tensors
from clockseg.graph.sidecar import Input
from clockseg.graph.static import Static, declared_shape, fix
from clockseg.instances.recognising import KINDS, Triple, shown
from clockseg.networks.source import Said, Told
from clockseg.types import Size

LOOKED_AT = (512, 256)
"""The working size, WIDTH and HEIGHT, of a file that takes any and says none: shares of work hardly depend on it."""
MULTIPLES = (1, 2, 4, 8, 16, 32, 64)
SCORES, LABELS = "clockseg.scores", "clockseg.labels"
"""Names of tensors added behind an output that is neither scores [1, c, h, w] nor labels: the same in that layout; ids."""
_SAME = ("Identity", "Cast", "Squeeze", "Unsqueeze")
_LAYOUTS = ([0, 2, 3, 1], [0, 3, 1, 2])


class FrameInput(NamedTuple):
    """A network that reads one frame [1, 3, height, width] by ``name``; ``size`` if it is fixed; ``bytes``: pixels as they are."""

    model: onnx.ModelProto
    name: str
    size: Size | None
    bytes: bool
    told: tuple[Told, ...]
    multiple: int = 1


def frame_input(model: onnx.ModelProto) -> FrameInput:
    """Make ``model`` read one frame, channels first; ``NetworkError`` if its input is no frame."""
    inputs = inputs_of(model.graph)
    if len(inputs) != 1:
        raise NetworkError(
            f"the network has {len(inputs)} inputs ({', '.join(value.name for value in inputs)}); one, the frame, can be "
            "given. Export it with the others as constants."
        )
    [value] = inputs
    name, dims, told = value.name, [*declared_shape(value)], []
    if len(dims) == 3:
        dims = [1, *dims]
        model = _reading(model, name, dims, "Squeeze")
    if len(dims) == 4 and dims[3] == 3 and dims[1] not in (1, 3):
        dims = [dims[0], dims[3], dims[1], dims[2]]
        model = _reading(model, name, dims, "Transpose", perm=[0, 2, 3, 1])
        told.append(Told("layout", "channels last", "a transpose is inserted, because frames come channels first"))
    if len(dims) != 4 or dims[0] > 1 or dims[1] not in (0, 3):
        said = ", ".join(dim.dim_param or str(dim.dim_value) for dim in value.type.tensor_type.shape.dim)
        raise NetworkError(
            f"the network's input {name!r} is [{said}]; it must be one frame, "
            "[1, 3, height, width] or [1, height, width, 3]. Export it with such an input: other preprocessing can be part of the graph."
        )
    size = (dims[3], dims[2]) if dims[2] and dims[3] else None
    whole = value.type.tensor_type.elem_type in (TensorProto.UINT8, TensorProto.INT32, TensorProto.INT64)
    return FrameInput(model, name, size, whole, (*told, Told("input", name, "the only input")))


def _reading(
    model: onnx.ModelProto, name: str, dims: Sequence[int], operator: str, **attributes: object
) -> onnx.ModelProto:
    """Return ``model`` with ``dims`` (0: free) for its input, which ``operator`` brings to what is read now."""
    model, inner = deepcopy(model), f"clockseg.{operator}"
    rename(model.graph.node, {name: inner})
    [value] = [value for value in model.graph.input if value.name == name]
    kind = value.type.tensor_type.elem_type
    value.CopyFrom(helper.make_tensor_value_info(name, kind, [side or None for side in dims]))
    model.graph.node.insert(0, helper.make_node(operator, [name], [inner], name=inner, **attributes))
    return model


def describe(frame: FrameInput, said: Said, by: dict[str, str]) -> tuple[Input, tuple[Told, ...]]:
    """Derive the sidecar's input from the known settings; ``by``: the source of each that the user did not give.

    A missing setting gets a safe default, which is reported; where there is none, ``UsageError`` says what to give.
    """
    told: list[Told] = [Told(field, _shown(getattr(said, field)), who) for field, who in by.items()]
    width, height = _size(frame, said)
    if said.size is None:
        told.append(Told("size", _shown((width, height)), "fixed in the file"))
    if said.mean is None and said.std is None and frame.bytes:
        told.append(Told("mean, std", "0, 1", "the input is whole numbers, so the network normalises by itself"))
        said = replace(said, mean=(0.0,) * 3, std=(1.0,) * 3)
    mean, std = normalisation(said)
    scale = said.scale
    if scale is None:
        scale = 1.0 if frame.bytes or max(map(abs, mean)) > 2 else 1 / 255
        why = "as mean is above 2, it is of pixels 0..255" if scale == 1 else "pixels become 0..1"
        told.append(Told("scale", _shown(scale), "the input is whole numbers" if frame.bytes else why))
    if said.colour is None:
        told.append(
            Told("colour", "rgb", "as nearly all networks; give --colour bgr if it was trained on OpenCV's order")
        )
    multiple = said.pad_multiple or frame.multiple
    if said.pad_multiple is None and multiple > 1:
        told.append(Told("pad multiple", str(multiple), "the smallest at which its maps fit each other"))
    # Padding is what the network takes for the mean colour: it has the least to say there.
    grey = [min(255, max(0, round(value / scale))) for value in mean]
    red, green, blue = grey if said.colour != "bgr" else grey[::-1]
    given = Input(frame.name, width, height, said.colour or "rgb", scale, mean, std, multiple, (red, green, blue))
    return given, tuple(told)


def _shown(value: object) -> str:
    """Format a value for the report: two numbers as 1024x512, three as 0.5, 0.25, 1."""
    if isinstance(value, tuple):
        return ("x" if len(value) == 2 else ", ").join(f"{one:g}" for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _size(frame: FrameInput, said: Said) -> Size:
    size = frame.size or said.size
    if size is None:
        raise UsageError(
            "the file takes frames of any size: give --size WIDTHxHEIGHT, the working size, such as 1024x512. The "
            "training size is the most accurate; smaller is faster."
        )
    if said.size not in (None, size):
        raise UsageError(
            f"--size {_shown(said.size)}: the file is fixed to {_shown(size)}; leave --size out, or export it again "
            "with a free height and width."
        )
    return size


def normalisation(said: Said) -> tuple[Triple, Triple]:
    """Return the mean and standard deviation; ``UsageError`` says what to give if one is missing."""
    if said.mean is None or said.std is None:
        missing = " and ".join(f"--{name}" for name in ("mean", "std") if getattr(said, name) is None)
        raise UsageError(
            "the file does not say how pixels were normalised in training (a transformers checkpoint would, in "
            f"preprocessor_config.json): give {missing}. Most networks of torchvision, timm and transformers: "
            "--mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 "
            "(x = (pixel * scale - mean) / std, --scale 1/255); "
            "pixels of 0..1 as they are: --mean 0 --std 1."
        )
    if not all(math.isfinite(one) for one in said.mean) or not all(0 < one < math.inf for one in said.std):
        shown = [",".join(f"{one:g}" for one in numbers) for numbers in (said.mean, said.std)]
        raise UsageError(
            f"--mean {shown[0]} --std {shown[1]}: pixels are divided by std, so give numbers above 0; mean may be any."
        )
    return said.mean, said.std


def fitted(frame: FrameInput, size: Size | None, *, multiple: int | None = None) -> FrameInput:
    """Return ``frame`` with the smallest multiple that its sides must have, or fixed to ``size`` if the network fits no other.

    Some files declare a free height and width, and constants inside fit one size only. ``size``, ``multiple``: those that
    the user gave.
    """
    if frame.size is not None:
        return frame
    for one in MULTIPLES if multiple is None else (multiple,):
        # A network that halves five times and adds skips fits odd multiples of 32 and of nothing less. Two of them, since one may
        # fit by chance: 483 is halved to 241 and 120, as 480 is.
        odd = [[one * (2 * max(1, side // (2 * one)) + more) for side in size or LOOKED_AT] for more in (1, 11)]
        if all(_fits(frame, (width, height)) for width, height in odd):
            return frame._replace(multiple=one)
    if size is None or not _fits(frame, size):
        return frame
    why = "the file fits this size only, by constants inside; frames are scaled to fit and padded"
    return frame._replace(
        model=with_sides(frame.model, frame.name, (None, None, *size[::-1])),
        size=size,
        told=(*frame.told, Told("size", _shown(size), why)),
    )


def _fits(frame: FrameInput, size: Size) -> bool:
    try:
        fix(frame.model, {frame.name: (1, 3, size[1], size[0])})
    except NetworkError:
        return False
    return True


class Outcome(NamedTuple):
    """A network and its output: class scores [1, ``channels``, h, w], a map of numbers (0 channels), or class ids (None)."""

    model: onnx.ModelProto
    tensor: str
    channels: int | None
    told: tuple[Told, ...] = ()


def outcome(model: onnx.ModelProto, static: Static, frame: str, said: Said) -> Outcome:
    """Return the output that the user named, or the only one, as class scores, class ids or a map of numbers.

    ``frame``: the network's input. The scores behind a softmax, a sigmoid or an argmax, which don't change the highest class, are
    taken themselves: clocks, warping and confidence read them, and an argmax of small maps is done faster here.
    ``UsageError`` if there are several outputs, ``NetworkError`` where the classes don't fit.
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
        output = tensor_named(output, neutral(static, frame))
    _, _, height, width = static.shape(frame)
    kind, shape = static.types[output]
    classes = None if said.classes is None else len(said.classes)
    if classes is None and len(shape) == 3 and shape[0] < 2 and kind in FLOATS:
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
    if kind not in FLOATS or axis is None:
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
    """Return the axis of ``classes`` of a map of scores, 1 or 3; if both may be it, the one beside sides in proportion to ``frame``."""
    shape = static.shape(tensor)
    if len(shape) != 4 or static.types[tensor][0] not in FLOATS:
        return None
    fitting = [axis for axis in (1, 3) if classes in (None, shape[axis])] or [1, 3]
    return min(fitting, key=lambda axis: stretched(shape[2:] if axis == 1 else shape[1:3], frame))


def stretched(sides: tuple[int, ...], frame: Size) -> float:
    """Return how far a map of ``sides`` (height, width) is from the frame's proportions; 0 if a side is not known."""
    return abs(math.log(frame[1] / sides[0]) - math.log(frame[0] / sides[1])) if all(sides) else 0.0


def _ids(model: onnx.ModelProto, static: Static, output: str, classes: int | None) -> Outcome:
    """Return ``output`` as class ids [.., h, w]."""
    kind, shape = static.types[output]
    if kind in FLOATS or len(shape) < 2:
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

    ``axis``: the one of classes, None if the output is labels. Returns also that of the scores, and the operators passed.
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


def tensor_named(name: str, graph: Graph) -> str:
    """Return the tensor called ``name``, else the first that the node of this name makes, else the last that is made in a module.

    A module's path is what exporters put before its tensors: ``encoder.layer3`` names the last of ``/encoder/layer3/..``.
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
