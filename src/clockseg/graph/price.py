"""The cost of a graph-backed part at a working size."""

from __future__ import annotations

import math

import onnx
from onnx import TensorProto

from clockseg.graph.cost import Cost, multiply_adds
from clockseg.graph.part import GraphPart
from clockseg.graph.static import Static, attribute, fix
from clockseg.graph.traffic import moved
from clockseg.types import Size

_NUMBERS = (
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.BFLOAT16,
    TensorProto.DOUBLE,
    TensorProto.INT8,
    TensorProto.UINT8,
    TensorProto.INT32,  # biases of 8-bit convolutions
)
_SCALED = ("QuantizeLinear", "DequantizeLinear")


def price(part: GraphPart, size: Size) -> Cost:
    """Multiply-adds, parameters (weights and other constants that aren't sizes), output bytes and traffic of ``part``."""
    built = part.build(size)
    model = onnx.load_model_from_string(built.model)
    static = fix(model, {value.name: _shape(value) for value in model.graph.input})
    return Cost(
        sum(_multiply_adds(static, node) for node in static.nodes),
        _parameters(model.graph),
        sum(_bytes(static, name) for name in built.outputs),
        moved(static),
    )


def node_work(static: Static) -> dict[str, float]:
    """Node -> its multiply-adds: what candidates and choices of cuts go by."""
    return {node.name: float(_multiply_adds(static, node)) for node in static.nodes}


def _multiply_adds(static: Static, node: onnx.NodeProto) -> int:
    inputs = [static.shape(name) if name else () for name in node.input]
    equation = attribute(node, "equation", b"").decode()
    return multiply_adds(node.op_type, inputs, static.shape(node.output[0]), equation=equation)


def _parameters(graph: onnx.GraphProto) -> int:
    """Numbers in constants, but for sizes and for the scales and zero points of quantization."""
    scales = {name for node in graph.node if node.op_type in _SCALED for name in node.input[1:]}
    return sum(
        math.prod(weight.dims)
        for weight in graph.initializer
        if weight.data_type in _NUMBERS and weight.name not in scales and not weight.name.startswith("clockseg.")
    )


def _shape(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    return tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)


def _bytes(static: Static, name: str) -> int:
    kind, shape = static.types[name]
    return math.prod(shape) * int(onnx.helper.tensor_dtype_to_np_dtype(kind).itemsize)
