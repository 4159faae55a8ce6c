"""Which pixels of the frame each place of a tensor is made from, told from strides and kernels along the way."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import onnx

from clockseg.graph.static import Static, attribute

_ALONE = (
    *("Abs", "BatchNormalization", "Cast", "Ceil", "Celu", "Clip", "DequantizeLinear", "Dropout", "Elu", "Erf"),
    *("Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log", "Mish", "Neg"),
    *("QuantizeLinear", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Softplus", "Softsign"),
    *("Sqrt", "Tanh", "ThresholdedRelu"),
)
"""Operations that look at each place by itself."""
_TOGETHER = ("Add", "Div", "Max", "Mean", "Min", "Mul", "Pow", "PRelu", "Sub", "Sum", "Where")
"""Operations that look at the same place of several maps."""
_ALONG = (
    *("ArgMax", "LayerNormalization", "LogSoftmax", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin"),
    *("ReduceSum", "Softmax"),
)
"""Operations along some axes: along that of channels, they look at each place by itself."""
_WINDOWED = ("AveragePool", "Conv", "LpPool", "MaxPool")
_OWN = "clockseg."
"""What nodes are called that prepare the frame and take the argmax: each place by itself."""


class Mixing(Exception):
    """An operation whose places depend on places anywhere, or that isn't known not to: its name and its tensor."""


class Field(NamedTuple):
    """Place i of a map is made from the pixels i * ``stride`` - ``before`` to i * ``stride`` + ``after``, on either axis.

    >>> Field(1, 0, 0).window(kernel=3, stride=2, pad=1)
    Field(stride=2, before=1, after=1)
    """

    stride: int
    before: int
    after: int

    @property
    def reach(self) -> int:
        """Pixels beyond those that the place stands for."""
        return max(self.before, self.after - self.stride + 1, 0)

    def window(self, *, kernel: int, stride: int, pad: int) -> Field:
        """Of a map that looks at ``kernel`` places at every ``stride``, from ``pad`` places before."""
        after = self.after + (kernel - 1 - pad) * self.stride
        return Field(self.stride * stride, self.before + pad * self.stride, after)

    def joined(self, other: Field) -> Field:
        """Of a map that looks at both."""
        return Field(self.stride, max(self.before, other.before), max(self.after, other.after))

    def enlarged(self, factor: int, *, before: int, after: int) -> Field:
        """Of a map ``factor`` times the size that looks at places so many of its own pixels before and after."""
        stride = self.stride // factor
        return Field(stride, self.before + before * stride, self.after + after * stride)


def fields(static: Static, given: Mapping[str, Field]) -> dict[str, Field]:
    """Tensor -> its field, for what is made from the maps ``given`` (name -> field); [1, channels, h, w] along the way.

    ``Mixing`` at the first operation that looks anywhere, or that isn't known not to.
    """
    known = dict(given)
    for node in static.nodes:
        reads = [known[name] for name in node.input if name in known]
        if reads:
            known |= dict.fromkeys(filter(None, node.output), _field(static, node, reads, known))
    return known


def _field(static: Static, node: onnx.NodeProto, reads: Sequence[Field], known: Mapping[str, Field]) -> Field:
    joined = reads[0]
    for one in reads[1:]:
        if one.stride != joined.stride:
            raise _mixing(node)
        joined = joined.joined(one)
    if node.name.startswith(_OWN) and node.op_type != "Resize":
        return joined
    rule = next((rule for names, rule in _RULES if node.op_type in names), None)
    found = None if rule is None else rule(static, node, joined)
    if found is None or not _placed_alike(static, node, known):
        raise _mixing(node)
    return found


def _mixing(node: onnx.NodeProto) -> Mixing:
    return Mixing(node.op_type, node.name or node.output[0])


def _placed_alike(static: Static, node: onnx.NodeProto, known: Mapping[str, Field]) -> bool:
    """Whether no constant that is added or multiplied differs from place to place."""
    if node.op_type not in _TOGETHER:
        return True
    constants = (static.shape(name) for name in node.input if name and name not in known)
    return all(math.prod(shape[-2:]) == 1 and (len(shape) != 1 or shape == (1,)) for shape in constants)


def _same(static: Static, node: onnx.NodeProto, field: Field) -> Field | None:
    return field


def _together(static: Static, node: onnx.NodeProto, field: Field) -> Field | None:
    """Maps of the same places: none that is stretched to fit another."""
    sides = {static.shape(name)[-2:] for name in node.input if name and len(static.shape(name)) == 4}
    return field if len({side for side in sides if math.prod(side) > 1}) <= 1 else None


def _along(static: Static, node: onnx.NodeProto, field: Field) -> Field | None:
    rank = len(static.shape(node.input[0]))
    given: Any = attribute(node, "axes", None)
    if given is None and len(node.input) > 1 and node.input[1] in static.folded:
        given = static.folded[node.input[1]].tolist()
    axes = [int(axis) for axis in given] if given is not None else [int(attribute(node, "axis", -1))]
    kept = bool(attribute(node, "keepdims", 1))
    return field if rank == 4 and kept and {axis % rank for axis in axes} == {1} else None


def _concat(static: Static, node: onnx.NodeProto, field: Field) -> Field | None:
    shape = static.shape(node.output[0])
    return field if len(shape) == 4 and int(attribute(node, "axis", 0)) % 4 == 1 else None


def _windowed(static: Static, node: onnx.NodeProto, field: Field) -> Field | None:
    before, after = static.shape(node.input[0]), static.shape(node.output[0])
    if len(before) != 4 or len(after) != 4:
        return None
    kernel = attribute(node, "kernel_shape", None) or list(static.shape(node.input[1])[2:])
    steps, spaced = attribute(node, "strides", [1, 1]), attribute(node, "dilations", [1, 1])
    pads, auto = attribute(node, "pads", [0, 0, 0, 0]), attribute(node, "auto_pad", b"NOTSET")
    if steps[0] != steps[1]:
        return None
    wide = [(side - 1) * gap + 1 for side, gap in zip(kernel, spaced, strict=True)]
    if auto not in (b"NOTSET", b"VALID"):
        # Of an odd number of places, one more at the end or at the start: taken as if at both.
        total = [max(0, (out - 1) * step + side - n) for out, step, side, n in zip(after[2:], steps, wide, before[2:])]
        pads = [-(-side // 2) for side in total]
        wide = [side + 1 for side in wide]
    found = [field.window(kernel=side, stride=steps[0], pad=pad) for side, pad in zip(wide, pads, strict=False)]
    return found[0].joined(found[1])


def _transposed(static: Static, node: onnx.NodeProto, field: Field) -> Field | None:
    before, after = static.shape(node.input[0]), static.shape(node.output[0])
    factor = _factor(before, after, field)
    kernel = attribute(node, "kernel_shape", None) or list(static.shape(node.input[1])[2:])
    steps, pads = attribute(node, "strides", [1, 1]), attribute(node, "pads", [0, 0, 0, 0])
    if factor is None or set(steps) != {factor} or attribute(node, "auto_pad", b"NOTSET") != b"NOTSET":
        return None
    most = max(side - 1 - pad for side, pad in zip(kernel, pads, strict=False))
    return field.enlarged(factor, before=most, after=max(pads))


def _resized(static: Static, node: onnx.NodeProto, field: Field) -> Field | None:
    how = attribute(node, "mode", b"nearest")
    where = attribute(node, "coordinate_transformation_mode", b"half_pixel")
    factor = _factor(static.shape(node.input[0]), static.shape(node.output[0]), field)
    if factor is None or where in (b"align_corners", b"tf_crop_and_resize"):
        return None
    # Places of the smaller map on either side, in pixels of the larger one.
    beside = (2 if how == b"cubic" else 1) * factor
    return field.enlarged(factor, before=beside + factor, after=beside)


def _factor(before: Sequence[int], after: Sequence[int], field: Field) -> int | None:
    """How many times larger a map becomes, if by the same whole number on both sides, which the stride is a multiple of."""
    if len(before) != 4 or len(after) != 4:
        return None
    factor = after[2] // before[2]
    fits = factor > 0 and (before[2] * factor, before[3] * factor) == tuple(after[2:])
    return factor if fits and field.stride % factor == 0 else None


def _padded(static: Static, node: onnx.NodeProto, field: Field) -> Field | None:
    pads = static.folded.get(node.input[1]) if len(node.input) > 1 else None
    if pads is None or len(pads) != 8 or attribute(node, "mode", b"constant") != b"constant" or len(node.input) > 3:
        return None
    if any(pads[[0, 1, 4, 5]]):
        return None
    found = [field.window(kernel=1, stride=1, pad=int(pad)) for pad in pads[2:4]]
    return found[0].joined(found[1])


_Rule = Callable[[Static, onnx.NodeProto, Field], Field | None]
_RULES: tuple[tuple[Iterable[str], _Rule], ...] = (
    (_ALONE, _same),
    (_TOGETHER, _together),
    (_ALONG, _along),
    (("Concat",), _concat),
    (_WINDOWED, _windowed),
    (("ConvTranspose",), _transposed),
    (("Resize", "Upsample"), _resized),
    (("Pad",), _padded),
)
