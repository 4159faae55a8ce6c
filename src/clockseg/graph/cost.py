"""Costs known before a network runs: multiply-adds and parameters, from its graph's shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import onnx
from onnx import TensorProto

from clockseg.graph.nodes import attribute
from clockseg.graph.part import GraphPart
from clockseg.graph.static import Static, declared_shape, fix
from clockseg.types import Size

Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Cost:
    """The cost of a part: multiply-adds of a run, number of parameters."""

    multiply_adds: int = 0
    parameters: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.multiply_adds + other.multiply_adds, self.parameters + other.parameters)


def multiply_adds(operator: str, inputs: Sequence[Shape], output: Shape, *, equation: str = "") -> int:
    """Count the multiply-adds of one operation; 0 for all but convolutions, matrix products and attention.

    ``inputs``: the shapes it reads, in ONNX's order, () for what is left out. A convolution costs a kernel per output
    element, a transposed one per input element; of 8 bits they cost what those of floats do. ``equation``: of an Einsum.
    Bias, padding, activation, normalisation, enlargement and argmax aren't counted: they have no products of weights.
    """
    if operator in _KERNEL_PER_OUTPUT:
        return math.prod(output) * math.prod(inputs[_KERNEL_PER_OUTPUT[operator]][1:])
    if operator == "ConvTranspose":
        return math.prod(inputs[0]) * math.prod(inputs[1][1:])
    if operator in ("MatMul", "MatMulInteger", "QLinearMatMul"):
        return math.prod(output) * inputs[0][-1]
    if operator == "Gemm":
        return math.prod(output) * (math.prod(inputs[0]) // output[0]) if math.prod(output) else 0
    if operator == "Attention":
        return _attention(inputs, output)
    if operator in ("RNN", "GRU", "LSTM"):
        steps = inputs[0][0] * inputs[0][1]
        return steps * (math.prod(inputs[1]) + math.prod(inputs[2]))
    return _einsum(inputs, equation) if operator == "Einsum" and len(inputs) > 1 else 0


_KERNEL_PER_OUTPUT = {"Conv": 1, "ConvInteger": 1, "DeformConv": 1, "QLinearConv": 3}
"""Convolutions, and which of their inputs the weights are."""


def _attention(inputs: Sequence[Shape], output: Shape) -> int:
    """Count queries by keys, then shares by values: [batch, heads, places, channels], or heads and channels in one."""
    query, key = inputs[0], inputs[1]
    past = inputs[4][-2] if len(inputs) > 4 and inputs[4] else 0
    return math.prod(query[:-1]) * (key[-2] + past) * (query[-1] + output[-1])


def _einsum(inputs: Sequence[Shape], equation: str) -> int:
    """Count a product for each value of all its indices."""
    sides: dict[str, int] = {}
    for term, shape in zip(equation.replace(" ", "").partition("->")[0].split(","), inputs, strict=True):
        before, dots, behind = term.partition("...")
        spread = len(shape) - len(before) - len(behind) if dots else 0
        names = [*before, *(f"...{spread - place}" for place in range(spread)), *behind]
        for name, side in zip(names, shape, strict=True):
            sides[name] = max(sides.get(name, 1), side)
    return math.prod(sides.values()) * (len(inputs) - 1)


_SIZES = (TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING)
"""Types of constants that are no parameters."""
_SCALED = ("QuantizeLinear", "DequantizeLinear")


def price(part: GraphPart, size: Size) -> Cost:
    """Count the multiply-adds and parameters (weights and constants other than sizes) of ``part``."""
    model = onnx.load_model_from_string(part.build(size).model)
    static = fix(model, {value.name: declared_shape(value) for value in model.graph.input})
    return Cost(int(sum(node_work(static).values())), _parameters(model.graph))


def node_work(static: Static) -> dict[str, float]:
    """Return the multiply-adds of each node, by which candidates and cuts are judged."""
    found = {}
    for node in static.nodes:
        inputs = [static.shape(name) if name else () for name in node.input]
        equation = attribute(node, "equation", b"").decode()
        output = static.shape(node.output[0]) if node.output[0] else ()
        found[node.name] = float(multiply_adds(node.op_type, inputs, output, equation=equation))
    return found


def _parameters(graph: onnx.GraphProto) -> int:
    """Count the numbers in constants, without sizes and without the scales and zero points of quantization."""
    scales = {name for node in graph.node if node.op_type in _SCALED for name in node.input[1:]}
    return sum(
        math.prod(weight.dims)
        for weight in graph.initializer
        if weight.data_type not in _SIZES and weight.name not in scales and not weight.name.startswith("clockseg.")
    )
