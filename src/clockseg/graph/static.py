"""An ONNX graph at one size of its input: every shape known, and all arithmetic on shapes done.

One walk in topological order: a node whose inputs are all known and small is computed (so that the sizes a Resize or
Reshape reads are constants and no dependencies), and every other node's output shapes are inferred from its inputs'.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped,unused-ignore]
from onnx import TensorProto, helper, numpy_helper

from clockseg.errors import NetworkError
from clockseg.graph.limits import check_tensor
from clockseg.graph.nodes import attribute, captured, computed, is_diagonal, opset, readers_of, reads, renamed
from clockseg.graph.part import AsFloats
from clockseg.types import Array

MOST_FOLDED = 4096
"""Elements up to which a constant is computed here; larger ones (weights) are left to the engine."""
_COMPUTED = frozenset(
    name
    for names in (
        "Abs Add And BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil Clip Compress Concat Constant",
        "ConstantOfShape Cos CumSum Div Equal Exp Expand EyeLike Flatten Floor Gather GatherElements GatherND Greater",
        "GreaterOrEqual Identity IsInf IsNaN Less LessOrEqual Log MatMul Max Mean Min Mod Mul Neg NonZero Not OneHot Or Pad",
        "Pow Range Reciprocal ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Reshape Round ScatterElements ScatterND",
        "Shape Sign Sin Size Slice Split Sqrt Squeeze Sub Sum Tan Tile TopK Transpose Trilu Unique Unsqueeze Where Xor",
    )
    for name in names.split()
)
"""Operators that are computed here: what arithmetic on shapes is made of. They take as long as what they read and make is
large, which a Loop of 2^60 turns does not."""
_NO_LARGER = ("Compress", "NonZero", "Unique")
"""Of these, those whose output's size their values decide; it is never far above their input's."""
_AS_READ = ("GroupNormalization", "MeanVarianceNormalization")
"""Operators whose output is like their first input, of which onnx infers no shape."""
_PLAIN = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
"""Types between which numpy casts as ONNX does."""
TypeShape = tuple[int, tuple[int, ...]]
"""A tensor's ONNX element type and its shape."""


@dataclass
class Static:
    """A graph at a fixed input size: nodes that remain, constants, and the type and shape of every tensor.

    ``floats``: tensors that are read from outside as they are; of others, where quantized, the bytes.
    """

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: dict[str, TensorProto] = field(default_factory=dict)
    types: dict[str, TypeShape] = field(default_factory=dict)
    folded: dict[str, Array] = field(default_factory=dict)
    opsets: list[onnx.OperatorSetIdProto] = field(default_factory=list)
    ir_version: int = 10
    floats: frozenset[str] = frozenset()

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Return the shape of ``tensor``."""
        return self.types[tensor][1]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Tensor -> its shape."""
        return {tensor: shape for tensor, (_, shape) in self.types.items()}

    def constant(self, name: str) -> TensorProto | None:
        """Return the value of ``name`` as a tensor, if it is a constant that no node makes."""
        if name in self.weights or name not in self.folded:
            return self.weights.get(name)
        # Not np.ascontiguousarray: it makes a scalar a vector of one, which Range and others refuse.
        return numpy_helper.from_array(np.asarray(self.folded[name], order="C"), name)

    def hold(self, weight: TensorProto) -> None:
        """Take ``weight`` as a constant of the graph."""
        check_tensor(weight.name, weight.data_type, weight.dims)
        self.weights[weight.name] = weight
        self.types[weight.name] = (weight.data_type, tuple(weight.dims))
        if math.prod(weight.dims) <= MOST_FOLDED:
            self.folded[weight.name] = _array(weight)

    def channelwise(self, node: onnx.NodeProto) -> bool:
        """Return True if each output channel of a ConvTranspose depends on one input channel alone."""
        groups = int(attribute(node, "group", 1))
        if groups == self.shape(node.input[0])[1]:
            return True
        weights = self.constant(node.input[1])
        return groups == 1 and weights is not None and is_diagonal(weights)


def fix(model: onnx.ModelProto, shapes: dict[str, tuple[int, ...]], *, floats: Iterable[str] = ()) -> Static:
    """Fix the inputs of ``model`` to ``shapes``; NetworkError where a shape can't be known or doesn't fit.

    ``floats``: tensors that are read as they are, beside the outputs.
    """
    graph = model.graph
    outside = frozenset([*floats, *(value.name for value in graph.output)])
    found = Static(opsets=list(model.opset_import), ir_version=model.ir_version, floats=outside)
    for weight in graph.initializer:
        found.hold(weight)
    if graph.sparse_initializer:
        raise NetworkError("the network has sparse weights, which aren't supported; export it with dense ones.")
    for value in graph.input:
        if value.name not in found.weights:
            found.types[value.name] = (value.type.tensor_type.elem_type, _input_shape(value, shapes))
    for node in graph.node:
        walk(found, node)
    _name_bytes(found)
    return found


def declared_shape(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    """Return the sides of an input or output; 0 for one that is free."""
    return tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)


def _array(weight: TensorProto) -> Array:
    try:
        array: Array = numpy_helper.to_array(weight)
    except (ValueError, TypeError, KeyError) as error:
        raise NetworkError(f"weight {weight.name!r} of the network is damaged: {error}") from error
    return array


def _input_shape(value: onnx.ValueInfoProto, shapes: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    dims = [dim.dim_value or dim.dim_param for dim in value.type.tensor_type.shape.dim]
    shape = shapes.get(value.name)
    if shape is None:
        raise NetworkError(f"the network also reads an input {value.name!r}; only one, the frame, can be given.")
    # A size below 1 stands for any, as a name does: PaddlePaddle writes -1.
    if len(dims) != len(shape) or any(
        isinstance(d, int) and d > 0 and d != n for d, n in zip(dims, shape, strict=True)
    ):
        raise NetworkError(f"the network's input {value.name!r} has shape {dims}; {list(shape)} doesn't fit.")
    return shape


def walk(found: Static, node: onnx.NodeProto) -> None:
    """Add ``node`` to the graph, behind what it reads: computed if that is known and small, else with its shapes."""
    if node.op_type == "If" and node.input[0] in found.folded:
        _inline(found, node)
        return
    value = _told(found, node)
    made = {} if value is not None else _infer(found, node)
    _check(found, node, made)
    values = [value] if value is not None else _compute(found, node, made)
    for name, known in zip(node.output, values, strict=False):
        found.folded[name] = known
        found.types[name] = (helper.np_dtype_to_tensor_dtype(known.dtype), known.shape)
    if values:
        return
    for name in filter(None, node.output):
        if name not in made:
            raise NetworkError(_shapeless(name, node))
        check_tensor(name, *made[name])
        found.types[name] = made[name]
    found.nodes.append(node)


def _check(found: Static, node: onnx.NodeProto, made: dict[str, TypeShape]) -> None:
    """Check what shape inference ignores: numbers of elements that are reshaped, of channels that are summed, the batch."""
    shapes = [found.types[name][1] if name in found.types else () for name in node.input]
    then = made[node.output[0]][1] if node.output and node.output[0] in made else ()
    # OpenVINO writes past its memory where a constant is resized along the batch axis.
    if node.op_type in ("Resize", "Upsample") and len(then) == 4 and shapes[0][:1] != then[:1]:
        raise NetworkError(
            f"node {node.name!r} ({node.op_type}) resizes {list(shapes[0])} to {list(then)}, along the batch axis, "
            "which no engine does reliably. Export the network again."
        )
    if node.op_type == "Reshape" and node.output[0] in made:
        given, wanted = math.prod(shapes[0]), math.prod(then)
    elif node.op_type == "Conv" and all(len(shape) > 1 for shape in shapes[:2]):
        given, wanted = shapes[0][1], shapes[1][1] * int(attribute(node, "group", 1))
    elif node.op_type == "Gemm" and all(len(shape) == 2 for shape in shapes[:2]):
        given, wanted = shapes[0][not attribute(node, "transA", 0)], shapes[1][int(attribute(node, "transB", 0))]
    else:
        return
    if given != wanted:
        raise NetworkError(
            f"node {node.name!r} ({node.op_type}) doesn't fit what it reads: it takes {wanted:,} elements or channels and "
            f"is given {given:,}."
        )


def _shapeless(tensor: str, node: onnx.NodeProto) -> str:
    start = f"the shape of {tensor!r} (node {node.name!r}, {node.op_type}) depends on what the frame shows"
    if node.op_type in ("If", "Loop", "Scan"):
        return (
            f"{start}, or on how often something is repeated: such control flow can't be cut. Export the network traced, at a "
            "fixed size, so that conditions are settled and loops unrolled."
        )
    return f"{start}, or on an operator whose shapes aren't known; such a network can't be cut."


def _inline(found: Static, node: onnx.NodeProto) -> None:
    """Inline the taken branch of an If whose condition is known, as exporters write conditions on shapes."""
    branch = attribute(node, "then_branch" if bool(found.folded[node.input[0]]) else "else_branch", None)
    names = {name: f"{node.name}/{name}" for inner in branch.node for name in inner.output if name}
    for weight in branch.initializer:
        found.hold(weight)
    # Two branches may call different tensors the same.
    for index, copy in enumerate(renamed(branch.node, names)):
        copy.name = f"{node.name}/{copy.name or copy.op_type}_{index}"
        walk(found, copy)
    for inside, outside in zip(branch.output, node.output, strict=True):
        given = names.get(inside.name, inside.name)
        walk(found, helper.make_node("Identity", [given], [outside], name=f"{node.name}/{outside}"))


def _told(found: Static, node: onnx.NodeProto) -> Array | None:
    """Return a value that needs no evaluator, as most don't: a shape, a small constant, or one cast between plain types."""
    if node.op_type == "Shape" and node.input[0] in found.types:
        start, end = attribute(node, "start", 0), attribute(node, "end", None)
        return np.array(found.shape(node.input[0])[start:end], np.int64)
    if node.op_type == "Constant" and node.attribute[0].name == "value":
        value = node.attribute[0].t
        return _array(value) if math.prod(value.dims) <= MOST_FOLDED else None
    if node.op_type != "Cast" or node.input[0] not in found.folded:
        return None
    given, kind = found.folded[node.input[0]], int(attribute(node, "to", 0))
    if kind not in _PLAIN or helper.np_dtype_to_tensor_dtype(given.dtype) not in _PLAIN:
        return None
    return given.astype(helper.tensor_dtype_to_np_dtype(kind))


def _compute(found: Static, node: onnx.NodeProto, made: dict[str, TypeShape]) -> list[Array]:
    """Compute a node whose inputs are known constants; no values if they aren't, are large or can't be computed here."""
    known = node.op_type in _COMPUTED and all(name in found.folded for name in reads(node))
    told = all(name in made for name in node.output if name) or node.op_type in _NO_LARGER
    if not known or not told or any(math.prod(shape) > MOST_FOLDED for _, shape in made.values()):
        return []
    try:
        values = computed(node, {name: found.folded[name] for name in reads(node)}, found.opsets)
    except Exception:  # whatever it raises, the engine may yet know this operator
        return []
    return values if all(value.size <= MOST_FOLDED for value in values) else []


def _infer(found: Static, node: onnx.NodeProto) -> dict[str, TypeShape]:
    """Infer the types and shapes of the outputs of ``node``, as far as its inputs tell them."""
    data = {name: found.constant(name) for name in node.input if name in found.folded}
    try:
        types = {name: helper.make_tensor_type_proto(*found.types[name]) for name in reads(node) if name in found.types}
        schema = onnx.defs.get_schema(node.op_type, opset(found.opsets, node.domain), node.domain)
        made = onnx.shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=found.opsets, ir_version=found.ir_version
        )
    except onnx.defs.SchemaError as error:
        raise NetworkError(
            f"node {node.name!r}: unknown operator {node.domain or 'ai.onnx'}.{node.op_type}, whose output shapes are unknown. "
            "Export the network with ONNX's own operators (8 bits in the QDQ format), or run it uncut: give the file to "
            "--network without cuts in a NAME.json beside it."
        ) from error
    except (
        onnx.shape_inference.InferenceError,
        onnx.checker.ValidationError,
        DecodeError,
        RuntimeError,
        ValueError,
        KeyError,
    ) as error:
        raise NetworkError(f"node {node.name!r} ({node.op_type}) doesn't fit what it reads: {error}") from error
    if node.op_type in _AS_READ and node.input[0] in types:
        made = {node.output[0]: types[node.input[0]]}
    return {name: known for name, value in made.items() if (known := _known(value)) is not None}


def _known(made: onnx.TypeProto) -> TypeShape | None:
    tensor = made.tensor_type
    if not tensor.HasField("shape") or any(not dim.HasField("dim_value") for dim in tensor.shape.dim):
        return None
    return tensor.elem_type, tuple(dim.dim_value for dim in tensor.shape.dim)


# A quantized network says a map three times: x in float, its bytes q, and d, the bytes as floats again, which is what is read
# further on. What passes from part to part is the bytes: a quarter of the memory, and the next part computes in 8 bits from its
# first layer on. So that a cut at x goes on being a cut at x, the bytes take its name where nothing else reads x, and
# dequantizing belongs to whoever reads. Where something does read x in float, x passes, and quantizing belongs to whoever reads,
# too.
TO_BYTES, TO_FLOATS = "QuantizeLinear", "DequantizeLinear"
EIGHT_BITS = (
    TO_BYTES,
    TO_FLOATS,
    "QLinearConv",
    "QLinearMatMul",
    "ConvInteger",
    "MatMulInteger",
    "DynamicQuantizeLinear",
)
"""Operators of networks that compute in 8 bits."""
_FLOAT = ".float"
"""The suffix of the name of a map whose bytes have taken its own."""


def _name_bytes(static: Static) -> None:
    """Let the bytes of each map of which nothing else is read take its name; ``static.floats`` keep theirs."""
    # What subgraphs read goes by the name it has.
    static.floats |= {name for node in static.nodes for name in captured(node)}
    made = {tensor for node in static.nodes for tensor in node.output}
    readers = readers_of(static.nodes)
    new: dict[str, str] = {}
    for node in static.nodes:
        if node.op_type == TO_BYTES and node.input[0] != node.output[0] + _FLOAT:
            floats, stored = node.input[0], node.output[0]
            if floats in made and len(readers[floats]) == 1 and not static.floats & {floats, stored}:
                new |= {floats: floats + _FLOAT, stored: floats}
    static.nodes[:] = [
        node if new.keys().isdisjoint((*node.input, *node.output)) else renamed([node], new)[0] for node in static.nodes
    ]
    static.types |= {to: static.types[name] for name, to in new.items()}


def passed_as(static: Static) -> dict[str, str]:
    """Map the tensors that don't pass between parts to those that pass in their place.

    Quantizing and dequantizing are part of making or reading a map, wherever they can be: what such a node reads and what it
    makes stand for the same.
    """
    readers = readers_of(static.nodes)
    made: set[str] = set()
    found: dict[str, str] = {}
    for node in static.nodes:
        there = node.output[0] if node.output else ""
        if node.op_type == TO_BYTES and node.input[0] == there + _FLOAT:
            found[node.input[0]] = there
        elif there not in static.floats and (
            (node.op_type == TO_BYTES and all(one.op_type == TO_FLOATS for one in readers.get(there, [])))
            or (node.op_type == TO_FLOATS and node.input[0] in made)
        ):
            found[there] = found.get(node.input[0], node.input[0])
        made.update(node.output)
    return found


def floats_of(static: Static, tensor: str) -> AsFloats:
    """Return a function that reads ``tensor`` as floats, also if it holds bytes from one QuantizeLinear."""
    node = next((node for node in static.nodes if tensor in node.output), None)
    if node is None or node.op_type != TO_BYTES:
        return AsFloats(tensor)
    rank, axis = len(static.shape(tensor)), attribute(node, "axis", 1)
    return AsFloats(tensor, *(_along(static.constant(name), axis, rank) for name in node.input[1:]))


def _along(value: TensorProto | None, axis: int, rank: int) -> Array | None:
    """Return ``value``, a number or one per channel, in a shape that multiplies a map of that rank."""
    if value is None:
        return None
    array: Array = numpy_helper.to_array(value)
    return array.reshape([-1 if place == axis % rank else 1 for place in range(rank)])
