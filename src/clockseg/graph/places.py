"""Places to cut a network at, and the share of its work that runs on each kind of frame, for any cuts.

The nodes that the output needs are numbered in topological order, the frame first, and sets of them are the bits of a whole
number: quick enough to try hundreds of cuts. A place is a tensor that dominates a branch.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from clockseg.graph.neutral import ENLARGE, REARRANGE, Graph, Node

_FRAME = 0
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
    """The work of a graph's nodes (any unit), as far as ``output`` needs it."""

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
        for index in range(len(found) - 1, _FRAME, -1):
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
        return sum(self.costs[node] for node in _members(nodes))

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


def _members(nodes: int) -> Iterator[int]:
    """Return the numbers of the bits that are set."""
    return (index for index, bit in enumerate(reversed(f"{nodes:b}")) if bit == "1")


_EXTRA_TOKENS = 5
"""Tokens that stand before those of the picture: a class token, and registers."""
Shape = tuple[int, ...]
CHANNELS_FIRST, CHANNELS_LAST = (2, 3), (1, 2)
"""The axes of rows and columns of a map [1, c, h, w], and of one [1, h, w, c]."""


@dataclass(frozen=True)
class Grid:
    """The positions of a tensor: its stride in pixels of the frame, its rows and columns, and the axes they lie along.

    ``axes``: (2, 3) for a map [1, c, h, w], (1, 2) for [1, h, w, c]; a single axis for tokens, (1,) for [1, n, c].
    """

    stride: int
    rows: int
    columns: int
    axes: tuple[int, ...] = CHANNELS_FIRST


def grids(graph: Graph) -> dict[str, Grid]:
    """Return the grid of each tensor in which the frame's positions can still be seen; the frame is [1, 3, h, w].

    Maps are [1, c, h, w] or [1, h, w, c], tokens [1, n, c] or the like. Only a node that rearranges, or whose output has
    another rank, moves positions to other axes: at some sizes a map in one layout has the shape of another map in the
    other. A change of size by a whole factor is one of stride; any other is padding or cropping.
    """
    shapes = graph.shapes
    found = {name: Grid(1, shapes[name][-2], shapes[name][-1]) for name in graph.inputs}
    for node in graph.nodes:
        for tensor in node.outputs:
            grid = _grid(node, shapes.get(tensor, ()), shapes, found)
            if grid is not None:
                found[tensor] = grid
    return found


def _grid(node: Node, shape: Shape, shapes: Mapping[str, Shape], known: Mapping[str, Grid]) -> Grid | None:
    """Return the grid of one output of ``node``, from those of its inputs."""
    before = [(known[name], len(shapes[name])) for name in node.inputs if name in known]
    alike = [grid for grid, rank in before if node.kind != REARRANGE and rank == len(shape)]
    for grid in alike:
        if _holds(shape, grid.axes, grid):
            return grid
    for grid in alike:
        if len(grid.axes) == 2 and (made := _resized(grid, *(shape[axis] for axis in grid.axes))):
            return made
    for grid, rank in before:
        for axes in _layouts(shape, grid, rank):
            if _holds(shape, axes, grid):
                return replace(grid, axes=axes)
    return None


def _layouts(shape: Shape, grid: Grid, rank: int) -> list[tuple[int, ...]]:
    """Return the axes along which positions may lie, the likeliest first: a permutation moves them, a reshape doesn't."""
    maps: list[tuple[int, ...]] = [CHANNELS_FIRST, CHANNELS_LAST] if len(shape) == 4 else []
    permuted = rank == len(shape)
    return sorted(
        [*maps, *((axis,) for axis in range(1, len(shape)))],
        key=lambda axes: (-len(axes), axes == grid.axes if permuted else axes[0] != grid.axes[0]),
    )


def _holds(shape: Shape, axes: tuple[int, ...], grid: Grid) -> bool:
    """Return True if a tensor of ``shape`` has the positions of ``grid`` along ``axes``; tokens may have a few more."""
    sides = tuple(shape[axis] for axis in axes)
    if len(sides) == 2:
        return sides == (grid.rows, grid.columns)
    return grid.rows * grid.columns <= sides[0] <= grid.rows * grid.columns + _EXTRA_TOKENS


def _resized(grid: Grid, rows: int, columns: int) -> Grid | None:
    if rows * columns == 1:
        return None
    smaller = round(grid.rows / rows)
    if smaller > 1 and _fits(rows, grid.rows, smaller) and _fits(columns, grid.columns, smaller):
        return Grid(grid.stride * smaller, rows, columns, grid.axes)
    larger = round(rows / grid.rows)
    if larger > 1 and _fits(grid.rows, rows, larger) and _fits(grid.columns, columns, larger):
        return Grid(max(1, grid.stride // larger), rows, columns, grid.axes)
    near = 0.5 < rows / grid.rows < 2 and 0.5 < columns / grid.columns < 2
    return Grid(grid.stride, rows, columns, grid.axes) if near else None


def _fits(size: int, whole: int, step: int) -> bool:
    """Return True if ``size`` is ``whole / step``, rounded either way, plus or minus one for windows at the border."""
    return abs(size - whole / step) <= 1


MOST = 32
"""Places that are told at most; the more there are, the more work lies between two."""
_BRANCH = 0.03
"""Share of work that a branch needs to be looked at."""
_STEP = 0.01
"""Share of work up to which neighbours on the trunk count as one place."""


def places(load: Load, graph: Graph, found_at: Mapping[str, Grid]) -> tuple[str, ...]:
    """Return the tensors to cut the network of ``load`` at, in order from the frame; only those of ``graph``, its original.

    ``found_at``: the tensors' ``grids``.
    """
    found = _Places(load, graph, found_at)
    step = _STEP
    while len(nodes := found.apart(step)) > MOST:
        step *= 1.5
    return tuple(load.nodes[node].outputs[0] for node in sorted(nodes, key=lambda node: (found.above(node), node)))


@dataclass(frozen=True)
class _Places:
    load: Load
    graph: Graph
    grids: Mapping[str, Grid]

    def above(self, node: int) -> float:
        """Return the share of work that makes the tensor of ``node``; 0 for the frame."""
        return self.load.made_by[self._tensor(node)]

    @cached_property
    def _single(self) -> list[int]:
        """The nodes that are worth a cut, on branches with some work."""
        load = self.load
        heavy = {load.parents[node] for node in self._open if load.below[node] >= _BRANCH}
        alive = [_FRAME]
        for node in self._open:
            # What a branch ends in has little below it: it counts if nothing beside it has more.
            if load.parents[node] in alive and (load.below[node] >= _BRANCH or load.parents[node] not in heavy):
                alive.append(node)
        return [node for node in alive if self.above(node) >= _STEP and self._is_one(node)]

    def _is_one(self, node: int) -> bool:
        """Return True if ``node`` makes a single tensor, and one of the original network."""
        return len(self.load.nodes[node].outputs) == 1 and self._tensor(node) in self.graph.maker

    @cached_property
    def _open(self) -> list[int]:
        """The nodes that no path bypasses, or whose results are enlarged before they meet a path that does.

        So it is with an encoder's ends, and not inside a residual block or an attention.
        """
        load = self.load
        found = load.dominators[load.maker[load.output]]
        for node, parent in enumerate(load.parents):
            if self._enlarges(node):
                found |= load.dominators[parent]
        return [node for node in _members(found) if node != _FRAME]

    def _enlarges(self, node: int) -> bool:
        """Return True for a node that makes a finer map than all that it reads."""
        before = [self.grids.get(self._tensor(one)) for one in self.load.reads[node] if one != _FRAME]
        made = self.grids.get(self._tensor(node))
        finer = (
            made is not None and bool(before) and all(grid is not None and grid.stride > made.stride for grid in before)
        )
        return finer or self.load.nodes[node].kind == ENLARGE

    def apart(self, step: float) -> list[int]:
        """Return the best single node of each row of neighbours with less than ``step`` of the work between first and last."""
        load, row_of = self.load, dict[int, list[int]]()
        for node in self._single:
            before = max((other for other in row_of if load.dominators[node] >> other & 1), default=_FRAME)
            row = row_of.get(before, [])
            # On a side branch a node dominates little of the work that the one before it dominates.
            beside = load.below[before] - load.costs[before] - load.below[node]
            if not row or self.above(node) - self.above(row[0]) >= step or beside >= step:
                row = []
            row.append(node)
            row_of[node] = row
        rows = {id(row): row for row in row_of.values()}
        return [min(row, key=self._rank) for row in rows.values()]

    def _rank(self, node: int) -> tuple[bool, int, bool, float, int]:
        """Return a sort key: tensors with positions first, then small ones, maps before tokens, little work, and late nodes."""
        grid = self.grids.get(self._tensor(node))
        first = grid is not None and grid.axes == CHANNELS_FIRST
        size = math.prod(self.graph.shapes[self._tensor(node)])
        return grid is None, size, not first, round(self.above(node), 4), -node

    def _tensor(self, node: int) -> str:
        return self.load.nodes[node].outputs[0]
