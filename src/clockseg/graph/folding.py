"""Rewriting of weights: constants computed in advance, and storage in 16 bits."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

REARRANGES = ("Constant", "Cast", "Identity", "Transpose", "Reshape", "Squeeze", "Unsqueeze")
"""What rewrites weights without changing what they say."""


def folded(model: onnx.ModelProto) -> onnx.ModelProto:
    """Copy ``model`` with weights that are only cast or rearranged stored as plain weights.

    >>> weight = numpy_helper.from_array(np.zeros(2, np.float16), "half")
    >>> nodes = [helper.make_node("Cast", ["half"], ["w"], to=1), helper.make_node("Add", ["x", "w"], ["y"])]
    >>> ends = [helper.make_tensor_value_info(name, 1, [2]) for name in "xy"]
    >>> model = helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight]))
    >>> [(node.op_type, list(node.input)) for node in folded(model).graph.node]
    [('Add', ['x', 'w'])]
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
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
    read = {name for node in nodes for name in (*node.input, *_inner(node))} | {value.name for value in graph.output}
    left = [weight for name, weight in weights.items() if name in read]
    nodes = [_copy(node) for node in nodes]
    left = [_copied(weight) for weight in left]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(left)


def _copy(node: onnx.NodeProto) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    return copy


def _copied(weight: TensorProto) -> TensorProto:
    copy = TensorProto()
    copy.CopyFrom(weight)
    return copy


def _inner(node: onnx.NodeProto) -> list[str]:
    """Return the tensors that the subgraphs of ``node`` read."""
    graphs = [graph for entry in node.attribute for graph in (*entry.graphs, entry.g)]
    return [name for graph in graphs for inner in graph.node for name in (*inner.input, *_inner(inner))]


def _value(model: onnx.ModelProto, node: onnx.NodeProto, known: Mapping[str, TensorProto]) -> TensorProto:
    ends = [onnx.ValueInfoProto(name=name) for name in node.output]
    weights = [known[name] for name in dict.fromkeys(node.input) if name]
    graph = helper.make_graph([node], "fold", [], ends, weights)
    one = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    [value] = ReferenceEvaluator(one).run(None, {})
    return numpy_helper.from_array(np.asarray(value), node.output[0])


SMALLEST = 256
"""Weights of fewer numbers stay as they are: shifts, sizes, scales."""


def narrowed(model: onnx.ModelProto, *, prefix: str = "") -> onnx.ModelProto:
    """Return a copy of ``model`` whose float32 weights are stored as float16, each with a cast behind it.

    A weight that holds numbers beyond what float16 can (65504) stays as it is, as do those whose names do not begin with
    ``prefix``.

    >>> weight = numpy_helper.from_array(np.full(300, 0.1, np.float32), "w")
    >>> ends = [helper.make_tensor_value_info(name, 1, [300]) for name in "xy"]
    >>> graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [weight])
    >>> [node.op_type for node in narrowed(helper.make_model(graph)).graph.node]
    ['Cast', 'Add']
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    casts = []
    for weight in made.graph.initializer:
        small = weight.data_type != TensorProto.FLOAT or np.prod(weight.dims) < SMALLEST
        if small or not weight.name.startswith(prefix):
            continue
        values = numpy_helper.to_array(weight)
        if np.abs(values).max() > np.finfo(np.float16).max:
            continue
        name = weight.name
        weight.CopyFrom(numpy_helper.from_array(values.astype(np.float16), f"{name}.half"))
        casts.append(helper.make_node("Cast", [f"{name}.half"], [name], name=f"{name}.cast", to=TensorProto.FLOAT))
    nodes = [*casts, *model.graph.node]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    onnx.checker.check_model(made)
    return made
