"""Trials: the agreement and the time of one schedule, replayed from a recording block by block."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from operator import add
from typing import NamedTuple

import numpy as np

from clockseg.clockwork.facts import facts
from clockseg.clockwork.schedule import Schedule
from clockseg.evaluation.labels import checked_labels
from clockseg.evaluation.metrics import AGREEMENT_SHARE, finite
from clockseg.execution.recording import Recording, Store
from clockseg.execution.replay import Key, Promise
from clockseg.planning.candidates import Candidate, schedule_of
from clockseg.planning.costs import Costs
from clockseg.showing.played import play
from clockseg.types import Array, Labels

MOST_PIXELS = 130_000
"""Most pixels of a frame that are compared; larger frames are subsampled."""


class Slot(NamedTuple):
    """A frame to look at: ``first`` of a run of consecutive frames, in block number ``block``, held back or not."""

    frame: int
    first: bool
    block: int
    held_back: bool


def agreement(truth: Labels, shown: Labels, classes: int) -> Array:
    """Count the pixels of two label maps of one shape, whose ids are below ``classes``.

    Returns int64 [3, classes]: of each class, the pixels in both maps, in ``truth``, and in ``shown``.

    >>> agreement(np.uint8([1, 1]), np.uint8([1, 0]), 3).tolist()
    [[0, 1, 0], [0, 2, 0], [1, 1, 0]]
    """
    return np.array([np.bincount(part.ravel(), minlength=classes) for part in (truth[truth == shown], truth, shown)])


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over frames, addable: ``pixels``, as of ``agreement``; over the ``frames`` that are timed, their ``time`` in multiples
    of the uncut reference's, and the number of them on which the ``network`` ran.

    >>> one = Sums(agreement(np.uint8([[0, 0, 1]]), np.uint8([[0, 1, 1]]), 2))
    >>> (one + one).pixel_acc, round(one.mean_iu, 3)
    (0.6666666666666666, 0.5)
    """

    pixels: Array
    time: float = 0.0
    frames: int = 0
    network: int = 0

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.pixels + other.pixels,
            self.time + other.time,
            self.frames + other.frames,
            self.network + other.network,
        )

    @property
    def pixel_acc(self) -> float:
        """The share of pixels that agree; NaN without any."""
        right, truth, _ = self.pixels
        return float(right.sum() / truth.sum()) if truth.any() else math.nan

    @property
    def mean_iu(self) -> float:
        """The mean intersection over union of the classes that hold at least 0.1 % of the reference's pixels."""
        right, truth, shown = self.pixels
        large = (truth > 0) & (truth >= AGREEMENT_SHARE * truth.sum())
        return float((right[large] / (truth + shown - right)[large]).mean()) if large.any() else math.nan

    def at_rates_of(self, every: Sums) -> Sums:
        """Return the same agreement with the times of other frames."""
        return replace(self, time=every.time, frames=every.frames, network=every.network)

    @property
    def relative_time(self) -> float:
        """Mean time of a frame, in multiples of the uncut reference's; NaN without frames."""
        return self.time / self.frames if self.frames else math.nan

    @property
    def network_rate(self) -> float:
        """The share of frames on which any stage ran; NaN without frames."""
        return self.network / self.frames if self.frames else math.nan

    def facts(self) -> dict[str, float | None]:
        """Return the means as plain values; None without frames."""
        return {
            "relative_time": finite(self.relative_time),
            "pixel_acc": finite(self.pixel_acc),
            "mean_iu": finite(self.mean_iu),
            "network_rate": finite(self.network_rate),
            "frames": self.frames,
        }


@dataclass(frozen=True, eq=False)
class Trial:
    """The result of ``candidate`` on variant number ``variant``, on the blocks tuned on (``blocks``: each) and those held back."""

    variant: int
    candidate: Candidate
    tuned: Sums
    held_back: Sums
    blocks: tuple[Sums, ...]

    @property
    def all_frames(self) -> Sums:
        """The result on all blocks, those held back included."""
        return self.tuned + self.held_back


@dataclass(eq=False)
class Truth:
    """The reference's subsampled labels on every frame, which variants are scored against."""

    classes: int
    slots: list[Slot] = field(default_factory=list)
    store: Store = field(default_factory=Store)
    places: list[int] = field(default_factory=list)

    def add(self, slot: Slot, labels: Labels) -> None:
        self.slots.append(slot)
        self.places.append(self.store.add(thinned(labels)))

    def __getitem__(self, index: int) -> Labels:
        found: Labels = self.store[self.places[index]]
        return found


def thinned(labels: Labels) -> Labels:
    """Return every n-th pixel of every n-th row, about ``MOST_PIXELS`` at most.

    >>> thinned(np.zeros((1080, 1920), np.uint8)).shape
    (270, 480)
    """
    step = max(1, math.ceil(math.sqrt(labels.size / MOST_PIXELS)))
    return np.ascontiguousarray(labels[::step, ::step])


@dataclass(eq=False)
class Scene:
    """A variant's recording and the reference's labels; an output is scored once, however many schedules show it."""

    variant: int
    recording: Recording
    truth: Truth
    known: dict[tuple[Key, int], Array] = field(default_factory=dict)

    def tried(self, candidate: Candidate, costs: Costs) -> Trial:
        """Replay ``candidate`` on all frames."""
        none = np.zeros((3, self.truth.classes), np.int64)
        sums: dict[int, Sums] = defaultdict(lambda: Sums(none))
        records = []
        for index, played in enumerate(play(self.recording, schedule_of(self.recording.net, candidate))):
            records.append(played.record)
            if not self.recording.frames[index].first:
                sums[self.truth.slots[index].block] += Sums(self._score(index, played.output))
        full = [all(record.fired) for record in records]
        for index in whole_cycles(full, [frame.first for frame in self.recording.frames]):
            time = costs.of(candidate.family(self.variant), records[index])
            sums[self.truth.slots[index].block] += Sums(none, time, 1, int(any(records[index].fired)))
        return self._trial(candidate, sums)

    def _trial(self, candidate: Candidate, sums: dict[int, Sums]) -> Trial:
        none = Sums(np.zeros((3, self.truth.classes), np.int64))
        held_back = {slot.block for slot in self.truth.slots if slot.held_back}
        blocks = tuple(one for block, one in sums.items() if block not in held_back)
        others = [one for block, one in sums.items() if block in held_back]
        tuned, left = (reduce(add, found, none) for found in (blocks, others))
        if _blind(schedule_of(self.recording.net, candidate)) or not (tuned.frames and left.frames):
            # Blocks are no multiples of periods, so it is chance which half has one more firing.
            tuned, left = (one.at_rates_of(tuned + left) for one in (tuned, left))
        return Trial(self.variant, candidate, tuned, left, blocks)

    def _score(self, index: int, output: Promise) -> Array:
        found = self.known.get((output.key, index))
        if found is None:
            found = agreement(
                self.truth[index], thinned(checked_labels(output.value, self.recording.net)), self.truth.classes
            )
            self.known[output.key, index] = found
        return found


def whole_cycles(full: Sequence[bool], begins: Sequence[bool]) -> Iterator[int]:
    """Yield the frames to time: of each run, which begins with a fill, those after it up to the last on which all stages fired.

    Later frames would make a clock look cheaper than it is, since its next firing is missing. A run without a firing is
    timed whole, with the fill in place of the firing.

    >>> list(whole_cycles([True, False, False, True, False], [True, False, False, False, False]))
    [1, 2, 3]
    >>> list(whole_cycles([True, False, False, True, False], [True, False, False, True, False]))
    [0, 1, 2, 3, 4]
    """
    starts = [index for index in range(len(full)) if begins[index]]
    for start, end in pairwise([*starts, len(full)]):
        last = max((index for index in range(start + 1, end) if full[index]), default=None)
        yield from range(start, end) if last is None else range(start + 1, last + 1)


def _blind(schedule: Schedule) -> bool:
    """Return True if all clocks depend on the frame count alone, so that the cost on held-back blocks is known in advance."""
    return all(facts(clock).period for clock in schedule.clocks)
