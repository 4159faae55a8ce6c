"""A network's file with what corrects its moved scores in it: taken apart, put together, and built as a part.

In the file a correction has two inputs of its own, the score map moved to this frame and what the motion leaves unexplained, and
an output beside the network's; the network stands there unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import onnx

from clockseg.errors import NetworkError, nearest
from clockseg.graph.nodes import copied, extended, keep_nodes, rename, upstream
from clockseg.graph.nodes import reads as reads_of
from clockseg.graph.sidecar import Correction, Sidecar
from clockseg.graph.static import Static, fix
from clockseg.types import Size

UNEXPLAINED = "unexplained"
"""What the session calls what the motion leaves unexplained (``Carry.unexplained``)."""


def network_alone(model: onnx.ModelProto, said: Sidecar) -> tuple[onnx.ModelProto, onnx.GraphProto | None]:
    """Return the network without its correction, node for node, and what that added; ``model`` stays as it is.

    The addition has its nodes in order, the weights that they read, two inputs and an output; it is None where there is no
    correction. NetworkError where the file doesn't have what its sidecar says.
    """
    if said.correction is None:
        return model, None
    correction, graph = said.correction, model.graph
    inputs = _named(graph.input, (correction.moved, correction.unexplained), "input", said)
    output = _named(graph.output, (correction.output,), "output", said)
    wanted = {value.name for value in graph.output} - {correction.output}
    wanted |= {said.output, *filter(None, said.scores), *(tensor for cut in said.cuts for tensor in cut)}
    own = upstream(graph.node, wanted)
    fed = {value.name for value in inputs}
    if wrong := [node for node in graph.node if node.name in own and fed.intersection(reads_of(node))]:
        raise NetworkError(
            f"node {wrong[0].name!r} of network {said.name!r} reads an input of the correction; the network must "
            'work without it. Without "correction" in its sidecar, the network runs without it.'
        )
    nodes = [node for node in graph.node if node.name not in own]
    read = {name for node in nodes for name in reads_of(node)}
    weights = [weight for weight in graph.initializer if weight.name in read]
    alone = copied(model)
    keep_nodes(alone.graph, [node for node in graph.node if node.name in own])
    for value in inputs:
        alone.graph.input.remove(value)
    alone.graph.output.remove(*output)
    return alone, onnx.GraphProto(node=nodes, initializer=weights, input=inputs, output=output)


def with_addition(model: onnx.ModelProto, added: onnx.GraphProto) -> onnx.ModelProto:
    """Return a copy of ``model``, a network alone, with ``added`` behind it; NetworkError where names are taken or missing."""
    there = {weight.name for weight in model.graph.initializer}
    more = copied(added)
    keep_nodes(more, list(added.node), {one.name: one for one in added.initializer if one.name not in there})
    made = extended(model, more, why="it was given a correction before")
    known = {value.name for value in (*made.graph.input, *made.graph.initializer)}
    known |= {name for node in made.graph.node for name in node.output}
    if lost := sorted({name for node in added.node for name in reads_of(node)} - known):
        raise NetworkError(f"the correction reads {lost[0]!r}, which this network doesn't have.")
    return made


def mended_at(
    model: onnx.ModelProto, said: Sidecar, correction: Correction, at: Callable[[Size], Static]
) -> Callable[[Size], Static]:
    """Return a function from a working size to the graph with its correction, whose inputs have the network's shapes there."""

    @lru_cache(maxsize=1)
    def found(size: Size) -> Static:
        types = at(size).types
        if correction.of not in types:
            raise NetworkError(
                f"the sidecar's correction is of {correction.of!r}, which is not a tensor of its network. "
                f"{nearest(correction.of, types)}"
            )
        moved = types[correction.of][1]
        shapes = {said.input.name: (1, 3, size[1], size[0]), correction.moved: moved}
        shapes[correction.unexplained] = (1, 1, *moved[2:])
        return fix(model, shapes, floats=[said.output, correction.output, *filter(None, said.scores)])

    return found


def with_inputs(model: onnx.ModelProto, names: dict[str, str]) -> onnx.ModelProto:
    """Rename the inputs of ``model``, to the names of the values that the session passes."""
    for value in model.graph.input:
        value.name = names.get(value.name, value.name)
    rename(model.graph.node, names)
    return model


def _named(
    values: Iterable[onnx.ValueInfoProto], names: Sequence[str], what: str, said: Sidecar
) -> tuple[onnx.ValueInfoProto, ...]:
    known = {value.name: value for value in values}
    for name in names:
        if name not in known:
            raise NetworkError(
                f"the sidecar's correction names {name!r}, which is not an {what} of network {said.name!r}. {nearest(name, known)}"
            )
    return tuple(known[name] for name in names)
