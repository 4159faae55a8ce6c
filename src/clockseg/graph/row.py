"""A row of cuts, one behind the other, and what it would mean: what runs when, and what reaches the output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from clockseg.graph.load import FRAME, Cut, Load
from clockseg.graph.trunk import Trunk

SPARED = 0.03
"""Share of work that has to rest on a frame on which the first stage fires alone for its skip to be worth one."""
FINE = 8
"""The coarsest stride that counts as fine."""


@dataclass(frozen=True)
class Row:
    """A row of cuts with the stages that each node is made from, as bits; ``timed``: the seconds of the nodes, if measured."""

    trunk: Trunk
    timed: Load | None
    indices: tuple[int, ...]
    owners: Sequence[int]

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """What is cut at, in order."""
        return tuple(self.trunk.places[index] for index in self.indices)

    @property
    def load(self) -> Load:
        """The network's multiply-adds."""
        return self.trunk.load

    @cached_property
    def running(self) -> tuple[float, ...]:
        """The share that runs on a frame on which the first, the first two, .. stages fire; without all."""
        return tuple(self.load.touched(self.owners, fired) for fired in range(1, len(self.indices)))

    @cached_property
    def reaching(self) -> int:
        """The stages that the output is made from, as bits."""
        return self.load.reaching(self.owners)

    @property
    def skip(self) -> bool:
        """Whether the first stage's result is of use while others hold, and something rests then."""
        return bool(self.running) and bool(self.reaching & 1) and self.running[0] <= 1 - SPARED

    @cached_property
    def stages(self) -> tuple[float, ...]:
        """The share of each stage alone."""
        return stage_shares(self.load, self.owners, len(self.indices))

    @property
    def longest(self) -> float:
        """Of the stages, with what is fused after it."""
        return _longest(self.stages)

    @cached_property
    def least_time(self) -> float:
        """The share of measured time on a frame on which the first stage fires alone."""
        return 0.0 if self.timed is None else self.timed.touched(self.owners, 1)

    @cached_property
    def longest_time(self) -> float:
        """The share of measured time of the longest stage, with what is fused after it."""
        return 0.0 if self.timed is None else _longest(stage_shares(self.timed, self.owners, len(self.indices)))

    @cached_property
    def fine(self) -> int:
        """How many maps of stride 8 or finer the first stage gives to what is made from later ones too."""
        given = {
            one
            for before, made in zip(self.load.reads, self.owners, strict=True)
            if made & 1 and made > 1
            for one in before
            if one != FRAME and self.owners[one] == 1
        }
        return sum((self._stride(node) or FINE + 1) <= FINE for node in given)

    def _stride(self, node: int) -> int | None:
        """Of what ``node`` makes; what splits have made has the stride of what it reads."""
        while node != FRAME:
            grid = self.trunk.grids.get(self.load.nodes[node].outputs[0])
            if grid is not None:
                return grid.stride
            node = self.load.reads[node][0]
        return None


def stage_shares(load: Load, owners: Sequence[int], count: int) -> tuple[float, ...]:
    """The share of all work that each of ``count`` stages has alone, of what is made from it and no other."""
    alone = [0.0] * count
    for cost, made in zip(load.costs, owners, strict=True):
        if made.bit_count() == 1:
            alone[made.bit_length() - 1] += cost
    return tuple(alone)


def _longest(stages: Sequence[float]) -> float:
    return max(stages) + 1 - sum(stages)


def row_of(trunk: Trunk, timed: Load | None, indices: tuple[int, ...]) -> Row | None:
    """The row of the places at ``indices``; None if they can't follow each other, or the last one's stage has no effect."""
    owners = trunk.load.owners([trunk.places[index] for index in indices])
    made = None if owners is None else Row(trunk, timed, indices, owners)
    return made if made is not None and made.reaching >> len(indices) - 1 & 1 else None
