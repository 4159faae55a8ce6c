"""Tensors by the names that people give them: a tensor's, a node's, or a module's path."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from clockseg.errors import NetworkError
from clockseg.graph.neutral import Graph

Cuts = tuple[tuple[str, ...], ...]


def parse_cuts(text: str, graph: Graph) -> Cuts:
    """Parse ``NAME,NAME+NAME`` into one set of tensors per cut; each NAME as ``tensor_named`` takes it.

    >>> from clockseg.graph.neutral import Node
    >>> graph = Graph((Node("a", ("x",), ("y",)), Node("b", ("y",), ("z", "w"))), ("x",))
    >>> parse_cuts("y,z+w", graph)
    (('y',), ('z', 'w'))
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise NetworkError(f"cuts {text!r}: a name is missing; give NAME,NAME, or NAME+NAME where several cross.")
    return tuple(tuple(tensor_named(name, graph) for name in _several(part, graph)) for part in parts)


def _several(part: str, graph: Graph) -> list[str]:
    return [part] if part in graph.dynamic else [name.strip() for name in part.split("+")]


def tensor_named(name: str, graph: Graph) -> str:
    """Return the tensor called ``name``, else the first that the node of this name makes, else the last that is made in a module.

    A module's path is what exporters put before its tensors: ``encoder.layer3`` names the last of ``/encoder/layer3/..``.
    ``NetworkError`` tells the nearest names.

    >>> from clockseg.graph.neutral import Node
    >>> graph = Graph((Node("conv", ("x",), ("/net/low/Conv_output_0",)),
    ...                Node("relu", ("/net/low/Conv_output_0",), ("/net/low/Relu_output_0",))), ("x",))
    >>> tensor_named("conv", graph), tensor_named("net.low", graph)
    ('/net/low/Conv_output_0', '/net/low/Relu_output_0')
    """
    if name in graph.dynamic or not name:
        return name
    made = [node.outputs[0] for node in graph.nodes if node.name == name]
    inside = [
        tensor for tensor in graph.position if tensor in graph.dynamic and _path(tensor).startswith(_path(name) + ".")
    ]
    found = made or inside[-1:]
    if not found:
        raise NetworkError(f"{name!r} is no tensor of this network, and no node or module. {_nearest(name, graph)}")
    return found[0]


def _path(name: str) -> str:
    return name.strip("/").replace("/", ".").replace("::", ".")


def _nearest(name: str, graph: Graph) -> str:
    """Name the nearest three tensors or nodes, however far they are: a network has thousands."""
    known = [*graph.dynamic, *(node.name for node in graph.nodes)]
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.0)
    return f"Did you mean {', '.join(close)}?"


def stage_scores(text: str, graph: Graph, stages: int) -> tuple[str | None, ...]:
    """Parse ``NAME,-,NAME``: each stage's own score map, or ``-`` for none; those left out at the end have none.

    >>> stage_scores("-", Graph((), ("x",)), 3)
    (None, None, None)
    """
    parts: Sequence[str] = [part.strip() for part in text.split(",")]
    if len(parts) > stages or not all(parts):
        raise NetworkError(f"scores {text!r}: give one name a stage, {stages} at most, or - for a stage without.")
    found = [None if part == "-" else tensor_named(part, graph) for part in parts]
    return (*found, *[None] * (stages - len(found)))
