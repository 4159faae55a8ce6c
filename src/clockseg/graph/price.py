"""The cost of a graph-backed part at a working size."""

from __future__ import annotations

import math

import onnx

from clockseg._types import Size
from clockseg.cost import Cost, multiply_adds
from clockseg.graph.part import GraphPart
from clockseg.graph.static import Static, fix

_FLOATS = (
    onnx.TensorProto.FLOAT,
    onnx.TensorProto.FLOAT16,
    onnx.TensorProto.BFLOAT16,
    onnx.TensorProto.DOUBLE,
    onnx.TensorProto.INT8,
    onnx.TensorProto.UINT8,
)


def price(part: GraphPart, size: Size) -> Cost:
    """Multiply-adds, parameters (weights and other constants that aren't sizes) and output bytes of ``part``."""
    built = part.build(size)
    model = onnx.load_model_from_string(built.model)
    static = fix(model, {value.name: _shape(value) for value in model.graph.input})
    return Cost(
        sum(
            multiply_adds(
                node.op_type, [static.shape(name) for name in node.input if name], static.shape(node.output[0])
            )
            for node in static.nodes
        ),
        sum(
            math.prod(weight.dims)
            for weight in model.graph.initializer
            if weight.data_type in _FLOATS and not weight.name.startswith("clockseg.")
        ),
        sum(_bytes(static, name) for name in built.outputs),
    )


def _shape(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    return tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)


def _bytes(static: Static, name: str) -> int:
    kind, shape = static.types[name]
    return math.prod(shape) * int(onnx.helper.tensor_dtype_to_np_dtype(kind).itemsize)
