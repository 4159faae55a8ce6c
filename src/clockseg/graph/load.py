"""The share of a network's work that runs on each kind of frame, for any cuts.

The nodes that the output needs are numbered in topological order, the frame first, and sets of them are the bits of a whole
number: quick enough to try hundreds of cuts.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from clockseg.graph.neutral import Graph, Node

FRAME = 0
"""The number of the node that makes the frame."""


class Row(NamedTuple):
    """A row of cuts, at a tensor each, with shares (0..1) of the work.

    ``follow``: True if each cut dominates the next, so that a stage reads nothing else, and the output is made from the last;
    the rest is of use only then. ``running``: the share that runs on a frame on which the first, the first two, .. stages fire;
    without all. ``stages``: the share of each stage alone, of what is made from it and no other. ``reaching``: for each stage,
    True if what it makes reaches the output while later stages hold.
    """

    tensors: tuple[str, ...]
    follow: bool
    running: tuple[float, ...]
    stages: tuple[float, ...]
    reaching: tuple[bool, ...]

    @property
    def longest(self) -> float:
        """The share of the longest stage, with what is fused after it."""
        return max(self.stages) + 1 - sum(self.stages)


@dataclass(frozen=True)
class Load:
    """The work of a graph's nodes (any unit), as far as ``output`` needs it.

    >>> nodes = (Node("a", ("x",), ("a",)), Node("b", ("a",), ("b",)), Node("y", ("a", "b"), ("y",)))
    >>> load = Load(Graph(nodes, ("x",), work={"a": 1.0, "b": 6.0, "y": 1.0}), "y")
    >>> load.made_by["b"]
    0.875
    """

    graph: Graph
    output: str

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The frame, as a node that reads nothing, and the nodes that the output depends on, in topological order."""
        return (Node("", (), self.graph.inputs), *self.graph.back([self.output], frozenset())[0])

    @cached_property
    def maker(self) -> dict[str, int]:
        """Tensor -> the number of the node that makes it."""
        return {tensor: index for index, node in enumerate(self.nodes) for tensor in node.outputs}

    @cached_property
    def reads(self) -> list[tuple[int, ...]]:
        """For each node, the numbers of those it reads."""
        return [tuple({self.maker[name]: None for name in node.inputs if name in self.maker}) for node in self.nodes]

    @cached_property
    def above(self) -> list[int]:
        """For each node, the set of those that it needs, itself among them."""
        return self._gathered(operator.or_)

    @cached_property
    def dominators(self) -> list[int]:
        """For each node, the set of those through which every path from the frame to it leads, itself among them."""
        return self._gathered(operator.and_)

    def _gathered(self, both: Callable[[int, int], int]) -> list[int]:
        found: list[int] = []
        for index, before in enumerate(self.reads):
            found.append(1 << index | functools.reduce(both, [found[one] for one in before] or [0]))
        return found

    @cached_property
    def parents(self) -> list[int]:
        """For each node, the nearest other one that dominates it; -1 for the frame."""
        return [(through ^ 1 << index).bit_length() - 1 for index, through in enumerate(self.dominators)]

    @cached_property
    def below(self) -> list[float]:
        """For each node, the share of work that it dominates, its own included."""
        found = [*self.costs]
        for index in range(len(found) - 1, FRAME, -1):
            found[self.parents[index]] += found[index]
        return found

    @cached_property
    def costs(self) -> list[float]:
        """For each node, its share of all work; where there is no work at all, every node has as much."""
        work = [float(self.graph.work.get(node.name, 0.0)) for node in self.nodes[1:]]
        total = sum(work)
        return [0.0, *([one / total for one in work] if total else [1 / len(work)] * len(work))]

    @cached_property
    def made_by(self) -> dict[str, float]:
        """Tensor -> the share of all work that makes it."""
        shares = [self.share(needs) for needs in self.above]
        return {tensor: shares[node] for tensor, node in self.maker.items()}

    def share(self, nodes: int) -> float:
        """Return the share of all work that a set of nodes has."""
        return sum(self.costs[node] for node in members(nodes))

    def row(self, tensors: tuple[str, ...]) -> Row:
        """Return the row of cuts at ``tensors``, in order.

        >>> nodes = (Node("a", ("x",), ("a",)), Node("b", ("a",), ("b",)), Node("y", ("a", "b"), ("y",)))
        >>> Load(Graph(nodes, ("x",), work={"a": 1.0, "b": 6.0, "y": 1.0}), "y").row(("a", "b"))
        Row(tensors=('a', 'b'), follow=True, running=(0.25,), stages=(0.125, 0.75), reaching=(True, True))
        """
        ends, (behind, output) = [self.maker[tensor] for tensor in tensors], self.behind(tensors[-1])
        dominate = (then != one and self.dominators[then] >> one & 1 for one, then in itertools.pairwise(ends))
        bodies = [then & ~one for one, then in itertools.pairwise([0, *(self.above[end] for end in ends)])]
        reaching = tuple(bool(output & body) for body in bodies)
        # Set of stages -> the share of work that is made from these.
        made = {1 << index: self.share(body) for index, body in enumerate(bodies)}
        for nodes, share in behind.items():
            stages = sum(1 << index for index, body in enumerate(bodies) if nodes & body)
            made[stages] = made.get(stages, 0.0) + share
        fired = [(1 << count) - 1 for count in range(1, len(tensors))]
        running = tuple(sum(share for stages, share in made.items() if stages & first) for first in fired)
        alone = tuple(made[1 << index] for index in range(len(tensors)))
        return Row(tensors, all(dominate) and reaching[-1], running, alone, reaching)

    @cached_property
    def behind(self) -> Callable[[str], tuple[dict[int, float], int]]:
        """Tensor of the last cut -> set of nodes -> the share of work behind the cut that is made from it; the output's set.

        The nodes are those up to the cut that are read behind it, directly or through others behind.
        """
        return functools.cache(self._behind)

    def _behind(self, tensor: str) -> tuple[dict[int, float], int]:
        inside, made, shares = self.above[self.maker[tensor]], list[int](), dict[int, float]()
        for index, before in enumerate(self.reads):
            if inside >> index & 1:
                made.append(1 << index)
                continue
            made.append(functools.reduce(operator.or_, (made[one] for one in before)))
            shares[made[-1]] = shares.get(made[-1], 0.0) + self.costs[index]
        return shares, made[self.maker[self.output]]


def members(nodes: int) -> Iterator[int]:
    """Yield the members of a set of nodes.

    >>> [*members(0b1101)]
    [0, 2, 3]
    """
    return (index for index, bit in enumerate(reversed(f"{nodes:b}")) if bit == "1")
