"""A network's file with what corrects its moved scores in it: taken apart, put together, and built as a part.

The correction is trained by ``clockseg train stale``. In the file it has two inputs of its own, the score map moved to this
frame and what the motion leaves unexplained, and an output beside the network's; the network stands there unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import onnx
from onnx import helper

from clockseg.errors import NetworkError, nearest
from clockseg.graph.folding import captured, copied, keep_nodes
from clockseg.graph.sidecar import Correction, Sidecar
from clockseg.graph.static import Static, fix
from clockseg.types import Size

UNEXPLAINED = "unexplained"
"""What the session calls what the motion leaves unexplained (``Carry.unexplained``)."""


@dataclass(frozen=True)
class Addition:
    """The additions of a correction to a network's graph: nodes in order, the weights they read, two inputs and an output."""

    nodes: tuple[onnx.NodeProto, ...]
    weights: tuple[onnx.TensorProto, ...]
    inputs: tuple[onnx.ValueInfoProto, ...]
    output: onnx.ValueInfoProto


def network_alone(model: onnx.ModelProto, said: Sidecar) -> tuple[onnx.ModelProto, Addition | None]:
    """Return the network without its correction, node for node, and what that added; ``model`` stays as it is.

    NetworkError where the file doesn't have what its sidecar says. The network and None where it has no correction.
    """
    if said.correction is None:
        return model, None
    correction, graph = said.correction, model.graph
    inputs = _named(graph.input, (correction.moved, correction.unexplained), "input", said)
    [output] = _named(graph.output, (correction.output,), "output", said)
    wanted = {value.name for value in graph.output} - {correction.output}
    wanted |= {said.output, *filter(None, said.scores), *(tensor for cut in said.cuts for tensor in cut)}
    own = _needed(graph.node, wanted)
    fed = {value.name for value in inputs}
    if wrong := [node for node in graph.node if node.name in own and fed.intersection(_reads(node))]:
        raise NetworkError(
            f"node {wrong[0].name!r} of network {said.name!r} itself reads an input of its correction; the network has to "
            "stand without it. Train the correction anew (clockseg train stale)."
        )
    added = [node for node in graph.node if node.name not in own]
    read = {name for node in added for name in _reads(node)}
    alone = copied(model)
    keep_nodes(alone.graph, [node for node in graph.node if node.name in own])
    _without(alone.graph.input, fed)
    _without(alone.graph.output, {correction.output})
    weights = tuple(weight for weight in graph.initializer if weight.name in read)
    return alone, Addition(tuple(added), weights, inputs, output)


def with_addition(model: onnx.ModelProto, added: Addition) -> onnx.ModelProto:
    """Return a copy of ``model``, a network alone, with ``added`` behind it; NetworkError where names are taken or missing."""
    made = copied(model)
    graph = made.graph
    there = {weight.name for weight in graph.initializer}
    weights = [weight for weight in added.weights if weight.name not in there]
    taken = there | {value.name for value in graph.input}
    taken |= {name for node in graph.node for name in (node.name, *node.output)}
    new = [value.name for value in (*added.inputs, *weights)]
    new += [name for node in added.nodes for name in (node.name, *node.output)]
    if twice := sorted(taken.intersection(new)):
        raise NetworkError(f"the network has a tensor {twice[0]!r} already; it was given a correction before.")
    known = {*taken, *new, ""}
    if lost := sorted({name for node in added.nodes for name in _reads(node)} - known):
        raise NetworkError(f"the correction reads {lost[0]!r}, which this network doesn't have; train one for it.")
    graph.input.extend(added.inputs)
    graph.initializer.extend(weights)
    graph.node.extend(added.nodes)
    graph.output.append(added.output)
    return made


def repeated(graph: onnx.GraphProto, start: str, end: str, *, reads: str, prefix: str) -> tuple[onnx.NodeProto, ...]:
    """Copy the nodes from ``start`` to ``end``, reading ``reads`` for ``start``; none if the two are the same.

    What they make is called as before, behind ``prefix``. Constants on the way are repeated as well; what else they read is
    the graph's own.
    """
    needed, names = _needed(graph.node, {end}), {start: reads}
    constants: dict[str, onnx.NodeProto] = {}
    fixed = {weight.name for weight in graph.initializer} | {""}
    found: dict[str, onnx.NodeProto] = {}
    for node in graph.node:
        if fixed.issuperset(_reads(node)):
            fixed.update(node.output)
            constants.update(dict.fromkeys(node.output, node))
        elif node.name in needed and not names.keys().isdisjoint(_reads(node)):
            if not names.keys().isdisjoint(captured(node)):
                raise NetworkError(
                    f"node {node.name!r} ({node.op_type}) reads the score map from inside a branch or loop; a correction "
                    "can't repeat that. Export the network traced, at a fixed size."
                )
            _repeat(node, names, constants, found, prefix)
    if end not in names:
        raise NetworkError(f"{end!r} isn't made from {start!r}.")
    return tuple(found.values())


def _repeat(
    node: onnx.NodeProto,
    names: dict[str, str],
    constants: dict[str, onnx.NodeProto],
    found: dict[str, onnx.NodeProto],
    prefix: str,
) -> None:
    """Add copies of ``node`` and of the constants that it reads to ``found``; ``names``: tensor -> the tensor of its copy."""
    before: dict[str, onnx.NodeProto] = {}
    todo = [*_reads(node)]
    while todo:
        maker = constants.get(todo.pop())
        if maker is not None and maker.name not in before:
            before[maker.name] = maker
            todo += _reads(maker)
    made = {name: f"{prefix}{name}" for one in (*before.values(), node) for name in one.output if name}
    in_order = {one.name: one for one in constants.values() if one.name in before}
    for one in (*in_order.values(), node):
        copy = copied(one)
        copy.name = f"{prefix}{one.name}"
        copy.input[:] = [made.get(name, names.get(name, name)) for name in one.input]
        copy.output[:] = [made.get(name, "") for name in one.output]
        found[copy.name] = copy
    names |= {name: made[name] for name in node.output if name}


def mended_at(
    model: onnx.ModelProto, said: Sidecar, correction: Correction, at: Callable[[Size], Static]
) -> Callable[[Size], Static]:
    """Return a function from a working size to the graph with its correction, whose inputs have the network's shapes there."""

    @lru_cache(maxsize=1)
    def found(size: Size) -> Static:
        types = at(size).types
        if correction.of not in types:
            raise NetworkError(
                f"the sidecar's correction is of {correction.of!r}, which is no tensor of its network. "
                f"{nearest(correction.of, types)}"
            )
        moved = types[correction.of][1]
        shapes = {said.input.name: (1, 3, size[1], size[0]), correction.moved: moved}
        shapes[correction.unexplained] = (1, 1, *moved[2:])
        return fix(model, shapes, floats=[said.output, correction.output, *filter(None, said.scores)])

    return found


def renamed(model: onnx.ModelProto, names: dict[str, str]) -> onnx.ModelProto:
    """Rename the inputs of ``model``, to the names of the values that the session passes."""
    for value in model.graph.input:
        value.name = names.get(value.name, value.name)
    for node in model.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
    return model


def _named(
    values: Iterable[onnx.ValueInfoProto], names: Sequence[str], what: str, said: Sidecar
) -> tuple[onnx.ValueInfoProto, ...]:
    known = {value.name: value for value in values}
    for name in names:
        if name not in known:
            raise NetworkError(
                f"the sidecar's correction names {name!r}, which is no {what} of network {said.name!r}. {nearest(name, known)}"
            )
    return tuple(known[name] for name in names)


def _needed(nodes: Sequence[onnx.NodeProto], wanted: set[str]) -> set[str]:
    """Return the names of the nodes that make ``wanted``; nodes stand in order in a file."""
    wanted, found = set(wanted), set[str]()
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            found.add(node.name)
            wanted.update(_reads(node))
    return found


def _reads(node: onnx.NodeProto) -> tuple[str, ...]:
    return (*node.input, *captured(node))


def _without(values: object, names: set[str]) -> None:
    for value in [value for value in values if value.name in names]:  # type: ignore[attr-defined]
        values.remove(value)  # type: ignore[attr-defined]


def value_info(name: str, kind: int, channels: int) -> onnx.ValueInfoProto:
    """Declare a map [1, channels, h, w] of any size, as an input or output of a graph."""
    return helper.make_tensor_value_info(name, kind, [1, channels, f"{name}_height", f"{name}_width"])
