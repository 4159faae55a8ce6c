"""What the tensors of an exported graph are called: after the submodule whose output they are."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, fx

from clockseg.errors import NetworkError
from clockseg.graph.part import IMAGE
from clockseg.graph.torch_export import INNER


@dataclass(frozen=True)
class Names:
    """``chosen``: each tensor's own name. ``known``: the tensor of every name that it may be called by."""

    chosen: dict[fx.Node, str]
    known: dict[str, fx.Node]

    def __call__(self, name: str) -> str:
        """The chosen name of the tensor called ``name``; NetworkError with the nearest ones if there is none."""
        if name not in self.known:
            close = difflib.get_close_matches(name, self.known, n=3)
            hint = f"Did you mean {', '.join(close)}?" if close else "clockseg.candidates tells where it may be cut."
            raise NetworkError(f"{name!r} is no tensor of this network. {hint}")
        return self.chosen[self.known[name]]


def named(graph: fx.Graph) -> Names:
    """Names for the tensors of ``graph``.

    The one tensor that leaves a call of a submodule has the submodule's path; of several each has its place added,
    ".0", ".1", in the order they are made. From a submodule's second call on, the path has "@1", "@2" added. A tensor
    that leaves several calls alone has the outermost's; one that leaves none has its operation's name in the graph.
    """
    tensors = [node for node in graph.nodes if isinstance(node.meta.get("val"), Tensor) and _is_no_weight(node)]
    leaving = {scope: nodes for scope, nodes in _leaving(tensors).items() if nodes}
    known = {scope: nodes[0] for scope, nodes in leaving.items() if len(nodes) == 1}
    known |= {node.name: node for node in tensors if node.op == "placeholder"}
    several = {
        f"{scope}.{index}": node
        for scope, nodes in leaving.items()
        if len(nodes) > 1
        for index, node in enumerate(nodes)
    }
    best: dict[fx.Node, str] = {}
    for name in [*sorted(known, key=_depth), *sorted(several, key=_depth, reverse=True)]:
        best.setdefault((known.get(name) or several[name]), name)
    known = several | known
    for node in tensors:
        free = node.name
        while known.get(free, node) is not node:
            free += "_"
        known[free] = node
        best.setdefault(node, free)
    return Names(best, known)


def owner(node: fx.Node) -> str:
    """The path of the submodule in whose call a node was made; empty for the module itself."""
    paths = [path for path, _ in _scopes(node)]
    return paths[-1] if paths else ""


def _is_no_weight(node: fx.Node) -> bool:
    return bool(node.op == "call_function" or node.name == IMAGE)


def _depth(name: str) -> tuple[int, int]:
    return name.count("."), len(name)


def _leaving(tensors: list[fx.Node]) -> dict[str, list[fx.Node]]:
    """For each call of a submodule, the tensors made in it that are read outside of it."""
    found: dict[str, list[fx.Node]] = {}
    for node in tensors:
        if node.op != "call_function":
            continue
        for path, call in _scopes(node):
            scope = path + call
            nodes = found.setdefault(scope, [])
            if any((path, call) not in set(_scopes(user)) for user in node.users):
                nodes.append(node)
    return found


def _scopes(node: fx.Node) -> Iterator[tuple[str, str]]:
    """The calls of submodules a node was made in, outermost first: path, and "@1" from the second call on."""
    for key, (path, _) in (node.meta.get("nn_module_stack") or {}).items():
        _, at, number = key.partition("@")
        if path.startswith(INNER):
            yield path.removeprefix(INNER), at + number
