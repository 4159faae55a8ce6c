"""Sampling of a clip's frames in blocks, which alternately tune a plan and are held back to check it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

BLOCKS = 10
"""At least so many where the frames suffice: blocks get shorter on short clips."""
LEAST = 8
"""Frames of a block, at least."""


class Slot(NamedTuple):
    """A frame to be looked at: ``first`` of a run of consecutive frames, in block number ``block``, held back or not."""

    frame: int
    first: bool
    block: int
    held_back: bool


def slots(frames: int | None, most: int, block: int) -> Iterator[Slot]:
    """The frames to look at, ``most`` of ``frames`` (None: nobody knows how many), in order.

    Blocks of about ``block`` consecutive frames; every other one is held back. If there are more frames than may be looked
    at, runs of two blocks each lie spread over all of them, and begin with a block of either kind by turns.

    >>> [(slot.frame, slot.held_back) for slot in slots(90, 32, 8) if slot.first]
    [(0, False), (74, True)]
    """
    taken = most if frames is None else min(most, frames)
    length = max(LEAST, min(block, taken // BLOCKS))
    for number, run in enumerate(_runs(frames, taken, 2 * length)):
        for place, index in enumerate(run):
            part = place // length
            yield Slot(index, place == 0, 1000 * number + part, (number + part) % 2 == 1)


def _runs(frames: int | None, taken: int, length: int) -> Sequence[range]:
    count = taken // length
    if frames is None or taken == frames or count < 2:
        return [range(taken)]
    starts = (round(number * (frames - length) / (count - 1)) for number in range(count))
    return [range(start, start + length) for start in starts]
