"""Candidates: the places on a network's trunk where few and small tensors pass, and the effect of a cut there."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from clockseg.errors import NetworkError
from clockseg.graph.load import Load, Row
from clockseg.graph.neutral import Graph
from clockseg.graph.places import CHANNELS_FIRST, Grid, grids, places
from clockseg.graph.rule import check_known, divide
from clockseg.graph.split import every_split, rewritten

_BYTES = 4
"""Of a number in a map."""
_WORTH = 0.97
"""The share of work up to which a frame on which only the first stage fires has to come down for a first cut."""
_NEAR = 0.02
"""Shares of work that differ by less count as the same."""
_SOME = 3
"""Cuts before an end that are as good as more."""
_CLOSE, _NARROWER = 0.025, 0.35
"""A place isn't on the trunk if within this share of work another has less than this share of its bytes."""


@dataclass(frozen=True)
class Trunk:
    """All ``places`` to cut a network at, and the ``chain`` of those, by position, that lead to the last of it: the end.

    ``pairs``: rows of two places, by position. ``load``: ``graph`` with every concatenation split, as it will run.
    ``found``: False if there is no place to cut, so that the only place is the output, behind a single stage.
    """

    graph: Graph
    load: Load
    places: tuple[str, ...]
    pairs: Mapping[tuple[int, int], Row]
    grids: Mapping[str, Grid]
    found: bool = True

    @cached_property
    def chain(self) -> tuple[int, ...]:
        """The end, and before it the places from which it spares something to cut there; of close ones the narrower."""
        end = self._end()
        before = [index for index in range(end) if (index, end) in self._sparing]
        return (*(index for index in before if not any(self._wide(index, other) for other in before)), end)

    def bytes(self, index: int) -> int:
        """Return the bytes of a place's tensor as float32."""
        return _BYTES * math.prod(self.graph.shapes[self.places[index]])

    @cached_property
    def _sparing(self) -> dict[tuple[int, int], Row]:
        """The pairs that are worth a first cut."""
        return {ends: row for ends, row in self.pairs.items() if row.running[0] <= _WORTH}

    def _end(self) -> int:
        """Return the last cut: one with a skip for the first if there is any and least to run then; of these a coarse and late one."""
        useful = {ends: row for ends, row in self._sparing.items() if row.reaching[0]} or self._sparing or self.pairs
        if not useful:
            return len(self.places) - 1
        least: dict[int, float] = {}
        for (_, last), row in useful.items():
            least[last] = min(row.running[0], least.get(last, 1.0))
        before = Counter(last for _, last in useful)
        near = [last for last, share in least.items() if share <= min(least.values()) + _NEAR]
        return max(near, key=lambda last: (min(before[last], _SOME), self._stride(last), before[last], last))

    def _stride(self, index: int) -> int:
        """Return the stride of a place's tensor; 0 where it has no positions."""
        grid = self.grids.get(self.places[index])
        return 0 if grid is None else grid.stride

    def _wide(self, index: int, other: int) -> bool:
        """Return True if ``other`` is close by and much narrower."""
        above = self.load.made_by
        close = abs(above[self.places[index]] - above[self.places[other]]) <= _CLOSE
        return close and self.bytes(other) < _NARROWER * self.bytes(index)


def trunk_of(graph: Graph, *, output: str) -> Trunk:
    """Return the trunk of the network that leads to ``output``; NetworkError if that is no tensor of it."""
    load, found_at = split_load(graph, output), grids(graph)
    found = tuple(one for one in places(load, graph, found_at) if accepts(graph, [(one,)], output))
    rows = {ends: load.row((found[ends[0]], found[ends[1]])) for ends in itertools.combinations(range(len(found)), 2)}
    pairs = {ends: row for ends, row in rows.items() if row.follow}
    return Trunk(graph, load, found or (output,), pairs, found_at, found=bool(found))


def split_load(graph: Graph, output: str) -> Load:
    """Return the network as it will run, with every concatenation split."""
    check_known(graph, [[output]], output)
    return Load(rewritten(graph, every_split(graph)), output)


def accepts(graph: Graph, cuts: Sequence[Sequence[str]], output: str) -> bool:
    """Return True if the cut rule divides ``graph`` at ``cuts``."""
    try:
        divide(graph, cuts, output=output)
    except NetworkError:
        return False
    return True


@dataclass(frozen=True)
class Candidate:
    """A place to cut: its tensors with their shapes, and what it would mean.

    ``stride``, ``channels``: of the first tensor; None where its shape doesn't tell. ``bytes``: of all, as float32.
    ``above``: the share (0..1) of the work that makes them, ``seconds_above`` the same of measured time. ``every_frame``:
    the share that runs on a frame on which stage 1 fires alone, with stage 1 up to here and the last stage up to
    ``then``, the end of the trunk; ``skip``: whether what is fresh then reaches the output while the rest holds. For the
    end itself ``then`` is empty, and all runs.

    >>> Candidate(("a",), ((1, 8, 16, 16),), 4, 8, 8192, 0.25, None, 0.3, True, ("b",)).below
    0.75
    """

    tensors: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    stride: int | None
    channels: int | None
    bytes: int
    above: float
    seconds_above: float | None
    every_frame: float
    skip: bool
    then: tuple[str, ...]

    @property
    def below(self) -> float:
        """The share of the work that doesn't go into its tensors."""
        return 1 - self.above


def candidates(graph: Graph, *, output: str, seconds: Mapping[str, float] | None = None) -> tuple[Candidate, ...]:
    """Return the places to cut the network that leads to ``output``, in order from the frame; ``divide`` accepts every one.

    ``graph``: with shapes and work. ``seconds``: of each node, where measured.

    A tensor on the trunk is one that dominates a branch with some work (every way from the frame into it leads through
    the tensor), and round which nothing leads but to a finer stride: the ends of an encoder's blocks, not what is inside
    a residual block. Of neighbours with less than a percent of the work between them the smallest counts.

    >>> from clockseg.graph.neutral import ENLARGE, Node
    >>> up = Node("u", ("b",), ("u",), ENLARGE, 1)
    >>> nodes = (Node("a", ("x",), ("a",)), Node("b", ("a",), ("b",)), up, Node("y", ("a", "u"), ("y",)))
    >>> shapes = {"x": (1, 3, 64, 64), "a": (1, 8, 32, 32), "b": (1, 8, 16, 16), "u": (1, 8, 32, 32), "y": (1, 8, 32, 32)}
    >>> net = Graph(nodes, ("x",), shapes=shapes, work={"a": 1.0, "b": 2.0, "y": 1.0})
    >>> found = candidates(net, output="y")
    >>> [(one.tensors, one.above, one.every_frame, one.then) for one in found]
    [(('a',), 0.25, 0.5, ('b',)), (('b',), 0.75, 1.0, ())]
    """
    trunk = trunk_of(graph, output=output)
    timed = None if seconds is None else Load(replace(graph, work=seconds), output)
    return tuple(_candidate(trunk, index, timed) for index in trunk.chain)


def _candidate(trunk: Trunk, index: int, timed: Load | None) -> Candidate:
    tensor, end = trunk.places[index], trunk.chain[-1]
    row, shape, grid = trunk.pairs.get((index, end)), trunk.graph.shapes[tensor], trunk.grids.get(tensor)
    channels = None if grid is None or len(shape) not in (3, 4) else shape[1 if grid.axes == CHANNELS_FIRST else -1]
    return Candidate(
        (tensor,),
        (shape,),
        None if grid is None else grid.stride,
        channels,
        trunk.bytes(index),
        trunk.load.made_by[tensor],
        None if timed is None else timed.made_by[tensor],
        1.0 if row is None else row.running[0],
        row is not None and row.reaching[0],
        () if row is None else (trunk.places[end],),
    )
