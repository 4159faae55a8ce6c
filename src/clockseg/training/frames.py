"""The frames that trainings learn from and those held out to score on; clips that can't be decoded are left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from clockseg.datasets.clips import Clip, ClipFrame
from clockseg.errors import DataError, UsageError, VideoError
from clockseg.types import Image

Warn = Callable[[str], None]
HELD_OUT = 160
"""Frames held out over all clips, about."""
_SHORT = 10
"""Clips with fewer frames are held out whole, every fifth of them, or not at all."""


def unlabelled(clip: Clip) -> Clip:
    """Return the clip without its labels, which then need not be readable."""
    return replace(clip, labels=(None,) * len(clip.images))


def decoded(clip: Clip, warn: Warn, *, vectors: bool = False) -> Iterator[ClipFrame]:
    """Yield the frames of ``clip`` up to the first that can't be decoded, of which ``warn`` is told."""
    try:
        yield from clip.frames(problem=warn, vectors=vectors)
    except (DataError, VideoError) as error:
        warn(f"{error} The rest of clip {clip.name} is left out.")


def lengths(clips: Sequence[Clip], warn: Warn) -> list[tuple[Clip, int]]:
    """Return the clips that can be opened with their numbers of frames; a video without one in its header is decoded."""
    found = []
    for clip in clips:
        try:
            found.append((clip, clip.expected() or sum(1 for _ in clip)))
        except (DataError, VideoError) as error:
            warn(f"{error} Clip {clip.name} is left out.")
    return found


@dataclass(frozen=True)
class Part:
    """The frames of one clip at these places, counted among the frames taken of it."""

    clip: Clip
    places: frozenset[int]

    def images(self, warn: Warn) -> Iterator[Image]:
        """Yield the pictures, as far as they can be decoded."""
        frames = islice(decoded(unlabelled(self.clip), warn), max(self.places, default=-1) + 1)
        return (frame.image for place, frame in enumerate(frames) if place in self.places)


@dataclass(frozen=True)
class Plan:
    """``learn``: frames spread evenly; ``held_out``: consecutive frames of each clip."""

    learn: tuple[Part, ...]
    held_out: tuple[Part, ...]

    @property
    def frames(self) -> int:
        """The largest number of frames to learn from: a video's header may promise more than it has."""
        return sum(len(part.places) for part in self.learn)


def plan(clips: Sequence[Clip], *, frames: int, warn: Warn = lambda sentence: None) -> Plan:
    """Choose ``frames`` frames of ``clips`` to learn from, and others to score on.

    The latter are at the start of the last fifth of each clip, which nothing is learned from (of clips under ten frames,
    single pictures among them, every fifth whole). ``warn`` is told of clips that can't be read, which are left out.
    ``DataError`` if there are no frames.
    """
    if frames < 1:
        raise UsageError(f"frames={frames}; heads need at least 1 frame to learn from, and about 200 to be good.")
    teaching = lengths(clips, warn)
    if not teaching:
        raise DataError("there are no frames to learn from; give videos, clips or folders of pictures.")
    ends = [_end(number, index) for index, (_, number) in enumerate(teaching)]
    held = [(clip, end, number) for (clip, number), end in zip(teaching, ends, strict=True) if end < number]
    most = max(2, HELD_OUT // max(1, len(held)))
    parts = (Part(clip, frozenset(range(start, min(end, start + most)))) for clip, start, end in held)
    return Plan(_spread([clip for clip, _ in teaching], ends, frames), tuple(parts))


def _end(number: int, index: int) -> int:
    """Return the first held-out frame of the clip number ``index``."""
    if number >= _SHORT:
        return number - number // 5
    return 0 if index % 5 == 4 else number


def _spread(clips: Sequence[Clip], ends: Sequence[int], frames: int) -> tuple[Part, ...]:
    """Return ``frames`` places spread evenly over the clips up to their ``ends``."""
    total = sum(ends)
    count = min(frames, total)
    chosen = {round(index * total / count) for index in range(count)} if count else set()
    found, start = [], 0
    for clip, end in zip(clips, ends, strict=True):
        found.append(Part(clip, frozenset(place - start for place in chosen if start <= place < start + end)))
        start += end
    return tuple(part for part in found if part.places)
