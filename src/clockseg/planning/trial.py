"""Recordings of a video through every network, and trials: the agreement and the time of one schedule, replayed from them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, islice, pairwise
from operator import add
from typing import NamedTuple

import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.datasets.clips import Clip
from clockseg.errors import DataError
from clockseg.evaluation.labels import checked_labels
from clockseg.evaluation.metrics import AGREEMENT_SHARE, finite
from clockseg.execution.recording import Recording, needs
from clockseg.execution.replay import Key, Promise
from clockseg.planning.candidates import Candidate, Costs, schedule_of
from clockseg.showing.window import play
from clockseg.types import Array, Labels
from clockseg.video.clip import Frame
from clockseg.video.threads import prefetch

MOST_PIXELS = 130_000
"""Most pixels of a frame that are compared; larger frames are subsampled."""
SAMPLES = 36
"""Consecutive frames on which costs are measured."""
SAMPLE_BYTES = 100_000_000
"""Memory limit for these frames; of large frames there are fewer, but not fewer than ``LEAST_SAMPLES``."""
LEAST_SAMPLES = 12
BLOCKS = 10
"""Blocks of a clip if it has enough frames; the blocks of a short clip are shorter."""
SHORTEST, LONGEST = 8, 100
"""Frames of a block."""
WEIGHED = 8
"""Frames recorded to find how many bytes a frame takes."""
LEAST_FRAMES = 32
"""Frames that a plan needs."""
UNKNOWN = 1 << 40
"""Number of frames of a clip whose header does not tell."""


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


class Callbacks(NamedTuple):
    """Callbacks during planning: ``frames`` done and expected, the step that begins, and what could not be decoded."""

    frames: Callable[[int, int], None] = lambda done, of: None
    step: Callable[[str], None] = lambda sentence: None
    problem: Callable[[str], None] = lambda sentence: None


def taped(
    nets: Sequence[StagedNetwork],
    candidates: Sequence[Sequence[Candidate]],
    clips: Sequence[Clip],
    classes: int,
    *,
    most: int,
    most_bytes: int,
    vectors: bool = False,
    callbacks: Callbacks = Callbacks(),  # noqa: B008 - frozen
) -> Taped:
    """Record every network over blocks of the clips, ``most`` frames of all clips together, and ``most_bytes`` on disk.

    ``candidates``: the schedules of each network that will be replayed. ``vectors``: True if a carry reads the codec's motion
    vectors. ``DataError`` if the clips are too short.
    """
    made, some = Taped(nets, candidates, classes), Taped(nets, candidates, classes)
    room = max(1, most_bytes // bytes_per_frame(some, clips, vectors=vectors))
    lengths = [clip.expected() or UNKNOWN for clip in clips]
    counts = shares(lengths, min(most, room))
    if room < min(most, sum(lengths)):
        callbacks.step(f"{most_bytes / 1e6:,.0f} MB of disk space hold {room} frames; {most} were allowed")
    for clip, length, count in zip(clips, lengths, counts, strict=True):
        start = 1_000_000 * len(made.slots)
        for frame, slot in _frames_of(clip, slots(length, count), vectors, callbacks.problem):
            made.add(frame, slot._replace(block=start + slot.block))
            callbacks.frames(len(made.slots), sum(counts))
        clip.check_unchanged()
    if len(made.slots) < LEAST_FRAMES:
        raise DataError(
            f"{len(made.slots)} frames are too few to plan on; give video with {LEAST_FRAMES} frames or more, a larger --limit or "
            "--disk, or a smaller --size."
        )
    return made


def bytes_per_frame(empty: Taped, clips: Sequence[Clip], *, vectors: bool) -> int:
    """Return the most bytes that one of a few frames takes on all recordings ``empty``: the first frame has no motion."""
    most = 1
    frames = chain.from_iterable(clip.frames(vectors=vectors) for clip in clips)
    for number, frame in enumerate(islice(frames, WEIGHED)):
        before = empty.bytes
        empty.add(frame, Slot(number, number == 0, 0, False))
        most = max(most, empty.bytes - before)
    return most


def shares(lengths: Sequence[int], most: int) -> list[int]:
    """Return how many frames to take of each clip, ``most`` together: short clips leave their share to longer ones."""
    found = dict.fromkeys(range(len(lengths)), 0)
    for rank, at in enumerate(sorted(found, key=lambda at: lengths[at])):
        found[at] = min(lengths[at], (most - sum(found.values())) // (len(lengths) - rank))
    return list(found.values())


def slots(frames: int, most: int) -> Iterator[Slot]:
    """Yield the frames to look at in order, ``most`` of ``frames`` (all if there are fewer).

    They are in blocks of consecutive frames, of which every other one is held back. If there are more frames than may be looked
    at, runs of two blocks are spread evenly over them, and begin with a block of either kind in turn. The length of a
    video from its header may be wrong or ``UNKNOWN``; then the frames from the start are taken.
    """
    taken = min(most, frames)
    length = max(SHORTEST, min(LONGEST, taken // BLOCKS))
    for number, run in enumerate(_runs(frames, taken, 2 * length)):
        blocks = max(1, round(len(run) / length))
        for place, index in enumerate(run):
            part = place * blocks // len(run)
            yield Slot(index, place == 0, 1000 * number + part, (number + part) % 2 == 1)


def _runs(frames: int, taken: int, length: int) -> Sequence[range]:
    """Return runs of at least ``length`` frames, ``taken`` together, with unequal gaps of at least a frame between them."""
    count = taken // length
    left_out = frames - taken
    if frames >= UNKNOWN or count < 2 or left_out < count - 1:
        return [range(taken)]
    ends = [taken * number // count for number in range(count + 1)]
    gaps = [left_out * number // (count - 1) for number in range(count)]
    return [range(start + gap, end + gap) for start, end, gap in zip(ends, ends[1:], gaps, strict=False)]


def _frames_of(
    clip: Clip, chosen: Iterator[Slot], vectors: bool, problem: Callable[[str], None]
) -> Iterator[tuple[Frame, Slot]]:
    """Decode a clip, and yield the frames that are ``chosen``."""
    wanted = {slot.frame: slot for slot in chosen}
    with closing(prefetch(clip.frames(problem=problem, vectors=vectors))) as frames:
        for index, frame in enumerate(frames):
            if not wanted:
                break
            if index in wanted:
                yield frame, wanted.pop(index)
