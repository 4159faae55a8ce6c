"""Through which single nodes every way from the frame leads, and through which few."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from clockseg.graph.load import FRAME, Load


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


def narrowest(load: Load, node: int, end: int, *, most: int) -> tuple[int, ...] | None:
    """The fewest nodes, at most ``most``, through which every way leads from what ``node`` needs to what it gives, up to
    ``end``; ``node`` itself among them. None if there are more, or no way leads there.

    Found as the most ways that share no node (Menger): each search adds one, and what the last one reached is cut off.
    """
    within = load.above[end]
    source = load.above[node]
    sinks = _after(load, node, within)
    if not sinks:
        return None
    flow = _Flow(load, within, source, sinks)
    for _ in range(most + 1):
        reached = flow.search()
        if reached is not None:
            return tuple(one for one in sorted({key >> 1 for key in reached}) if one * 2 + 1 not in reached)
    return None


def _after(load: Load, node: int, within: int) -> int:
    """The set of what needs ``node``, itself left out."""
    found = 1 << node
    for index in range(node + 1, len(load.nodes)):
        if within >> index & 1 and any(one != FRAME and found >> one & 1 for one in load.reads[index]):
            found |= 1 << index
    return found & ~(1 << node)


class _Flow:
    """Ways from ``source`` to ``sinks`` that share no node; each node is an entry (2n) and an exit (2n + 1)."""

    def __init__(self, load: Load, within: int, source: int, sinks: int) -> None:
        self.load, self.within, self.source, self.sinks = load, within, source, sinks
        self.used: set[tuple[int, int]] = set()
        """Edges that ways take."""

    def search(self) -> set[int] | None:
        """Add a way; None if that was done, else everything that a further way could reach."""
        came: dict[int, int | None] = {2 * one: None for one in range(len(self.load.nodes)) if self.source >> one & 1}
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
