"""What kind of node, as the cut rule has them, each operation of an exported module is."""

from __future__ import annotations

import math
from collections.abc import Container
from typing import Any

from torch import Tensor, fx

from clockseg.graph.neutral import CHANNELWISE, CONCAT, CONVOLUTION, CROP, ENLARGE, POINT, PRODUCT
from clockseg.graph.torch_export import operation

NORMS = ("batch_norm", "_native_batch_norm_legit_no_training")
ARITHMETIC = ("add", "sub", "mul", "div")
_POINTS = ("softmax", "_softmax", "log_softmax", "_log_softmax", "sigmoid", "argmax", "to", "_to_copy", "clone", "alias",
           "detach", "contiguous", "squeeze", "unsqueeze")  # fmt: skip
_CROPS = ("slice", "narrow")
_EACH = ("relu", "relu6", "hardtanh", "leaky_relu", "elu", "gelu", "silu", "hardswish", "hardsigmoid", "mish", "tanh",
         "softplus", "selu", "celu", "clamp", "neg", "abs", "dropout")  # fmt: skip


def kind_of(node: fx.Node, dynamic: Container[fx.Node]) -> tuple[str, int | None]:
    """The kind of an operation and its axis, as in ``clockseg.graph.neutral``; ("", None) for any other.

    ``dynamic``: the nodes that depend on the frame.
    """
    name = operation(node)
    if name in _POINTS:
        return POINT, None
    if name in _CROPS:
        return CROP, None
    if name in _EACH:
        return CHANNELWISE, None
    if name == "cat":
        return CONCAT, _argument(node, 1, 0) % len(shape(node))
    if name.startswith(("upsample_", "_upsample_")):
        return (ENLARGE, 1) if _elements(node) >= _elements(node.args[0]) else ("", None)
    if any(source in dynamic for source in node.all_input_nodes if source is not node.args[0]):
        return "", None
    return _weighted(name, node)


def _weighted(name: str, node: fx.Node) -> tuple[str, int | None]:
    """The kind of an operation whose other inputs are constants."""
    if name in (*NORMS, "prelu"):
        return CHANNELWISE, 1
    if name == "linear" or (name in ("matmul", "mm") and len(shape(node.args[1])) == 2):
        return PRODUCT, len(shape(node.args[0])) - 1
    if name == "conv2d":
        return _convolution(node)
    if name == "conv_transpose2d":
        groups, channels = _argument(node, 6, 1), shape(node.args[0])[1]
        alone = groups == channels == shape(node)[1] and _elements(node) > _elements(node.args[0])
        return (ENLARGE, None) if alone else ("", None)
    if name in ARITHMETIC and isinstance(node.args[0], fx.Node):
        return _arithmetic(node)
    return "", None


def _convolution(node: fx.Node) -> tuple[str, int | None]:
    weights, groups, channels = shape(node.args[1]), _argument(node, 6, 1), shape(node.args[0])[1]
    if groups == 1:
        stride, padding = _argument(node, 3, [1, 1]), _argument(node, 4, [0, 0])
        point = math.prod(weights[2:]) == 1 and math.prod(stride) == 1
        return (PRODUCT if point and (isinstance(padding, str) or not any(padding)) else CONVOLUTION), 1
    return (CHANNELWISE, 1) if groups == channels == weights[0] else ("", None)


def _arithmetic(node: fx.Node) -> tuple[str, int | None]:
    other, given = node.args[1], shape(node.args[0])
    if not isinstance(other, fx.Node):
        return CHANNELWISE, None
    constant = shape(other)
    if math.prod(constant) == 1:
        return CHANNELWISE, None
    padded = (*[1] * (len(given) - len(constant)), *constant)
    alone = len(given) > 1 and padded == (1, given[1], *[1] * (len(given) - 2))
    return (CHANNELWISE, 1) if alone else ("", None)


def _argument(node: fx.Node, index: int, default: Any) -> Any:
    return node.args[index] if len(node.args) > index else default


def shape(node: Any) -> tuple[int, ...]:
    """The shape of the tensor that ``node`` makes; of the first, where it makes several."""
    value = node.meta["val"]
    return tuple((value if isinstance(value, Tensor) else value[0]).shape)


def _elements(node: Any) -> int:
    return math.prod(shape(node))
