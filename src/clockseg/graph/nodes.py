"""ONNX nodes: the walks over them, copies of them, and constants that are computed in advance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, version_converter

from clockseg.errors import NetworkError, first_line
from clockseg.types import Array

REARRANGES = ("Constant", "Cast", "Identity", "Transpose", "Reshape", "Squeeze", "Unsqueeze")
"""Operations that rewrite weights without changing their values."""
OPSET = 13
"""The opset that files of an older one are converted to."""


def with_sides(model: onnx.ModelProto, name: str, sides: Sequence[int | None]) -> onnx.ModelProto:
    """Return a copy of ``model`` whose input ``name`` has these sides; None: as before."""
    model = deepcopy(model)
    [value] = [value for value in model.graph.input if value.name == name]
    for dim, side in zip(value.type.tensor_type.shape.dim, sides, strict=True):
        if side is not None:
            dim.dim_value = side
    return model


def extended(model: onnx.ModelProto, nodes: list[onnx.NodeProto], output: onnx.ValueInfoProto) -> onnx.ModelProto:
    """Return a copy of ``model`` with ``nodes`` behind its own, and one more output; ``NetworkError`` where a name is taken."""
    taken = _names(model.graph.node) | {value.name for value in (*model.graph.input, *model.graph.initializer)}
    if twice := sorted(taken & _names(nodes)):
        raise NetworkError(
            f"the network has a tensor {twice[0]!r} already; it was cut before, so give the network it was made from."
        )
    made = deepcopy(model)
    made.graph.node.extend(nodes)
    made.graph.output.append(output)
    return made


def _names(nodes: Iterable[onnx.NodeProto]) -> set[str]:
    """Return the names of nodes and of the tensors that they make."""
    return {name for node in nodes for name in (node.name, *node.output) if name}


def rename(nodes: Iterable[onnx.NodeProto], names: Mapping[str, str]) -> None:
    """Rename tensors where ``nodes`` read and where they make them, but not inside their subgraphs."""
    for node in nodes:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]


def renamed(nodes: Iterable[onnx.NodeProto], names: Mapping[str, str]) -> tuple[onnx.NodeProto, ...]:
    """Copy ``nodes`` with tensors renamed by ``names``."""
    copies = tuple(deepcopy(node) for node in nodes)
    rename(copies, names)
    return copies


def opset(opsets: Iterable[onnx.OperatorSetIdProto], domain: str = "") -> int:
    """Return the version of the operators of ``domain``; 1 where none is stated."""
    return next((one.version for one in opsets if one.domain in (domain, domain or "ai.onnx")), 1)


def upgraded(model: onnx.ModelProto, least: int) -> onnx.ModelProto:
    """Return ``model``, converted to opset 13 if it is written in one below ``least``."""
    version = opset(model.opset_import)
    if version >= least:
        return model
    try:
        return version_converter.convert_version(model, OPSET)
    except RuntimeError as error:
        raise NetworkError(
            f"the network is written in ONNX opset {version} and can't be brought to {OPSET} "
            f"({first_line(error)}); export it with opset {least} or later."
        ) from error


def inputs_of(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Return the inputs of ``graph`` that are no weights, which older files list among them."""
    weights = {weight.name for weight in graph.initializer}
    return [value for value in graph.input if value.name not in weights]


def is_diagonal(weights: TensorProto) -> bool:
    """Return True for weights of a convolution without groups that make each channel from one, the channel at its place."""
    if len(set(weights.dims[:2])) != 1:
        return False
    values = numpy_helper.to_array(weights)
    return not values[~np.eye(len(values), dtype=bool)].any()


def attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    """Return an attribute of ``node``, or its default."""
    return next((helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs inside ``node``: branches of an If, the body of a Loop."""
    for entry in node.attribute:
        if entry.HasField("g"):
            yield entry.g
        yield from entry.graphs


def captured(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the outer tensors that a node's subgraphs read."""
    for graph in subgraphs(node):
        own = {value.name for value in (*graph.input, *graph.initializer)}
        for inner in graph.node:
            yield from (name for name in reads(inner) if name not in own)
            own.update(inner.output)


def reads(node: onnx.NodeProto) -> tuple[str, ...]:
    """Return the tensors that ``node`` reads, those that its subgraphs read included."""
    return tuple(name for name in (*node.input, *captured(node)) if name)


def readers_of(nodes: Iterable[onnx.NodeProto]) -> dict[str, list[onnx.NodeProto]]:
    """Return the nodes that read each tensor."""
    found: dict[str, list[onnx.NodeProto]] = {}
    for node in nodes:
        for tensor in dict.fromkeys(node.input):
            found.setdefault(tensor, []).append(node)
    return found


def in_order(graph: onnx.GraphProto) -> None:
    """Sort the nodes of ``graph`` in place so that each comes behind what it reads; as they were where they already do.

    ONNX wants them so, engines don't mind, and converters to half precision append their casts at the end. Nodes in a
    circle are left as they are, for the checker to complain of.
    """
    makers = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    needs = {
        index: {makers[name] for name in reads(node) if name in makers and makers[name] != index}
        for index, node in enumerate(graph.node)
    }
    if all(max(before, default=-1) < index for index, before in needs.items()):
        return
    try:
        order = list(TopologicalSorter(needs).static_order())
    except CycleError:
        return
    nodes = [deepcopy(graph.node[index]) for index in order]
    del graph.node[:]
    graph.node.extend(nodes)


def folded(model: onnx.ModelProto) -> onnx.ModelProto:
    """Copy ``model`` with weights that are only cast or rearranged stored as plain weights."""
    made = deepcopy(model)
    known = {weight.name: weight for weight in made.graph.initializer}
    left = []
    for node in made.graph.node:
        if node.op_type in REARRANGES and all(name in known for name in node.input if name):
            given = {name: numpy_helper.to_array(known[name]) for name in node.input if name}
            [value] = computed(node, given, model.opset_import)
            known[node.output[0]] = numpy_helper.from_array(value, node.output[0])
        else:
            left.append(node)
    keep_nodes(made.graph, left, known)
    return made


def computed(
    node: onnx.NodeProto, given: Mapping[str, Array], opsets: Iterable[onnx.OperatorSetIdProto]
) -> list[Array]:
    """Compute ``node`` from the values it reads, with the reference implementation of its operator."""
    # Imported where it is needed, since it loads all operators.
    from onnx.reference import ReferenceEvaluator

    made = [name for name in node.output if name]
    function = helper.make_function("clockseg", "fold", list(given), made, [node], list(opsets))
    return [np.asarray(value) for value in ReferenceEvaluator(function).run(None, dict(given), {})]


def keep_nodes(graph: onnx.GraphProto, nodes: list[onnx.NodeProto], weights: Mapping[str, TensorProto]) -> None:
    """Make these the nodes of ``graph``, and of ``weights`` keep those that something reads."""
    read = {name for node in nodes for name in reads(node)} | {value.name for value in graph.output}
    left = [deepcopy(weight) for name, weight in weights.items() if name in read]
    nodes = [deepcopy(node) for node in nodes]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(left)
