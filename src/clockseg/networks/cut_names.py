"""Names of tensors, nodes and modules of a network, as ``clockseg cut --at`` and ``--output`` take them."""

from __future__ import annotations

from clockseg.errors import NetworkError
from clockseg.graph.neutral import Graph
from clockseg.graph.rule import nearest_tensors

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
    several = ([part] if part in graph.dynamic else [name.strip() for name in part.split("+")] for part in parts)
    return tuple(tuple(tensor_named(name, graph) for name in names) for names in several)


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
        known = [*graph.dynamic, *(node.name for node in graph.nodes)]
        raise NetworkError(f"{name!r} is not a tensor, node or module of this network. {nearest_tensors(name, known)}")
    return found[0]


def _path(name: str) -> str:
    return name.strip("/").replace("/", ".").replace("::", ".")
