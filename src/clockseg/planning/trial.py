"""Recordings of a video through every network, and trials: the agreement and the time of one schedule, replayed from them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from operator import add
from typing import NamedTuple

import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.evaluation.labels import checked_labels
from clockseg.evaluation.metrics import AGREEMENT_SHARE, finite
from clockseg.execution.recording import Recording, needs
from clockseg.execution.replay import Key, Promise
from clockseg.planning.candidates import Candidate, schedule_of
from clockseg.planning.costs import Costs
from clockseg.showing.window import play
from clockseg.types import Array, Labels
from clockseg.video.clip import Frame

MOST_PIXELS = 130_000
"""Most pixels of a frame that are compared; larger frames are subsampled."""
SAMPLES = 36
"""Consecutive frames on which costs are measured."""
SAMPLE_BYTES = 100_000_000
"""Memory limit for these frames; of large frames there are fewer, but not fewer than ``LEAST_SAMPLES``."""
LEAST_SAMPLES = 12


class Slot(NamedTuple):
    """A frame to look at: ``first`` of a run of consecutive frames, in block number ``block``, held back or not."""

    frame: int
    first: bool
    block: int
    held_back: bool


@dataclass(frozen=True, eq=False)
class Agreement:
    """Agreement of label maps with those of the reference; addable.

    ``counts``: int64 [3, classes]: of each class, the pixels in both maps, in the reference's, and in the other one. Scores
    are NaN without pixels.

    >>> one = Agreement.of(np.uint8([[0, 0, 1]]), np.uint8([[0, 1, 1]]), 2)
    >>> one.counts.tolist(), (one + one).pixel_acc, round(one.mean_iu, 3)
    ([[1, 1], [2, 1], [1, 2]], 0.6666666666666666, 0.5)
    """

    counts: Array

    @classmethod
    def of(cls, truth: Labels, shown: Labels, classes: int) -> Agreement:
        """Compare two label maps of one shape, whose ids are below ``classes``."""
        parts = (truth[truth == shown], truth, shown)
        return cls(np.array([np.bincount(part.ravel(), minlength=classes) for part in parts]))

    def __add__(self, other: Agreement) -> Agreement:
        return Agreement(self.counts + other.counts)

    def __sub__(self, other: Agreement) -> Agreement:
        return Agreement(self.counts - other.counts)

    @property
    def pixel_acc(self) -> float:
        """The share of pixels that agree."""
        right, truth, _ = self.counts
        return float(right.sum() / truth.sum()) if truth.any() else math.nan

    @property
    def mean_iu(self) -> float:
        """The mean intersection over union of the classes that hold at least 0.1 % of the reference's pixels."""
        right, truth, shown = self.counts
        large = (truth > 0) & (truth >= AGREEMENT_SHARE * truth.sum())
        return float((right[large] / (truth + shown - right)[large]).mean()) if large.any() else math.nan

    def facts(self) -> dict[str, float | None]:
        """Return the scores as plain values; None without pixels."""
        return {"pixel_acc": finite(self.pixel_acc), "mean_iu": finite(self.mean_iu)}


@dataclass(frozen=True, eq=False)
class Trial:
    """The result of ``candidate`` on variant number ``variant``.

    ``relative_time``: mean time of a frame, in multiples of the uncut reference's; ``network_rate``: the share of frames on
    which any stage ran, both over all frames. ``tuned``: the agreement on the blocks that plans are chosen on (``blocks``: on
    each of them); ``held_back``: that on all others.
    """

    variant: int
    candidate: Candidate
    relative_time: float
    network_rate: float
    tuned: Agreement
    held_back: Agreement
    blocks: tuple[Agreement, ...]


def thinned(labels: Labels) -> Labels:
    """Return every n-th pixel of every n-th row, about ``MOST_PIXELS`` at most.

    >>> thinned(np.zeros((1080, 1920), np.uint8)).shape
    (270, 480)
    """
    step = max(1, math.ceil(math.sqrt(labels.size / MOST_PIXELS)))
    return np.ascontiguousarray(labels[::step, ::step])


class Taped:
    """Recordings of one video, one per variant, the reference's first, on which schedules are tried.

    ``slots`` and ``labels``: of every frame, its slot and the reference's labels, subsampled, against which all variants are
    scored. ``samples``: consecutive frames to time. There are no frames at first. The recordings keep what the candidates of
    each network read.
    """

    def __init__(self, nets: Sequence[StagedNetwork], candidates: Sequence[Sequence[Candidate]], classes: int) -> None:
        self._classes, self.slots, self.labels, self.samples = classes, list[Slot](), list[Labels](), list[Frame]()
        self.recordings: list[Recording] = []
        for net, each in zip(nets, candidates, strict=True):
            self.recordings.append(Recording(net, needs(net, [schedule_of(net, one) for one in each], outputs=True)))
        # An output is scored once, however many schedules show it.
        self._known: dict[tuple[int, Key, int], Agreement] = {}

    @property
    def bytes(self) -> int:
        """Bytes of all recordings."""
        return sum(recording.store.bytes for recording in self.recordings)

    def add(self, frame: Frame, slot: Slot) -> None:
        """Run every network on one more frame and record it."""
        outputs = [one.add(frame.picture, vectors=frame.vectors, first=slot.first) for one in self.recordings]
        self.slots.append(slot)
        self.labels.append(thinned(checked_labels(outputs[0], self.recordings[0].net)))
        room = len(self.samples) < max(LEAST_SAMPLES, min(SAMPLES, SAMPLE_BYTES // frame.image.nbytes))
        # Only consecutive frames show the motion of a camera.
        if room and (not slot.first or not self.samples) and len(self.samples) == len(self.slots) - 1:
            self.samples.append(replace(frame, picture=frame.image.copy()))

    def tried(self, variant: int, candidate: Candidate, costs: Costs) -> Trial:
        """Replay ``candidate`` on all frames of a variant."""
        recording, none = self.recordings[variant], Agreement(np.zeros((3, self._classes), np.int64))
        # By the number of the block, and whether it is held back.
        found: dict[tuple[int, bool], Agreement] = defaultdict(lambda: none)
        records, begins = [], [slot.first for slot in self.slots]
        for index, played in enumerate(play(recording, schedule_of(recording.net, candidate))):
            records.append(played.record)
            if not begins[index]:
                slot = self.slots[index]
                found[slot.block, slot.held_back] += self._score(variant, index, played.output)
        timed = [records[index] for index in whole_cycles([all(record.fired) for record in records], begins)]
        time = sum(costs.of(candidate.family(variant), record) for record in timed) / len(timed)
        rate = sum(any(record.fired) for record in timed) / len(timed)
        blocks = tuple(one for (_, held_back), one in found.items() if not held_back)
        others = [one for (_, held_back), one in found.items() if held_back]
        tuned, left = (reduce(add, half, none) for half in (blocks, others))
        return Trial(variant, candidate, time, rate, tuned, left, blocks)

    def _score(self, variant: int, index: int, output: Promise) -> Agreement:
        key = variant, output.key, index
        if key not in self._known:
            shown = thinned(checked_labels(output.value, self.recordings[variant].net))
            self._known[key] = Agreement.of(self.labels[index], shown, self._classes)
        return self._known[key]


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
