"""Samples for a correction: propagated scores of an earlier frame, and the network's own for this one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np

from clockseg.carry import Motion
from clockseg.datasets.clips import Clip
from clockseg.errors import DataError, VideoError
from clockseg.types import IMAGE, PICTURE_SIZE, Array, Image, Size
from recipes.street.correction.teacher import Teacher

Warn = Callable[[str], None]
OLDEST = 12
"""Largest age of propagated scores, in frames."""
MOST_BYTES = 1_500_000_000
"""Memory limit for samples; a network with large maps gets fewer."""
_PER_RUN = 2
"""Samples of a video from the same earlier frame; more if the video is short."""


@dataclass(frozen=True, eq=False)
class Target:
    """A frame as a sample's target, without human labels.

    ``image``: as prepared, uint8 [H, W, 3]; ``scores``: the network's own, float16 [classes, h, w]; ``own``: its labels, uint8
    [H, W]. ``shown``: the picture's width
    and height without the padding.
    """

    image: Image
    scores: Array
    own: Array
    shown: Size

    @property
    def size(self) -> Size:
        """Width and height as prepared."""
        return self.image.shape[1], self.image.shape[0]

    def inside(self, array: Array) -> Array:
        """Return the part of a map [.., h, w] of the frame that is picture, not padding."""
        height, width = array.shape[-2:]
        columns, rows = (
            round(n * side / of) for n, side, of in zip((width, height), self.shown, self.size, strict=True)
        )
        return array[..., :rows, :columns]


@dataclass(frozen=True, eq=False)
class Sample:
    """Scores ``lag`` frames old, propagated, float16 [classes, h, w]; their motion residual, float16 [1, h, w]; the target."""

    moved: Array
    unexplained: Array
    lag: int
    target: Target


class Samples(NamedTuple):
    """Samples to learn from, and held-out ones."""

    learn: list[Sample]
    held_out: list[Sample]


def gather(
    teacher: Teacher,
    clips: Sequence[Clip],
    *,
    count: int,
    random: np.random.Generator,
    hold_out: Sequence[str] = (),
    progress: Callable[[str, int, int], None] = lambda what, done, of: None,
    warn: Warn = lambda sentence: None,
) -> Samples:
    """Return about ``count`` samples: frames, and scores propagated to them from earlier frames of the same clip.

    An eighth as many are held out: of the clips in ``hold_out``, or without any every eighth target. ``DataError`` if there
    is nothing to learn from, or no clip of such a name.
    """
    classes, height, width = teacher.shape
    # About three bytes per number: two samples or more share a target.
    bytes_each = 3 * (classes + 1) * height * width + 2 * teacher.size[0] * teacher.size[1]
    count = min(count, max(1, MOST_BYTES // bytes_each))
    learn, held = ([clip for clip in clips if (clip.name in hold_out) == out] for out in (False, True))
    if unknown := sorted(set(hold_out) - {clip.name for clip in held}):
        names = ", ".join(sorted({clip.name for clip in clips}))
        raise DataError(f"no clip {', '.join(unknown)} to hold out; the clips are {names}.")
    apart = max(1, count // 8)
    work = _Gathering(teacher, random, warn, lambda done: progress("gathering", done, count + apart))
    found = work.samples(learn, count if held else count + apart)
    if held:
        return Samples(found, work.samples(held, apart))
    targets = list(dict.fromkeys(id(one.target) for one in found))
    kept = set(targets[::8]) if len(targets) > 1 else set()
    return Samples(*([one for one in found if (id(one.target) in kept) == out] for out in (False, True)))


@dataclass
class _Gathering:
    teacher: Teacher
    random: np.random.Generator
    warn: Warn
    progress: Callable[[int], None]
    done: int = 0

    def samples(self, clips: Sequence[Clip], count: int) -> list[Sample]:
        """Return about ``count`` samples, equally many of each clip."""
        found = []
        for sample in self._of_clips(clips, count):
            found.append(sample)
            self.done += 1
            self.progress(self.done)
        if not found:
            raise DataError("there are no frames to learn from; give videos, or clips of at least two frames.")
        return found

    def _of_clips(self, clips: Sequence[Clip], count: int) -> Iterator[Sample]:
        """Yield samples of runs of frames spread over each clip, from the first frame of a run to later ones."""
        each = -(-count // max(1, len(clips)))
        for clip in clips:
            length = sum(1 for _ in self._frames(clip))
            runs = max(1, min(-(-each // _PER_RUN), length // (OLDEST + 1)))
            of_run = min(OLDEST, -(-each // runs))
            frames, at = self._frames(clip), 0
            for number in range(runs):
                start = max(at, round(number * length / runs))
                run = list(islice(frames, start - at, start - at + OLDEST + 1))
                at = start + len(run)
                if len(run) < 2:
                    break
                lags = self.random.choice(range(1, len(run)), min(of_run, len(run) - 1), replace=False)
                targets = {int(lag): partial(self._target, run[lag]) for lag in lags}
                yield from self._along(run, targets)

    def _along(self, pictures: Sequence[Image], targets: Mapping[int, Callable[[], Target]]) -> Iterator[Sample]:
        """Yield the samples whose scores are of the first picture and whose targets are so many pictures later."""
        teacher = self.teacher
        answer = teacher(pictures[0])
        sight = teacher.see(pictures[0])
        motion: Motion | None = None
        for lag, picture in enumerate(pictures[1:], start=1):
            now = teacher.see(picture)
            motion = teacher.warp.compose(motion, teacher.warp.observe(sight, now))
            sight = now
            if lag in targets and motion is not None:
                moved, unexplained = teacher.moved(answer.fused, motion)
                yield Sample(_half(moved), _half(unexplained), lag, targets[lag]())

    def _target(self, image: Image) -> Target:
        answer = self.teacher(image)
        picture = answer.prepared[IMAGE][0].copy()
        columns, rows = (int(side) for side in answer.prepared.get(PICTURE_SIZE, picture.shape[1::-1]))
        return Target(picture, _half(answer.scores), answer.labels.copy(), (columns, rows))

    def _frames(self, clip: Clip) -> Iterator[Image]:
        try:
            yield from (
                frame.image for frame in replace(clip, labels=(None,) * len(clip.images)).frames(problem=self.warn)
            )
        except (DataError, VideoError) as error:
            self.warn(f"{error} The rest of clip {clip.name} is left out.")


def _half(values: Array) -> Array:
    return np.ascontiguousarray(values).astype(np.float16)
