"""The cut rule: any network becomes stages, fuse groups and a finish, from the names of the tensors it is cut at.

A *cut* is a small set of tensors through which the trunk passes; c_0 is the frame. What lies on the way from c_(l-1) to
c_l is the *body* of stage l. Every other node belongs to the stages whose tensors it is made from: one stage makes it
a *head* of that stage, several a *fuse group* with that set of sources; two nodes with the same sources are in the same
group, and edges lead from a set only to its supersets, so that groups are in order by the size of their set. What
follows the last fusion and only enlarges, crops or rewrites scores is *finish*.

What is held is what a stage makes and another part reads. Where a head ends in an interpolation, the tensor before it
is held and the interpolation done by the group that reads it: it is a fraction of the bytes to hold and to move, it is
moved at its own stride, and interpolating again costs less than reading the larger map from memory saves. Only if
several groups read it is the enlarged tensor held. A score map that clocks watch is held anyway: what is only cropped or
enlarged from it is made in the group. A group that ends in an interpolation keeps it: what it gives isn't moved, and it
rests while its sources hold.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from clockseg.errors import NetworkError, nearest
from clockseg.graph.neutral import CROP, ENLARGE, POINT, Graph, Node

_MOST_TOLD = 20
"""Names that are told at most."""


def check_known(graph: Graph, cuts: Sequence[Sequence[str]], output: str) -> None:
    """Check that every name is a tensor that depends on the frame, and that no cut is empty."""
    if not cuts or not all(cuts):
        raise NetworkError("a network needs at least one cut, and each cut at least one tensor.")
    for name in (*(name for cut in cuts for name in cut), output):
        if name in graph.inputs:
            raise NetworkError(f"{name!r} is the network's input; cut after it, at a tensor that the network computes.")
        if name not in graph.dynamic:
            what = "doesn't depend on the frame" if name in graph.maker else "is not a tensor of this network"
            raise NetworkError(f"{name!r} {what}. {nearest_tensors(name, graph.dynamic)}")
    twice = [cut for cut in cuts if len(set(cut)) != len(cut)]
    if twice:
        raise NetworkError(f"cut {_join(twice[0])} names a tensor twice.")


def nearest_tensors(name: str, known: Iterable[str]) -> str:
    """Return the nearest names: all of a few, of many those that are least unlike."""
    names = list(known)
    told = nearest(name, names)
    if len(names) <= _MOST_TOLD or not told.startswith("Known"):
        return told
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.0)
    where = "`clockseg inspect --cuts` (in Python clockseg.candidates) lists where it can be cut."
    return f"The nearest names: {', '.join(close)}. {where}"


def check_names(names: Sequence[str], count: int) -> None:
    """Check that there is one stage name per cut, and that each can be told from a group's name."""
    if len(names) != count:
        raise NetworkError(f"{len(names)} stage names for {count} cuts; give one name per cut.")
    bad = [name for name in names if not name or "+" in name or name in ("finish", "whole")]
    if bad or len(set(names)) != count:
        raise NetworkError(
            f"stage names {_join(names)}: they must be different, without '+', and not 'finish' or 'whole'."
        )


def check_on_the_way(
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
    cut, first = _join(cuts[index]), _join(cuts[index - 1])
    if len(late) == len(cuts[index]):
        raise NetworkError(
            f"cut {cut} isn't reached from the cut before it, {first}: they are out of order, or lie on different branches. "
            "Name tensors that follow each other on the trunk, from the frame on."
        )
    if names := graph.ordered(bypass or late):
        start = f"the trunk bypasses cut {index} ({first}): stage {index + 1}, up to {cut}, also reads {_join(names)}"
        if set(names) & set(graph.inputs):
            raise NetworkError(
                f"{start}, the frame itself. Name a later tensor of that branch in cut {index}, or drop the cut."
            )
        raise NetworkError(f"{start}. Name that in cut {index} as well: {_join([*cuts[index - 1], *names])}.")


def check_reached(graph: Graph, cuts: Sequence[Sequence[str]], output: str, owners: dict[str, frozenset[int]]) -> None:
    """Check that the output is made from the last stage."""
    last = len(cuts) - 1
    if last not in owners[output]:
        raise NetworkError(
            f"the output {output!r} doesn't depend on the last cut, {_join(cuts[last])}: "
            "cut at tensors that the output is computed from."
        )


def check_scores(graph: Graph, name: str, names: Sequence[str], index: int, owners: frozenset[int]) -> None:
    """Check that the tensor of a stage's own score map is made from that stage alone."""
    if name not in graph.dynamic:
        raise NetworkError(
            f"scores of stage {names[index]!r}: {name!r} is not a tensor of this network. {nearest_tensors(name, graph.dynamic)}"
        )
    if owners != {index}:
        made = _join([names[owner] for owner in sorted(owners)])
        raise NetworkError(
            f"scores of stage {names[index]!r}: {name!r} is computed from {made}; "
            f"it must be computed from {names[index]!r} alone. Name another tensor, or null."
        )


def check_movable(graph: Graph, passed: Sequence[str]) -> None:
    """Check that no tensor in ``passed``, from part to part, holds positions or other whole numbers."""
    bad = [name for name in passed if name in graph.integers]
    if bad:
        raise NetworkError(
            f"{_join(bad[:3])} would pass from one part to another and holds whole numbers, such as the positions that "
            "max-unpooling needs. They are valid for their own frame only, so they can't be cached. "
            "Cut elsewhere, so that they are computed and used in the same part."
        )


def _join(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


Sources = frozenset[int]
"""Zero-based indices of stages."""
_FINISHING = (ENLARGE, CROP, POINT)
"""Kinds of nodes that what follows the last fusion may consist of."""


@dataclass(frozen=True)
class StageCut:
    """One stage: the names of its nodes, and the tensors it reads, passes on along the trunk, and holds."""

    name: str
    body: tuple[str, ...]
    head: tuple[str, ...]
    inputs: tuple[str, ...]
    trunk: tuple[str, ...]
    held: tuple[str, ...]
    scores: str | None

    @property
    def outputs(self) -> tuple[str, ...]:
        """The tensors that other parts read, the trunk's first."""
        return tuple(dict.fromkeys([*self.trunk, *self.held]))


@dataclass(frozen=True)
class GroupCut:
    """One fuse group: the stages it is made from, the parts it reads, its nodes, and its tensors in and out."""

    name: str
    sources: tuple[str, ...]
    reads: tuple[str, ...]
    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Division:
    """A network divided by the cut rule; ``finish`` leads from the tensor ``scores`` to the network's output."""

    stages: tuple[StageCut, ...]
    groups: tuple[GroupCut, ...]
    finish: tuple[str, ...]
    scores: str
    output: str


def divide(
    graph: Graph,
    cuts: Sequence[Sequence[str]],
    *,
    output: str,
    names: Sequence[str] = (),
    scores: Sequence[str | None] = (),
) -> Division:
    """Divide ``graph`` at ``cuts``, one set of tensors per stage, from the frame on.

    ``names``: the stages' names (default: stage1, stage2, ..). ``scores``: per stage, the tensor that holds score maps
    of that stage alone, or None. Raises NetworkError with the reason where a cut isn't one.

    >>> fcn = Graph((Node("a", ("x",), ("pool",)), Node("b", ("pool",), ("fc",)), Node("s", ("pool",), ("s1",)),
    ...              Node("u", ("fc",), ("s2",), "enlarge"), Node("sum", ("s1", "s2"), ("y",))), ("x",))
    >>> found = divide(fcn, [["pool"], ["fc"]], output="y")
    >>> [(stage.body, stage.head, stage.held) for stage in found.stages]
    [(('a',), ('s',), ('s1',)), (('b',), (), ('fc',))]
    >>> [(group.name, group.nodes) for group in found.groups]
    [('stage1+stage2', ('u', 'sum'))]
    """
    names = tuple(names) or tuple(f"stage{index + 1}" for index in range(len(cuts)))
    check_known(graph, cuts, output)
    check_names(names, len(cuts))
    bodies = [_body(graph, cuts, index) for index in range(len(cuts))]
    owners = _owners(graph, bodies)
    check_reached(graph, cuts, output, owners)
    work = _Work(graph, [tuple(cut) for cut in cuts], names, bodies, owners, output)
    return work.division([*scores, *[None] * (len(cuts) - len(scores))])


def sources(graph: Graph, cuts: Sequence[Sequence[str]], *, output: str) -> dict[str, Sources]:
    """Return the stages that each tensor is made from, if the network is cut at ``cuts``; the frame is stage 1's (index 0).

    Raises NetworkError as ``divide`` does.
    """
    check_known(graph, cuts, output)
    return _owners(graph, [_body(graph, cuts, index) for index in range(len(cuts))])


def _body(graph: Graph, cuts: Sequence[Sequence[str]], index: int) -> tuple[Node, ...]:
    before = graph.inputs if index == 0 else cuts[index - 1]
    nodes, ends = graph.back([name for name in cuts[index] if name not in before], set(before))
    check_on_the_way(graph, cuts, index, nodes, ends)
    return nodes


def _owners(graph: Graph, bodies: Sequence[tuple[Node, ...]]) -> dict[str, Sources]:
    """Return the stages that each tensor is made from; a body's tensors are its stage's alone, and the frame is stage 1's."""
    made = {node.name: index for index, body in enumerate(bodies) for node in body}
    owners: dict[str, Sources] = {tensor: frozenset({0}) for tensor in graph.inputs}
    for node in graph.nodes:
        mine = frozenset({made[node.name]}) if node.name in made else _union(owners, node.inputs)
        owners.update((tensor, mine) for tensor in node.outputs)
    return owners


def _union(owners: dict[str, Sources], tensors: Sequence[str]) -> Sources:
    return frozenset().union(*(owners.get(tensor, frozenset()) for tensor in tensors))


@dataclass(frozen=True)
class _Work:
    """The state of ``divide`` once the body of each stage and the sources of each tensor are known."""

    graph: Graph
    cuts: list[tuple[str, ...]]
    names: tuple[str, ...]
    bodies: list[tuple[Node, ...]]
    owners: dict[str, Sources]
    output: str

    @cached_property
    def inside(self) -> set[str]:
        """The names of the nodes in bodies."""
        return {node.name for body in self.bodies for node in body}

    def division(self, scores: Sequence[str | None]) -> Division:
        finish, border = self._finish()
        fused = self._fused(finish, border)
        held = self._held(fused, border, frozenset(scores))
        groups = self._groups(fused, held, border)
        stages = tuple(self._stage(index, held[index], scores[index]) for index in range(len(self.cuts)))
        found = Division(stages, groups, finish, border, self.output)
        passed = [*(t for s in stages for t in (*s.trunk, *s.held)), *(t for g in groups for t in g.outputs)]
        check_movable(self.graph, [tensor for tensor in passed if tensor != self.output])
        return found

    def _finish(self) -> tuple[tuple[str, ...], str]:
        """Return the nodes behind the last fusion, and the tensor they start from."""
        chain: list[str] = []
        tensor = self.output
        while (node := self.graph.maker.get(tensor)) and node.name not in self.inside and node.kind in _FINISHING:
            reads = self.graph.reads(node)
            if len(reads) != 1 or tensor in self.graph.inputs:
                break
            chain.append(node.name)
            tensor = reads[0]
        return tuple(reversed(chain)), tensor

    def _fused(self, finish: tuple[str, ...], border: str) -> dict[Sources, list[Node]]:
        """Return for each set of sources the nodes that fuse it, smaller sets first."""
        needed, _ = self.graph.back([border], frozenset())
        fused: dict[Sources, list[Node]] = {}
        for node in needed:
            sources = self.owners[node.outputs[0]]
            if len(sources) > 1 and node.name not in finish:
                fused.setdefault(sources, []).append(node)
        return dict(sorted(fused.items(), key=lambda item: (len(item[0]), sorted(item[0]))))

    def _held(
        self, fused: dict[Sources, list[Node]], border: str, watched: frozenset[str | None]
    ) -> list[tuple[str, ...]]:
        """Return for each stage the tensors that groups and finish read of it."""
        readers: dict[str, set[Sources]] = {}
        for sources, nodes in fused.items():
            for tensor in (tensor for node in nodes for tensor in self.graph.reads(node)):
                readers.setdefault(tensor, set()).add(sources)
        if not fused:
            readers[border] = {frozenset()}
        held: list[list[str]] = [[] for _ in self.cuts]
        for tensor, by in readers.items():
            if len(self.owners[tensor]) == 1:
                [stage] = self.owners[tensor]
                held[stage].append(tensor if len(by) > 1 else self._held_for(tensor, watched))
        return [self.graph.ordered(tensors) for tensors in held]

    def _held_for(self, tensor: str, watched: frozenset[str | None]) -> str:
        """Return the watched tensor that ``tensor`` only enlarges or crops, or else ``tensor`` before enlargement."""
        small = tensor
        while tensor not in watched:
            node = self.graph.maker.get(tensor)
            if node is None or node.name in self.inside or node.kind not in (ENLARGE, CROP):
                return small
            reads = self.graph.reads(node)
            if len(reads) != 1:
                return small
            [tensor] = reads
            small = tensor if node.kind == ENLARGE else small
        return tensor

    def _groups(
        self, fused: dict[Sources, list[Node]], held: list[tuple[str, ...]], border: str
    ) -> tuple[GroupCut, ...]:
        outputs = {sources: self._read_outside(sources, nodes, fused, border) for sources, nodes in fused.items()}
        maker = {tensor: self.names[index] for index, tensors in enumerate(held) for tensor in tensors}
        maker |= {tensor: self._name(sources) for sources, tensors in outputs.items() for tensor in tensors}
        groups = []
        for sources, tensors in outputs.items():
            nodes, ends = self.graph.back(tensors, set(maker) - set(tensors))
            reads = tuple(dict.fromkeys(maker[tensor] for tensor in ends))
            groups.append(
                GroupCut(
                    self._name(sources),
                    tuple(self.names[index] for index in sorted(sources)),
                    reads,
                    tuple(node.name for node in nodes),
                    ends,
                    tensors,
                )
            )
        return tuple(groups)

    def _read_outside(
        self, sources: Sources, nodes: list[Node], fused: dict[Sources, list[Node]], border: str
    ) -> tuple[str, ...]:
        made = {tensor for node in nodes for tensor in node.outputs}
        others = [node for key, group in fused.items() if key != sources for node in group]
        read = {border, *(tensor for node in others for tensor in node.inputs)}
        return self.graph.ordered(made & read)

    def _stage(self, index: int, held: tuple[str, ...], scores: str | None) -> StageCut:
        if scores is not None:
            check_scores(self.graph, scores, self.names, index, self.owners.get(scores, frozenset()))
        held = self.graph.ordered([*held, *([scores] if scores else [])])
        trunk = self.cuts[index]
        body = self.bodies[index]
        before = set(self.graph.inputs if index == 0 else self.cuts[index - 1])
        inside = {node.name for node in body}
        nodes, ends = self.graph.back([*trunk, *held], before)
        return StageCut(
            self.names[index],
            tuple(node.name for node in body),
            tuple(node.name for node in nodes if node.name not in inside),
            ends,
            trunk,
            held,
            scores,
        )

    def _name(self, sources: Sources) -> str:
        return "+".join(self.names[index] for index in sorted(sources))
