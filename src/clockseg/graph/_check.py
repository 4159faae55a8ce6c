"""What makes a set of cuts impossible, said so that the next try is right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from clockseg.errors import NetworkError, nearest
from clockseg.graph.neutral import Graph, Node

_MOST_TOLD = 20
"""Names that are told at most."""


def known(graph: Graph, cuts: Sequence[Sequence[str]], output: str) -> None:
    """Every name is a tensor that depends on the frame, and no cut is empty."""
    if not cuts or not all(cuts):
        raise NetworkError("a network needs at least one cut, and each cut at least one tensor.")
    for name in (*(name for cut in cuts for name in cut), output):
        if name in graph.inputs:
            raise NetworkError(f"{name!r} is the network's input; cut behind it, at a tensor that the network makes.")
        if name not in graph.dynamic:
            what = "doesn't depend on the frame" if name in graph.maker else "is no tensor of this network"
            raise NetworkError(f"{name!r} {what}. {_near(name, graph.dynamic)}")
    twice = [cut for cut in cuts if len(set(cut)) != len(cut)]
    if twice:
        raise NetworkError(f"cut {_join(twice[0])} names a tensor twice.")


def _near(name: str, known: Iterable[str]) -> str:
    """The nearest names: all of a few, of many those that are least unlike."""
    names = list(known)
    told = nearest(name, names)
    if len(names) <= _MOST_TOLD or not told.startswith("Known"):
        return told
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.0)
    return f"The nearest names: {', '.join(close)}. `clockseg inspect --cuts` lists where it can be cut."


def named(names: Sequence[str], count: int) -> None:
    """There is one stage name per cut, and none of them says what it isn't."""
    if len(names) != count:
        raise NetworkError(f"{len(names)} stage names for {count} cuts; give one name per cut.")
    bad = [name for name in names if not name or "+" in name or name in ("finish", "whole")]
    if bad or len(set(names)) != count:
        raise NetworkError(
            f"stage names {_join(names)}: each must be its own, without '+', and not 'finish' or 'whole'."
        )


def on_the_way(
    graph: Graph, cuts: Sequence[Sequence[str]], index: int, nodes: Sequence[Node], ends: Sequence[str]
) -> None:
    """Cut ``index`` is reached from the cut before and from nothing else; ``nodes``, ``ends``: the walk back from it."""
    before = set(graph.inputs if index == 0 else cuts[index - 1])
    if not nodes:
        raise NetworkError(
            f"stage {index + 1} would be empty: cut {_join(cuts[index])} is the cut before it. Leave it out."
        )
    through = set(before)
    bypass: list[str] = []
    for node in nodes:
        reads = graph.reads(node)
        if through.intersection(reads):
            through.update(node.outputs)
            bypass += [tensor for tensor in reads if tensor not in through]
    late = [name for name in cuts[index] if name not in through]
    if len(late) == len(cuts[index]):
        raise NetworkError(_unreached(graph, cuts, index))
    if bypass or late:
        raise NetworkError(_bypassed(graph, cuts, index, bypass or late))


def _unreached(graph: Graph, cuts: Sequence[Sequence[str]], index: int) -> str:
    nodes, _ = graph.back(cuts[index - 1], frozenset())
    made = {tensor for node in nodes for tensor in node.outputs}
    if made.issuperset(cuts[index]):
        every = graph.ordered(name for cut in cuts for name in cut)
        return (
            f"the cuts are out of order: {_join(cuts[index])} comes before {_join(cuts[index - 1])}. "
            f"Give them from the frame on: {_join(every)}."
        )
    return (
        f"cut {_join(cuts[index])} isn't reached from the cut before it, {_join(cuts[index - 1])}: "
        "they lie on different branches. Name tensors that follow each other on the trunk."
    )


def _bypassed(graph: Graph, cuts: Sequence[Sequence[str]], index: int, bypass: Iterable[str]) -> str:
    names = graph.ordered(bypass)
    cut, before = _join(cuts[index]), _join(cuts[index - 1])
    start = f"the trunk goes round cut {index} ({before}): stage {index + 1}, up to {cut}, also reads {_join(names)}"
    if set(names) & set(graph.inputs):
        return f"{start}, the frame itself. Name a later tensor of that branch in cut {index}, or drop the cut."
    return f"{start}. Name {'it' if len(names) == 1 else 'them'} in cut {index} as well: {_join([*cuts[index - 1], *names])}."


def reached(graph: Graph, cuts: Sequence[Sequence[str]], output: str, owners: dict[str, frozenset[int]]) -> None:
    """The output is made from the last stage."""
    last = len(cuts) - 1
    if last not in owners[output]:
        raise NetworkError(
            f"the output {output!r} doesn't depend on the last cut, {_join(cuts[last])}: "
            "cut at tensors that the output is made from."
        )


def scores(graph: Graph, name: str, names: Sequence[str], index: int, owners: frozenset[int]) -> None:
    """The tensor of a stage's own score map is made from that stage alone."""
    if name not in graph.dynamic:
        raise NetworkError(
            f"scores of stage {names[index]!r}: {name!r} is no tensor of this network. {_near(name, graph.dynamic)}"
        )
    if owners != {index}:
        made = _join([names[owner] for owner in sorted(owners)])
        raise NetworkError(
            f"scores of stage {names[index]!r}: {name!r} is made from {made}; "
            f"it must be made from {names[index]!r} alone. Name another tensor, or null."
        )


def movable(graph: Graph, *passed: Sequence[str]) -> None:
    """Nothing that passes from part to part holds positions or other whole numbers."""
    bad = [name for tensors in passed for name in tensors if name in graph.integers]
    if bad:
        raise NetworkError(
            f"{_join(bad[:3])} would pass from one part to another and holds whole numbers, such as the positions that "
            "max-unpooling needs. These mean nothing once the frame has moved on, so they can't be held. "
            "Cut elsewhere, so that they are made and used in the same part."
        )


def _join(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
