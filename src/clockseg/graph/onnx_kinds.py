"""What kind of node an ONNX operation is to the cut rule."""

from __future__ import annotations

import onnx

from clockseg.graph.neutral import CHANNELWISE, CONCAT, CONVOLUTION, CROP, ENLARGE, POINT, PRODUCT
from clockseg.graph.static import Static, attribute

_POINTS = ("Softmax", "LogSoftmax", "Sigmoid", "ArgMax", "Cast", "Identity", "Squeeze", "Unsqueeze")
_ELEMENTWISE = (
    *("Abs", "Celu", "Clip", "Dropout", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish"),
    *("Neg", "Relu", "Selu", "Softplus", "Softsign", "Sqrt", "Tanh", "ThresholdedRelu"),
)
_SCALING = ("Add", "Div", "Mul", "PRelu", "Sub")
_POOLING = ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool", "MaxPool")
_CHANNELS = 1
"""The axis of channels of what convolves, normalises or pools."""

Kind = tuple[str, int | None]
"""A node's kind and axis, as ``neutral.Node`` has them."""
_OTHER: Kind = ("", None)


def kind(static: Static, node: onnx.NodeProto) -> Kind:
    """The kind and axis of ``node``; shapes are those of ``static``."""
    operator: str = node.op_type
    if operator in _POINTS:
        return POINT, None
    if operator == "Slice":
        return CROP, None
    if operator in ("Resize", "Upsample", "ConvTranspose"):
        return _enlarging(static, node)
    if operator == "Concat":
        return CONCAT, int(attribute(node, "axis", 0)) % len(static.shape(node.output[0]))
    if operator in ("Conv", "MatMul", "Gemm"):
        return _linear(static, node)
    return _channelwise(static, node)


def _enlarging(static: Static, node: onnx.NodeProto) -> Kind:
    before, after = static.shape(node.input[0]), static.shape(node.output[0])
    if node.op_type == "ConvTranspose":
        larger = static.elements(node.output[0]) > static.elements(node.input[0])
        return (ENLARGE, None) if larger and static.channelwise(node) else _OTHER
    if any(then < now for now, then in zip(before, after, strict=True)):
        return _OTHER
    whole = len(node.input) < 4 or not node.input[3] or node.input[3] in static.folded
    alike = attribute(node, "coordinate_transformation_mode", b"half_pixel") != b"tf_crop_and_resize"
    apart = before[:2] == after[:2] and len(before) == 4
    return ENLARGE, _CHANNELS if whole and alike and apart else None


def _linear(static: Static, node: onnx.NodeProto) -> Kind:
    weights = node.input[1]
    if static.constant(weights) is None and not _is_stored(static, weights):
        return _OTHER
    if node.op_type == "Conv":
        return _convolution(static, node)
    if node.op_type == "Gemm":
        return _OTHER if attribute(node, "transA", 0) else (PRODUCT, 1)
    rank = len(static.shape(node.input[0]))
    return (PRODUCT, rank - 1) if len(static.shape(weights)) == 2 and rank > 1 else _OTHER


def _is_stored(static: Static, tensor: str) -> bool:
    """Whether ``tensor`` is made from constants alone, as weights kept in 16 bits are; quantized ones are left as they are."""
    node = next((node for node in static.nodes if tensor in node.output), None)
    if node is None or node.op_type not in ("Cast", "Identity"):
        return False
    return all(static.constant(name) is not None or _is_stored(static, name) for name in node.input if name)


def _convolution(static: Static, node: onnx.NodeProto) -> Kind:
    weights = static.shape(node.input[1])
    groups = int(attribute(node, "group", 1))
    if groups == static.shape(node.input[0])[1] == weights[0] and groups > 1:
        return CHANNELWISE, _CHANNELS
    if groups != 1:
        return _OTHER
    steps = [*attribute(node, "strides", []), *weights[2:]]
    point = all(step == 1 for step in steps) and not any(attribute(node, "pads", []))
    return PRODUCT if point else CONVOLUTION, _CHANNELS


def _channelwise(static: Static, node: onnx.NodeProto) -> Kind:
    operator: str = node.op_type
    if len([name for name in node.output if name]) != 1:
        return _OTHER
    if operator in _ELEMENTWISE:
        return CHANNELWISE, None
    if operator == "BatchNormalization" or operator in _POOLING:
        return CHANNELWISE, _CHANNELS
    return _scaling(static, node) if operator in _SCALING else _OTHER


def _scaling(static: Static, node: onnx.NodeProto) -> Kind:
    """A factor or an addend: one number for all, or one a channel along one axis."""
    constants = [name for name in node.input if static.constant(name) is not None]
    if len(constants) != 1:
        return _OTHER
    made, given = static.shape(node.output[0]), static.shape(constants[0])
    several = [len(made) - len(given) + axis for axis, size in enumerate(given) if size > 1]
    if len(several) > 1 or static.elements(node.output[0]) != max(static.elements(name) for name in node.input):
        return _OTHER
    return CHANNELWISE, several[0] if several else None
