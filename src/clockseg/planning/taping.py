"""The frames that a plan is made on: which of a video are taken, and their recording through every network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import chain, islice
from typing import NamedTuple

from clockseg.clockwork.network import StagedNetwork
from clockseg.datasets.clips import Clip
from clockseg.errors import DataError
from clockseg.planning.candidates import Candidate
from clockseg.planning.trial import Slot, Taped
from clockseg.video.clip import Frame
from clockseg.video.threads import prefetch

BLOCKS = 10
"""Blocks of a clip if it has enough frames; the blocks of a short clip are shorter."""
LEAST, MOST = 8, 100
"""Frames of a block."""
WEIGHED = 8
"""Frames recorded to find how many bytes a frame takes."""
LEAST_FRAMES = 32
"""Frames that a plan needs."""
UNKNOWN = 1 << 40
"""Number of frames of a clip whose header does not tell."""


class Callbacks(NamedTuple):
    """Callbacks during planning: ``frames`` done and expected, the step that begins, and what could not be decoded."""

    frames: Callable[[int, int], None] = lambda done, of: None
    step: Callable[[str], None] = lambda sentence: None
    problem: Callable[[str], None] = lambda sentence: None


def first_frame(clips: Sequence[Clip]) -> Frame:
    """Return the first frame, with its vectors if it has any; ``DataError`` if there is none."""
    for frame in chain.from_iterable(clip.frames(vectors=True) for clip in clips):
        return frame
    raise DataError("there is no frame to plan on.")


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
    lengths = [clip_length(clip) for clip in clips]
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
    """Return how many frames to take of each clip, ``most`` together: short clips leave their share to longer ones.

    >>> shares([5, 100, 100], 60)
    [5, 27, 28]
    """
    found = dict.fromkeys(range(len(lengths)), 0)
    for rank, at in enumerate(sorted(found, key=lambda at: lengths[at])):
        found[at] = min(lengths[at], (most - sum(found.values())) // (len(lengths) - rank))
    return list(found.values())


def slots(frames: int, most: int) -> Iterator[Slot]:
    """Yield the frames to look at in order, ``most`` of ``frames`` (all if there are fewer).

    They are in blocks of consecutive frames, of which every other one is held back. If there are more frames than may be looked
    at, runs of two blocks are spread evenly over them, and begin with a block of either kind in turn. The length of a
    video from its header may be wrong or ``UNKNOWN``; then the frames from the start are taken.

    >>> [(slot.frame, slot.held_back) for slot in slots(90, 32) if slot.first]
    [(0, False), (74, True)]
    """
    taken = min(most, frames)
    length = max(LEAST, min(MOST, taken // BLOCKS))
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


def clip_length(clip: Clip) -> int:
    """Return the number of frames of a clip, from its header."""
    return clip.expected() or UNKNOWN
