"""The share of a network's work that runs on each kind of frame, for any cuts.

The nodes that the output needs are numbered in topological order, sets of them are the bits of a whole number, and one
walk tells the stages that each node is made from: quick enough to try hundreds of cuts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from clockseg.graph.neutral import Graph, Node

FRAME = -1
"""The number of what makes the frame."""
Cut = tuple[str, ...]


@dataclass(frozen=True)
class Load:
    """A graph with the work of each node (any unit), as far as ``output`` needs it.

    >>> net = Graph((Node("a", ("x",), ("a",)), Node("b", ("a",), ("b",)), Node("y", ("a", "b"), ("y",))), ("x",))
    >>> load = Load(net, {"a": 1.0, "b": 6.0, "y": 1.0}, "y")
    >>> load.owners([("a",), ("b",)]), load.owners([("b",), ("y",)])
    ([1, 2, 3], None)
    >>> load.touched([1, 2, 3], fired=1)
    0.25
    """

    graph: Graph
    work: Mapping[str, float]
    output: str

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes that the output depends on, in topological order."""
        return self.graph.back([self.output], frozenset())[0]

    @cached_property
    def maker(self) -> dict[str, int]:
        """Tensor -> the number of the node that makes it."""
        made = {tensor: index for index, node in enumerate(self.nodes) for tensor in node.outputs}
        return {**dict.fromkeys(self.graph.inputs, FRAME), **made}

    @cached_property
    def reads(self) -> list[tuple[int, ...]]:
        """For each node, the numbers of those it reads."""
        maker = self.maker
        return [tuple({maker[name]: None for name in node.inputs if name in maker}) for node in self.nodes]

    @cached_property
    def readers(self) -> list[list[int]]:
        """For each node, the numbers of those that read it."""
        found: list[list[int]] = [[] for _ in self.nodes]
        for index, before in enumerate(self.reads):
            for one in before:
                if one != FRAME:
                    found[one].append(index)
        return found

    @cached_property
    def above(self) -> list[int]:
        """For each node, the set of those that it needs, itself among them."""
        found: list[int] = []
        for index, before in enumerate(self.reads):
            needs = 1 << index
            for one in before:
                if one != FRAME:
                    needs |= found[one]
            found.append(needs)
        return found

    @cached_property
    def costs(self) -> list[float]:
        """For each node, its share of all work; where there is no work at all, every node has as much."""
        work = [float(self.work.get(node.name, 0.0)) for node in self.nodes]
        total = sum(work)
        return [one / total for one in work] if total else [1 / len(work)] * len(work)

    def needs(self, cut: Iterable[str]) -> int:
        """Return the set of nodes that ``cut`` needs."""
        found = 0
        for tensor in cut:
            found |= self.above[self.maker[tensor]]
        return found

    def share(self, nodes: int) -> float:
        """Return the share of all work that a set of nodes has."""
        return sum(cost for index, cost in enumerate(self.costs) if nodes >> index & 1)

    def owners(self, cuts: Sequence[Cut]) -> list[int] | None:
        """Return for each node the stages it is made from, as bits (1: the first); None if the cuts don't follow each other."""
        stage = self._stages(cuts)
        ends = [{self.maker[tensor] for tensor in cut} for cut in cuts]
        found: list[int] = []
        for index, before in enumerate(self.reads):
            mine = stage[index]
            if mine < 0:
                made = 0
                for one in before:
                    made |= 1 if one == FRAME else found[one]
                found.append(made)
                continue
            if mine and not all(one != FRAME and (stage[one] == mine or one in ends[mine - 1]) for one in before):
                return None
            found.append(1 << mine)
        return found if self._follow(ends, stage) else None

    def _follow(self, ends: Sequence[set[int]], stage: Sequence[int]) -> bool:
        """Return True if every cut has a tensor made in its stage's body, and all others are passed on from the cut before."""
        return all(
            any(stage[one] == number for one in cut)
            and all(stage[one] == number or (number and one in ends[number - 1]) for one in cut)
            for number, cut in enumerate(ends)
        )

    def _stages(self, cuts: Sequence[Cut]) -> list[int]:
        """Return for each node the stage in whose body it is, or -1."""
        stage = [-1] * len(self.nodes)
        before = 0
        for number, cut in enumerate(cuts):
            needs = self.needs(cut)
            inside = needs & ~before
            before |= needs
            for index in range(len(stage)):
                if inside >> index & 1:
                    stage[index] = number
        return stage

    def touched(self, owners: Sequence[int], fired: int) -> float:
        """Return the share of work of what is made from any of the first ``fired`` stages."""
        mask = (1 << fired) - 1
        return sum(cost for cost, made in zip(self.costs, owners, strict=True) if made & mask)

    def reaching(self, owners: Sequence[int]) -> int:
        """Return the stages that the output is made from, as bits."""
        return owners[self.maker[self.output]]


@dataclass(frozen=True)
class Dominators:
    """Node ``a`` dominates ``b`` if every way from the frame to ``b`` leads through ``a``: a tree, the frame its root.

    >>> from clockseg.graph.neutral import Graph, Node
    >>> net = Graph((Node("a", ("x",), ("a",)), Node("b", ("a",), ("b",)), Node("y", ("a", "b"), ("y",))), ("x",))
    >>> Dominators(Load(net, {}, "y")).parents
    [-1, 0, 0]
    """

    load: Load

    @cached_property
    def parents(self) -> list[int]:
        """For each node, the nearest that dominates it, or FRAME."""
        parents: list[int] = []
        depths: list[int] = []
        for before in self.load.reads:
            parent = before[0] if before else FRAME
            for other in before[1:]:
                parent = _meeting(parent, other, parents, depths)
            parents.append(parent)
            depths.append(0 if parent == FRAME else depths[parent] + 1)
        return parents

    @cached_property
    def below(self) -> list[float]:
        """For each node, the share of work that it dominates, its own included."""
        found = list(self.load.costs)
        for index in range(len(found) - 1, -1, -1):
            if (parent := self.parents[index]) != FRAME:
                found[parent] += found[index]
        return found

    @cached_property
    def joins(self) -> list[set[int]]:
        """For each node, those that read what it dominates, or it, and that it doesn't dominate: where ways round it end."""
        found: list[set[int]] = [set() for _ in self.parents]
        for index, before in enumerate(self.load.reads):
            for one in before:
                while one not in (FRAME, self.parents[index]):
                    found[one].add(index)
                    one = self.parents[one]
        return found


def _meeting(first: int, second: int, parents: Sequence[int], depths: Sequence[int]) -> int:
    while first != second:
        if first == FRAME or second == FRAME:
            return FRAME
        if depths[first] >= depths[second]:
            first = parents[first]
        else:
            second = parents[second]
    return first


def narrowest(load: Load, node: int, end: int, *, most: int) -> tuple[tuple[int, ...], ...]:
    """Return the smallest sets of nodes, ``node`` among them, through which every path from the frame to its readers leads.

    ``end``: only nodes that it needs count. Of the sets of the smallest size, at most ``most``, these are the one nearest to
    the frame and the one nearest to the readers; they may be the same. Empty if a set would be larger, or nothing up to
    ``end`` reads ``node``.

    Found as the largest number of paths that share no node (Menger): each search adds a path, and the nodes that the last
    search reached are those before the cut.
    """
    within = load.above[end]
    sinks = sum(1 << one for one in _members(within) if one != node and load.above[one] >> node & 1)
    if not sinks or any(FRAME in load.reads[one] for one in _members(sinks)):
        return ()
    flow = _Flow(load, within, load.above[node], sinks)
    for _ in range(most + 1):
        before = flow.search()
        if before is not None:
            behind = flow.reaching()
            early = (one for one in _members(within) if 2 * one in before and 2 * one + 1 not in before)
            late = (one for one in _members(within) if 2 * one + 1 in behind and 2 * one not in behind)
            return tuple(dict.fromkeys([tuple(early), tuple(late)]))
    return ()


def _members(nodes: int) -> Iterator[int]:
    return (index for index in range(nodes.bit_length()) if nodes >> index & 1)


class _Flow:
    """Paths from the frame and ``source`` to ``sinks`` that share no node; a node is an entry (2n) and an exit (2n + 1)."""

    def __init__(self, load: Load, within: int, source: int, sinks: int) -> None:
        self.load, self.within, self.source, self.sinks = load, within, source, sinks
        self.used: set[tuple[int, int]] = set()
        """Edges on paths."""

    def search(self) -> set[int] | None:
        """Add a path and return None; if there is no further one, return everything that one could reach."""
        starts = [one for one in _members(self.within) if self.source >> one & 1 or FRAME in self.load.reads[one]]
        came: dict[int, int | None] = {2 * one: None for one in starts}
        todo = deque(came)
        while todo:
            here = todo.popleft()
            for there in self._steps(here):
                if there in came:
                    continue
                came[there] = here
                if there % 2 == 0 and self.sinks >> (there // 2) & 1:
                    self._take(came, there)
                    return None
                todo.append(there)
        return set(came)

    def reaching(self) -> set[int]:
        """Return everything from which a further path could reach a sink."""
        back: dict[int, list[int]] = {}
        for here in (side for one in _members(self.within) for side in (2 * one, 2 * one + 1)):
            for there in self._steps(here):
                back.setdefault(there, []).append(here)
        found = {2 * one for one in _members(self.sinks)}
        todo = [*found]
        while todo:
            new = set(back.get(todo.pop(), ())) - found
            found |= new
            todo += new
        return found

    def _steps(self, here: int) -> Iterator[int]:
        node, leaving = divmod(here, 2)
        if leaving:
            yield from (2 * one for one in self.load.readers[node] if self.within >> one & 1)
            if (here - 1, here) in self.used:
                yield here - 1
            return
        if (here, here + 1) not in self.used:
            yield here + 1
        yield from (2 * one + 1 for one in self.load.reads[node] if one != FRAME and (2 * one + 1, here) in self.used)

    def _take(self, came: dict[int, int | None], there: int) -> None:
        while (here := came[there]) is not None:
            if (there, here) in self.used:
                self.used.discard((there, here))
            else:
                self.used.add((here, there))
            there = here
