"""What one schedule would do, played from a tape: agreement and time, block by block."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add

import numpy as np

from clockseg._errors import UsageError
from clockseg._planning.blocks import Slot
from clockseg._planning.candidates import Candidate, schedule_of
from clockseg._planning.costs import Costs
from clockseg._promise import Key, Promise
from clockseg._store import Place, Store
from clockseg._types import Labels
from clockseg.agreement import Agreement, agreement, no_agreement
from clockseg.clocks import Every
from clockseg.schedule import Schedule
from clockseg.stages import StagedNetwork
from clockseg.tape import Tape

MOST_PIXELS = 130_000
"""Of a frame are compared: of larger ones every second pixel in every second row, or every third, and so on."""


@dataclass(frozen=True, eq=False)
class Sums:
    """Of some frames, none of them a clip's first: agreement, multiples of the uncut reference's time, who ran; addable."""

    agreement: Agreement
    time: float = 0.0
    frames: int = 0
    network: float = 0.0

    def __add__(self, other: Sums) -> Sums:
        if not isinstance(other, Sums):
            return NotImplemented
        return Sums(
            self.agreement + other.agreement,
            self.time + other.time,
            self.frames + other.frames,
            self.network + other.network,
        )

    def at_rates_of(self, every: Sums) -> Sums:
        """The same agreement, with the mean time and network rate of ``every`` frame."""
        frames = max(1, every.frames)
        return replace(self, time=every.time * self.frames / frames, network=every.network * self.frames / frames)

    @property
    def relative_time(self) -> float:
        """Against the uncut reference on the same frames; NaN without frames."""
        return self.time / self.frames if self.frames else math.nan

    @property
    def network_rate(self) -> float:
        """The share of frames on which any stage ran; NaN without frames."""
        return self.network / self.frames if self.frames else math.nan


@dataclass(frozen=True, eq=False)
class Trial:
    """What ``candidate`` on variant number ``variant`` does: on the blocks it may be chosen by, and on those held back.

    ``blocks``: the former one by one.
    """

    variant: int
    candidate: Candidate
    tuned: Sums
    held_back: Sums
    blocks: tuple[Sums, ...]


@dataclass(eq=False)
class Truth:
    """The reference's labels on every frame that is looked at, thinned out; what variants are scored against."""

    classes: int
    slots: list[Slot] = field(default_factory=list)
    store: Store = field(default_factory=Store)
    places: list[Place] = field(default_factory=list)

    def add(self, slot: Slot, labels: Labels) -> None:
        """One more frame."""
        self.slots.append(slot)
        self.places.append(self.store.add(thinned(labels)))

    def __getitem__(self, index: int) -> Labels:
        return self.store[self.places[index]]


def thinned(labels: Labels) -> Labels:
    """Every n-th pixel of every n-th row, so that no more than about ``MOST_PIXELS`` are left.

    >>> thinned(np.zeros((1080, 1920), np.uint8)).shape
    (270, 480)
    """
    step = max(1, math.ceil(math.sqrt(labels.size / MOST_PIXELS)))
    return np.ascontiguousarray(labels[::step, ::step])


@dataclass(eq=False)
class Scene:
    """A variant's tape before the reference's labels: what is shown is scored once, whichever schedules show it."""

    variant: int
    tape: Tape
    truth: Truth
    known: dict[tuple[Key, int], Agreement] = field(default_factory=dict)

    def tried(self, candidate: Candidate, costs: Costs) -> Trial:
        """``candidate`` played over all frames."""
        nothing = Sums(no_agreement(self.truth.classes))
        sums: dict[int, Sums] = {}
        for index, played in enumerate(self.tape.play(schedule_of(self.tape.net, candidate))):
            slot = self.truth.slots[index]
            if self.tape.begins(index):
                continue
            time, ran = costs.of(candidate.family, played.record), any(played.record.fired)
            one = Sums(self._score(index, played.output), time, 1, int(ran))
            sums[slot.block] = sums.get(slot.block, nothing) + one
        return self._trial(candidate, sums, nothing)

    def _trial(self, candidate: Candidate, sums: dict[int, Sums], nothing: Sums) -> Trial:
        held_back = {slot.block for slot in self.truth.slots if slot.held_back}
        blocks = tuple(one for block, one in sums.items() if block not in held_back)
        others = [one for block, one in sums.items() if block in held_back]
        tuned, left = reduce(add, blocks, nothing), reduce(add, others, nothing)
        if _blind(schedule_of(self.tape.net, candidate)):
            # Blocks are no multiples of periods: which half of them has a firing more is chance.
            tuned, left = (one.at_rates_of(tuned + left) for one in (tuned, left))
        return Trial(self.variant, candidate, tuned, left, blocks)

    def _score(self, index: int, output: Promise) -> Agreement:
        found = self.known.get((output.key, index))
        if found is None:
            found = agreement(self.truth[index], thinned(labels_of(output.value, self.tape.net)), self.truth.classes)
            self.known[output.key, index] = found
        return found


def _blind(schedule: Schedule) -> bool:
    """Whether its clocks go by the count of frames alone, so that what it takes is no secret of the blocks held back."""
    return all(isinstance(clock, Every) for clock in schedule.clocks)


def labels_of(output: object, net: StagedNetwork) -> Labels:
    """The output, if it is a label map; else ``UsageError``."""
    labels = np.asarray(output)
    if labels.dtype.kind not in "ui" or labels.ndim != 2:
        raise UsageError(
            f"network {net.name!r} gives {labels.dtype} {list(labels.shape)}; plans are made for networks that give "
            "label maps: class ids [h, w]."
        )
    return labels
