"""Candidates for cuts, the places on a network's trunk where few and small tensors pass, and the choice of a row of them.

The choice is the row that leaves least to run on a frame on which only the first stage fires.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from clockseg.errors import NetworkError, UsageError
from clockseg.graph.neutral import Graph
from clockseg.graph.places import CHANNELS_FIRST, Grid, Load, Row, grids, places
from clockseg.graph.rule import check_known, divide
from clockseg.graph.split import every_split, rewritten, splits

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
class _Trunk:
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


def _trunk_of(graph: Graph, *, output: str) -> _Trunk:
    """Return the trunk of the network that leads to ``output``; NetworkError if that is no tensor of it."""
    load, found_at = _split_load(graph, output), grids(graph)
    found = tuple(one for one in places(load, graph, found_at) if _accepts(graph, [(one,)], output))
    rows = {ends: load.row((found[ends[0]], found[ends[1]])) for ends in itertools.combinations(range(len(found)), 2)}
    pairs = {ends: row for ends, row in rows.items() if row.follow}
    return _Trunk(graph, load, found or (output,), pairs, found_at, found=bool(found))


def _split_load(graph: Graph, output: str) -> Load:
    """Return the network as it will run, with every concatenation split."""
    check_known(graph, [[output]], output)
    return Load(rewritten(graph, every_split(graph)), output)


def _accepts(graph: Graph, cuts: Sequence[Sequence[str]], output: str) -> bool:
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


def candidates(graph: Graph, *, output: str, seconds: Mapping[str, float] | None = None) -> tuple[Candidate, ...]:
    """Return the places to cut the network that leads to ``output``, in order from the frame; ``divide`` accepts every one.

    ``graph``: with shapes and work. ``seconds``: of each node, where measured.

    A tensor on the trunk is one that dominates a branch with some work (every way from the frame into it leads through
    the tensor), and round which nothing leads but to a finer stride: the ends of an encoder's blocks, not what is inside
    a residual block. Of neighbours with less than a percent of the work between them the smallest counts.
    """
    trunk = _trunk_of(graph, output=output)
    timed = None if seconds is None else Load(replace(graph, work=seconds), output)
    found, end = [], trunk.chain[-1]
    for index in trunk.chain:
        tensor, row = trunk.places[index], trunk.pairs.get((index, end))
        shape, grid = graph.shapes[tensor], trunk.grids.get(tensor)
        channels = None if grid is None or len(shape) not in (3, 4) else shape[1 if grid.axes == CHANNELS_FIRST else -1]
        one = Candidate(
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
        found.append(one)
    return tuple(found)


_SPARED = 0.03
"""Share of work that has to rest on a frame on which the first stage fires alone for its skip to be worth one."""
_TRIES, _BEAM = 600, 20
"""Rows of cuts up to which all are tried; beyond, each of so many of the best shorter rows with one cut more."""
_SAME = 0.01
"""Shares of work that differ by less count as the same."""
_NOISE = 0.05
"""The same of measured time: so far shares of it may be apart from one run to the next."""
_EVEN = 0.05
"""The same of the longest stage's share of work."""


@dataclass(frozen=True)
class Choice:
    """Cuts, and shares (0..1) of the work: of each stage, of what is ``shared`` (fused from several stages, and finish).

    ``every_frame``: the share that runs on a frame on which stage 1 fires alone: it, and what is fused from it.
    ``reaching``: for each stage, whether what it makes reaches the output while later stages hold. ``note``: what was
    asked for and can't be had. ``timed``: the work is the nodes' time.
    """

    cuts: tuple[tuple[str, ...], ...]
    every_frame: float
    stages: tuple[float, ...]
    shared: float
    reaching: tuple[bool, ...]
    note: str = ""
    timed: bool = False

    @property
    def work(self) -> str:
        """The whole that ``every_frame`` is a share of, as a phrase."""
        return "the uncut network's time, measured node by node" if self.timed else "the multiply-adds"


def choose(graph: Graph, *, output: str, seconds: Mapping[str, float] | None = None, stages: int = 3) -> Choice:
    """Return the best ``stages`` cuts of the network that leads to ``output``, from ``candidates``.

    Of all rows of candidates that follow each other (of many, those that come of the best shorter ones), it is the one with
    the least work on a frame on which only the first stage fires, its result still reaching the output; of rows within a
    percent of that, the one in which most stages reach the output, then the one with the least work on frames on which some
    of the later ones fire too. With ``seconds``, what each node takes as measured, the shares told are of these, and rows are
    chosen among those that are within 5 points of the least time: of these by the graph's work, so that another measurement
    seldom gives another choice.

    A network without skips has no fresh part to fuse, and gets stages of even work. With fewer candidates than ``stages``
    there are fewer stages. ``note`` tells either.
    """
    if stages < 1:
        raise UsageError(f"{stages} stages; give at least 1.")
    trunk, told = _trunk_of(graph, output=output), graph if seconds is None else replace(graph, work=seconds)
    timed = None if seconds is None else _split_load(told, output)

    def judged(rows: Iterable[tuple[str, ...]]) -> Iterator[Choice]:
        """Yield the choices of cuts at these tensors as the network will be cut, but for those that the cut rule refuses."""
        for tensors in rows:
            cuts = tuple((tensor,) for tensor in tensors)
            cut = rewritten(told, splits(graph, cuts, output=output))
            if _accepts(cut, cuts, output) and (row := Load(cut, output).row(tensors)).follow:
                every_frame = row.running[0] if row.running else 1.0
                shared = max(0.0, 1 - sum(row.stages))
                yield Choice(cuts, every_frame, row.stages, shared, row.reaching, timed=timed is not None)

    rows = [row.tensors for row in _rows(trunk, timed, min(stages, len(trunk.places)))]
    chosen, note = next(judged([*rows, (output,)]), None), ""
    if chosen is None:
        raise NetworkError(f"the network can't be cut at its output {output!r} either; name the cuts yourself.")
    if not chosen.reaching[0]:
        shorter = (_rows(trunk, timed, count) for count in range(len(chosen.cuts) - 1, 1, -1))
        others = judged(row.tensors for rows in shorter for row in rows if _skips(row))
        note = _without_skip(chosen, next((other for other in others if other.reaching[0]), None))
    return replace(chosen, note=f"{_fewer(trunk, len(chosen.cuts), stages)}{note}".strip())


def _without_skip(chosen: Choice, other: Choice | None) -> str:
    """Return the note on a choice whose first stage reaches the output only through a later one; ``other`` has a skip from it."""
    first = chosen.reaching.index(True) + 1
    note = f"no skip from stage 1 bypasses stage {first}, so that the output does not change until stage {first} fires"
    if other is None:
        return note
    return f"{note}; there is one with --at {','.join(tensor for [tensor] in other.cuts)}"


def _fewer(trunk: _Trunk, found: int, stages: int) -> str:
    """Return the reason for fewer stages than were asked for, as a sentence; empty if there are as many."""
    if found == stages:
        return ""
    if not trunk.found:
        why = "no tensor was found between the frame and the output through which all that follows is computed"
    elif len(trunk.chain) <= found:
        why = f"there {'is' if found == 1 else 'are'} only {found} place{'s' * (found > 1)} to cut at"
    else:
        why = "no longer row of the places that were tried can be cut"
    return f"only {found} of {stages} stages: {why}. "


def _rows(trunk: _Trunk, timed: Load | None, stages: int) -> list[Row]:
    """Return rows of ``stages`` cuts, or as many as follow each other, that end at the trunk's end; the best first."""
    *before, end = trunk.chain
    if math.comb(len(before), stages - 1) <= _TRIES:
        chosen = set(itertools.combinations(before, stages - 1))
    else:
        numbers = {tensor: index for index, tensor in enumerate(trunk.places)}
        shorter = [{numbers[one] for one in row.tensors} - {end} for row in _rows(trunk, timed, stages - 1)[:_BEAM]]
        chosen = {tuple(sorted({*row, new})) for row in shorter for new in {*before} - row}
    made = (trunk.load.row(tuple(trunk.places[index] for index in (*row, end))) for row in sorted(chosen))
    rows = [row for row in made if row.follow]
    return _ranked(rows, timed) if rows else _rows(trunk, timed, stages - 1)


def _ranked(rows: list[Row], timed: Load | None) -> list[Row]:
    """Return ``rows``, the best first; empty stages last of all.

    Rows with a skip by the work on a frame on which the first stage fires alone; without one by the longest stage.
    """
    useful = _filled([row for row in rows if _skips(row)])
    if useful:
        return _quickest(useful, timed)
    near, others = _near(_filled(rows), timed, lambda row: row.longest)
    return [*sorted(near, key=lambda row: row.longest), *others]


def _skips(row: Row) -> bool:
    """Return True if the output uses a fresh first stage while the others hold, and this spares work."""
    return bool(row.running) and row.reaching[0] and row.running[0] <= 1 - _SPARED


def _filled(rows: list[Row]) -> list[Row]:
    """Return the rows in which every stage has some work, if there are any; else all."""
    return [row for row in rows if min(row.stages) >= _SAME] or rows


def _quickest(rows: list[Row], timed: Load | None) -> list[Row]:
    """Sort by the work on a frame on which the first stage fires alone; rows of about the least by what later stages are good for.

    Where some stages don't reach the output, rows whose longest later stage is about the shortest count as the same, and the
    earliest cuts win: of the equal maps behind a backbone, such as those of a pixel decoder's layers, the first.
    """
    near, others = _near(rows, timed, lambda row: row.running[0])
    least = min(row.running[0] for row in near) + _SAME
    quick = [row for row in near if row.running[0] <= least]
    most = max(sum(row.reaching) for row in quick)
    even = min(max(row.stages[1:]) for row in quick if sum(row.reaching) == most) + _EVEN

    def key(row: Row) -> tuple[float, ...]:
        if row.running[0] > least:
            return 1, row.running[0]
        longest = 0.0 if all(row.reaching) else max(even, *row.stages[1:])
        return -sum(row.reaching), longest, sum(row.running[1:])

    return [*sorted(near, key=key), *others]


def _near(rows: list[Row], timed: Load | None, share: Callable[[Row], float]) -> tuple[list[Row], list[Row]]:
    """Return ``rows`` whose share of measured time can't be told from the least, and the others, by it; without times all."""
    if timed is None:
        return rows, []
    times = [(share(timed.row(row.tensors)), row) for row in rows]
    least = min(time for time, _ in times) + _NOISE
    others = sorted((one for one in times if one[0] > least), key=lambda one: one[0])
    return [row for time, row in times if time <= least], [row for _, row in others]
