"""One layer as two thinner ones, by what it is seen to give: fewer multiply-adds for nearly the same responses.

A convolution [D, C, h, w] becomes one of h x w from C to r channels and one of 1 x 1 from r to D; a linear layer becomes
two. The r directions are those in which its responses vary most (Zhang et al., 2016, "Accelerating Very Deep Convolutional
Networks"); what earlier layers have already lost is made up for as far as a linear map can: the responses aimed at are the
whole network's, those seen are the thinned network's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from clockseg.graph.static import attribute
from clockseg.types import Array

_RIDGE = 1e-6
"""Of the mean variance, added to each direction: some channels may never vary."""


@dataclass
class Responses:
    """Sums over places of what a layer with ``channels`` outputs should give, y, and of what it gives, x."""

    channels: int
    places: int = 0
    sums: Array = field(init=False)
    products: Array = field(init=False)

    def __post_init__(self) -> None:
        self.sums = np.zeros((2, self.channels))
        self.products = np.zeros((2, self.channels, self.channels))

    def add(self, wanted: Array, given: Array) -> None:
        """Responses [places, channels] of either."""
        y, x = wanted.astype(np.float64), given.astype(np.float64)
        self.places += len(y)
        self.sums += [y.sum(axis=0), x.sum(axis=0)]
        self.products += [y.T @ x, x.T @ x]

    def moments(self) -> tuple[Array, Array, Array, Array]:
        """Mean of y, mean of x, covariance of y and x, covariance of x."""
        y, x = self.sums / self.places
        return y, x, self.products[0] / self.places - np.outer(y, x), self.products[1] / self.places - np.outer(x, x)


class Thinned(NamedTuple):
    """The two layers in place of one, and their weights by name; ``work``: their share of its multiply-adds."""

    nodes: tuple[onnx.NodeProto, onnx.NodeProto]
    weights: dict[str, TensorProto]
    rank: int
    work: float


def can_thin(node: onnx.NodeProto, weights: dict[str, TensorProto]) -> bool:
    """Whether ``node`` is an ungrouped convolution or a plain linear layer whose weights are known."""
    if node.op_type not in ("Conv", "Gemm") or not all(name in weights for name in node.input[1:] if name):
        return False
    if weights[node.input[1]].data_type != TensorProto.FLOAT:
        return False
    if node.op_type == "Conv":
        return bool(attribute(node, "group", 1) == 1)
    scaled = attribute(node, "alpha", 1.0) == attribute(node, "beta", 1.0) == 1.0
    return bool(node.op_type == "Gemm" and scaled and not attribute(node, "transA", 0))


def thinned(node: onnx.NodeProto, weights: dict[str, TensorProto], seen: Responses, *, keep: float) -> Thinned:
    """``node`` as two layers that keep the share ``keep`` of the variance of its responses, ``seen``."""
    matrix, bias = _matrix(node, weights)
    wanted, given, across, among = seen.moments()
    ridge = _RIDGE * np.trace(among) / len(among) + 1e-30
    # The best linear map from what is given to what is wanted, then the directions in which what it makes varies.
    restored = across @ np.linalg.inv(among + ridge * np.eye(len(among)))
    variances, directions = np.linalg.eigh(restored @ among @ restored.T)
    variances, directions = variances[::-1].clip(0), directions[:, ::-1]
    rank = 1 + int(np.searchsorted(np.cumsum(variances), keep * variances.sum() * (1 - 1e-12)))
    basis = directions[:, : min(rank, len(matrix))]
    first = basis.T @ restored @ matrix
    shift = wanted + basis @ (basis.T @ (restored @ (bias - given)))
    work = first.size + basis.size
    return Thinned(*_layers(node, weights, first, basis, shift), basis.shape[1], work / matrix.size)


def _matrix(node: onnx.NodeProto, weights: dict[str, TensorProto]) -> tuple[Array, Array]:
    """Weights [D, what is read] and biases [D]."""
    matrix = numpy_helper.to_array(weights[node.input[1]]).astype(np.float64)
    if node.op_type == "Gemm" and not attribute(node, "transB", 0):
        matrix = matrix.T
    matrix = matrix.reshape(len(matrix), -1)
    named = node.input[2] if len(node.input) > 2 else ""
    bias = numpy_helper.to_array(weights[named]).astype(np.float64) if named else np.zeros(1)
    return matrix, np.broadcast_to(bias.reshape(-1), (len(matrix),))


def _layers(
    node: onnx.NodeProto, weights: dict[str, TensorProto], first: Array, second: Array, bias: Array
) -> tuple[tuple[onnx.NodeProto, onnx.NodeProto], dict[str, TensorProto]]:
    made = node.output[0]
    shapes: tuple[tuple[int, ...], tuple[int, ...]] = (first.shape, second.shape)
    if node.op_type == "Conv":
        shapes = (len(first), *weights[node.input[1]].dims[1:]), (*second.shape, 1, 1)
    arrays = (first.reshape(shapes[0]), second.reshape(shapes[1]), bias)
    names = [f"{made}.{end}" for end in ("thin.weight", "wide.weight", "wide.bias")]
    thin, wide = onnx.NodeProto(), onnx.NodeProto()
    thin.CopyFrom(node)
    thin.name, thin.input[:], thin.output[:] = f"{node.name}.thin", [node.input[0], names[0]], [f"{made}.thin"]
    options = {"transB": 1} if node.op_type == "Gemm" else {"kernel_shape": [1, 1]}
    if node.op_type == "Gemm":
        _set(thin, transB=1)
    wide = helper.make_node(node.op_type, [f"{made}.thin", *names[1:]], [made], name=node.name, **options)
    stored = {name: numpy_helper.from_array(array.astype(np.float32), name) for name, array in zip(names, arrays)}
    return (thin, wide), stored


def _set(node: onnx.NodeProto, **attributes: int) -> None:
    kept = [entry for entry in node.attribute if entry.name not in attributes]
    del node.attribute[:]
    node.attribute.extend([*kept, *(helper.make_attribute(name, value) for name, value in attributes.items())])
