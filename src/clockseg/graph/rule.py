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

Sources = frozenset[int]
"""Zero-based indices of stages."""
_FINISH: Sources = frozenset()
"""Stands for ``finish`` among the readers of a tensor."""
_FINISHING = (ENLARGE, CROP, POINT)
"""Kinds of nodes that what follows the last fusion may consist of."""
_MOST_TOLD = 20
"""Names that are told at most."""


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

    @property
    def parts(self) -> tuple[StageCut | GroupCut, ...]:
        """The stages and the groups, in the order in which they run."""
        return (*self.stages, *self.groups)


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
    _check_names(names, len(cuts))
    scores = (*scores, *[None] * len(cuts))[: len(cuts)]
    return _Rule(graph, tuple(map(tuple, cuts)), output, names, scores).division()


def sources(graph: Graph, cuts: Sequence[Sequence[str]], *, output: str) -> dict[str, Sources]:
    """Return the stages that each tensor is made from, if the network is cut at ``cuts``; the frame is stage 1's (index 0).

    Raises NetworkError as ``divide`` does.
    """
    check_known(graph, cuts, output)
    return _Rule(graph, tuple(map(tuple, cuts)), output).owners


@dataclass(frozen=True)
class _Rule:
    """The cut rule on one network, step by step."""

    graph: Graph
    cuts: tuple[tuple[str, ...], ...]
    output: str
    names: tuple[str, ...] = ()
    scores: Sequence[str | None] = ()

    def division(self) -> Division:
        if len(self.cuts) - 1 not in self.owners[self.output]:
            raise NetworkError(
                f"the output {self.output!r} doesn't depend on the last cut, {_join(self.cuts[-1])}: "
                "cut at tensors that the output is computed from."
            )
        for index, scores in enumerate(self.scores):
            if scores is not None:
                _check_scores(self.graph, scores, self.names, index, self.owners.get(scores, frozenset()))
        finish, border = self.finish
        stages = tuple(self._stage(index) for index in range(len(self.cuts)))
        found = Division(stages, self._groups(), finish, border, self.output)
        passed = [tensor for part in found.parts for tensor in part.outputs if tensor != self.output]
        _check_movable(self.graph, passed)
        return found

    @cached_property
    def bodies(self) -> list[tuple[Node, ...]]:
        """The nodes on the way to each cut from the cut before it."""
        found = []
        for index, (before, cut) in enumerate(zip((self.graph.inputs, *self.cuts), self.cuts, strict=False)):
            nodes, _ = self.graph.back([name for name in cut if name not in before], set(before))
            _check_on_the_way(self.graph, self.cuts, index, nodes)
            found.append(nodes)
        return found

    @cached_property
    def inside(self) -> dict[str, int]:
        """Node of a body -> its stage."""
        return {node.name: index for index, body in enumerate(self.bodies) for node in body}

    @cached_property
    def owners(self) -> dict[str, Sources]:
        """The stages that each tensor is made from; a body's tensors are its stage's alone, and the frame is stage 1's."""
        found: dict[str, Sources] = {tensor: frozenset({0}) for tensor in self.graph.inputs}
        for node in self.graph.nodes:
            read = (found.get(tensor, frozenset()) for tensor in node.inputs)
            mine = {self.inside[node.name]} if node.name in self.inside else frozenset().union(*read)
            found.update((tensor, frozenset(mine)) for tensor in node.outputs)
        return found

    @cached_property
    def finish(self) -> tuple[tuple[str, ...], str]:
        """The nodes behind the last fusion, and the tensor they start from."""
        chain: list[str] = []
        tensor = self.output
        while (node := self.graph.maker.get(tensor)) and node.name not in self.inside and node.kind in _FINISHING:
            reads = self.graph.reads(node)
            if len(reads) != 1:
                break
            chain.append(node.name)
            tensor = reads[0]
        return tuple(reversed(chain)), tensor

    @cached_property
    def fused(self) -> dict[Sources, list[Node]]:
        """For each set of sources the nodes that fuse it, smaller sets first."""
        finish, border = self.finish
        found: dict[Sources, list[Node]] = {}
        for node in self.graph.back([border], frozenset())[0]:
            sources = self.owners[node.outputs[0]]
            if len(sources) > 1 and node.name not in finish:
                found.setdefault(sources, []).append(node)
        return dict(sorted(found.items(), key=lambda item: (len(item[0]), sorted(item[0]))))

    @cached_property
    def readers(self) -> dict[str, set[Sources]]:
        """Tensor -> the groups that read it, by their sources, and ``_FINISH``."""
        found: dict[str, set[Sources]] = {self.finish[1]: {_FINISH}}
        for sources, nodes in self.fused.items():
            for tensor in (tensor for node in nodes for tensor in self.graph.reads(node)):
                found.setdefault(tensor, set()).add(sources)
        return found

    @cached_property
    def held(self) -> list[tuple[str, ...]]:
        """For each stage the tensors that groups, finish and clocks read of it."""
        found: list[list[str]] = [[scores] if scores else [] for scores in self.scores]
        for tensor, by in self.readers.items():
            if len(self.owners[tensor]) == 1:
                [stage] = self.owners[tensor]
                found[stage].append(tensor if len(by) > 1 else self._held_for(tensor))
        return [self.graph.ordered(tensors) for tensors in found]

    def _held_for(self, tensor: str) -> str:
        """Return the watched tensor that ``tensor`` only enlarges or crops, or else ``tensor`` before enlargement."""
        small = tensor
        while tensor not in self.scores:
            node = self.graph.maker.get(tensor)
            if node is None or node.name in self.inside or node.kind not in (ENLARGE, CROP):
                return small
            reads = self.graph.reads(node)
            if len(reads) != 1:
                return small
            [tensor] = reads
            small = tensor if node.kind == ENLARGE else small
        return tensor

    def _groups(self) -> tuple[GroupCut, ...]:
        outputs = {
            sources: self.graph.ordered(
                tensor for node in nodes for tensor in node.outputs if self.readers.get(tensor, set()) - {sources}
            )
            for sources, nodes in self.fused.items()
        }
        maker = {tensor: self.names[index] for index, tensors in enumerate(self.held) for tensor in tensors}
        maker |= {tensor: self._name(sources) for sources, tensors in outputs.items() for tensor in tensors}
        found = []
        for sources, tensors in outputs.items():
            nodes, ends = self.graph.back(tensors, maker.keys() - set(tensors))
            name, reads = self._name(sources), tuple(dict.fromkeys(maker[tensor] for tensor in ends))
            found.append(GroupCut(name, tuple(name.split("+")), reads, _names(nodes), ends, tensors))
        return tuple(found)

    def _name(self, sources: Sources) -> str:
        return "+".join(self.names[index] for index in sorted(sources))

    def _stage(self, index: int) -> StageCut:
        trunk, body, held = self.cuts[index], self.bodies[index], self.held[index]
        before = self.cuts[index - 1] if index else self.graph.inputs
        nodes, ends = self.graph.back([*trunk, *held], set(before))
        head = [node for node in nodes if node.name not in self.inside]
        return StageCut(self.names[index], _names(body), _names(head), ends, trunk, held, self.scores[index])


def _names(nodes: Iterable[Node]) -> tuple[str, ...]:
    return tuple(node.name for node in nodes)


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


def _check_names(names: Sequence[str], count: int) -> None:
    """Check that there is one stage name per cut, and that each can be told from a group's name."""
    if len(names) != count:
        raise NetworkError(f"{len(names)} stage names for {count} cuts; give one name per cut.")
    bad = [name for name in names if not name or "+" in name or name in ("finish", "whole")]
    if bad or len(set(names)) != count:
        raise NetworkError(
            f"stage names {_join(names)}: they must be different, without '+', and not 'finish' or 'whole'."
        )


def _check_on_the_way(graph: Graph, cuts: Sequence[Sequence[str]], index: int, nodes: Sequence[Node]) -> None:
    """Check that cut ``index`` is reached from the cut before and from nothing else; ``nodes``: the walk back from it."""
    before = set(cuts[index - 1] if index else graph.inputs)
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


def _check_scores(graph: Graph, name: str, names: Sequence[str], index: int, owners: Sources) -> None:
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


def _check_movable(graph: Graph, passed: Sequence[str]) -> None:
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
