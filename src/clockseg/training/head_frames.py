"""The choice of frames that heads learn from, and of those held out to score them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from clockseg.datasets.clips import Clip
from clockseg.errors import DataError, UsageError, VideoError
from clockseg.types import Image

HELD_OUT = 160
"""Frames kept apart, at most about so many over all clips."""
_SHORT = 10
"""Of a clip with fewer frames no end is kept apart: every fifth such clip is, whole."""


@dataclass(frozen=True)
class Part:
    """Of one clip the frames at these places, counted among those that are taken, in order."""

    clip: Clip
    places: frozenset[int]

    def images(self, warn: Callable[[str], None]) -> Iterator[Image]:
        """The pictures, as far as they can be decoded; ``warn`` is told of what can't."""
        # Labels aren't needed, so they may be anything.
        clip = replace(self.clip, labels=(None,) * len(self.clip.images))
        frames = clip.frames(problem=lambda text: warn(f"{clip.path}: {text}"))
        places = enumerate(islice(frames, max(self.places, default=-1) + 1))
        try:
            yield from (frame.image for place, frame in places if place in self.places)
        except (DataError, VideoError) as error:
            warn(f"{error} The rest of clip {clip.name} is left out.")


@dataclass(frozen=True)
class Plan:
    """``learn``: frames spread evenly; ``held_out``: in each clip frames that follow each other."""

    learn: tuple[Part, ...]
    held_out: tuple[Part, ...]

    @property
    def frames(self) -> int:
        """The largest number of frames to learn from: a video's header may promise more than it has."""
        return sum(len(part.places) for part in self.learn)


def plan(
    clips: Sequence[Clip],
    validation: Sequence[Clip],
    *,
    frames: int,
    warn: Callable[[str], None] = lambda sentence: None,
) -> Plan:
    """``frames`` frames of ``clips`` to learn from, and others to tell how good the heads are.

    These are the start of each clip in ``validation``; without any, the last fifth of each clip, which nothing is learnt
    from (of clips under ten frames, single pictures among them, every fifth whole). ``warn`` is told of clips that can't be
    read, which are left out.

    >>> from pathlib import Path
    >>> clip = Clip("a", Path("a"), tuple(Path(f"{n}.jpg") for n in range(10)), (None,) * 10)
    >>> found = plan([clip], (), frames=4)
    >>> [sorted(part.places) for part in (*found.learn, *found.held_out)]
    [[0, 2, 4, 6], [8, 9]]
    """
    if frames < 1:
        raise UsageError(f"frames={frames}; heads need at least 1 frame to learn from, and about 200 to be good.")
    lengths, checks = (_lengths(each, warn) for each in (clips, validation))
    if not lengths:
        raise DataError("there are no frames to learn from; give videos, clips or folders of pictures.")
    ends = [number if validation else _end(number, index) for index, (_, number) in enumerate(lengths)]
    learn = _spread([clip for clip, _ in lengths], ends, frames)
    held = [(clip, 0, number) for clip, number in checks]
    if not validation:
        held = [(clip, end, number) for (clip, number), end in zip(lengths, ends, strict=True) if end < number]
    most = max(2, HELD_OUT // max(1, len(held)))
    return Plan(learn, tuple(Part(clip, frozenset(range(start, min(end, start + most)))) for clip, start, end in held))


def _lengths(clips: Sequence[Clip], warn: Callable[[str], None]) -> list[tuple[Clip, int]]:
    found = []
    for clip in clips:
        try:
            found.append((clip, length(clip)))
        except (DataError, VideoError) as error:
            warn(f"{error} Clip {clip.name} is left out.")
    return found


def _end(number: int, index: int) -> int:
    """Return the first held-out frame of the clip number ``index``."""
    if number >= _SHORT:
        return number - number // 5
    return 0 if index % 5 == 4 else number


def _spread(clips: Sequence[Clip], ends: Sequence[int], frames: int) -> tuple[Part, ...]:
    total = sum(ends)
    count = min(frames, total)
    chosen = {round(index * total / count) for index in range(count)} if count else set()
    found, start = [], 0
    for clip, end in zip(clips, ends, strict=True):
        found.append(Part(clip, frozenset(place - start for place in chosen if start <= place < start + end)))
        start += end
    return tuple(part for part in found if part.places)


def length(clip: Clip) -> int:
    """Return the number of frames of ``clip``: a video's from its header, or by decoding it if the header has none."""
    if clip.taken is not None:
        return len(clip.taken)
    with clip.open() as video:
        number = video.frames_hint or sum(1 for _ in video)
    taken = -(-number // clip.every)
    return taken if clip.limit is None else min(taken, clip.limit)
