"""Copies of models and nodes, and weights computed in advance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

REARRANGES = ("Constant", "Cast", "Identity", "Transpose", "Reshape", "Squeeze", "Unsqueeze")
"""What rewrites weights without changing what they say."""


Message = TypeVar("Message", onnx.ModelProto, onnx.NodeProto, TensorProto)


def copied(message: Message) -> Message:
    """Copy a model, a node or a weight, to change the copy."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def captured(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the outer tensors that a node's subgraphs read."""
    for entry in node.attribute:
        for graph in [entry.g] if entry.type == onnx.AttributeProto.GRAPH else entry.graphs:
            own = {value.name for value in (*graph.input, *graph.initializer)}
            for inner in graph.node:
                yield from (name for name in (*inner.input, *captured(inner)) if name and name not in own)
                own.update(inner.output)


def folded(model: onnx.ModelProto) -> onnx.ModelProto:
    """Copy ``model`` with weights that are only cast or rearranged stored as plain weights.

    >>> weight = numpy_helper.from_array(np.zeros(2, np.float16), "half")
    >>> nodes = [helper.make_node("Cast", ["half"], ["w"], to=1), helper.make_node("Add", ["x", "w"], ["y"])]
    >>> ends = [helper.make_tensor_value_info(name, 1, [2]) for name in "xy"]
    >>> model = helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight]))
    >>> [(node.op_type, list(node.input)) for node in folded(model).graph.node]
    [('Add', ['x', 'w'])]
    """
    made = copied(model)
    known = {weight.name: weight for weight in made.graph.initializer}
    left = []
    for node in made.graph.node:
        if node.op_type in REARRANGES and all(name in known for name in node.input if name):
            value = _value(model, node, known)
            known[value.name] = value
        else:
            left.append(node)
    keep_nodes(made.graph, left, known)
    return made


def keep_nodes(
    graph: onnx.GraphProto, nodes: list[onnx.NodeProto], weights: Mapping[str, TensorProto] | None = None
) -> None:
    """Make these the nodes of ``graph``, and of its weights (or ``weights``) keep those that something reads."""
    weights = weights or {weight.name: weight for weight in graph.initializer}
    read = {name for node in nodes for name in (*node.input, *captured(node))} | {value.name for value in graph.output}
    left = [weight for name, weight in weights.items() if name in read]
    nodes = [copied(node) for node in nodes]
    left = [copied(weight) for weight in left]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(left)


def _value(model: onnx.ModelProto, node: onnx.NodeProto, known: Mapping[str, TensorProto]) -> TensorProto:
    ends = [onnx.ValueInfoProto(name=name) for name in node.output]
    weights = [known[name] for name in dict.fromkeys(node.input) if name]
    graph = helper.make_graph([node], "fold", [], ends, weights)
    one = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    [value] = ReferenceEvaluator(one).run(None, {})
    return numpy_helper.from_array(np.asarray(value), node.output[0])
