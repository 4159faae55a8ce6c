"""Samples for a correction: propagated scores of an earlier frame, and the network's own for this one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice

import numpy as np

from clockseg.carry import Motion
from clockseg.datasets.clips import Clip, ClipFrame
from clockseg.errors import DataError
from clockseg.networks.calibration import spread
from clockseg.training.frames import Warn, decoded, unlabelled
from clockseg.training.stale_motion import past
from clockseg.training.stale_teacher import Teacher
from clockseg.types import IMAGE, PICTURE_SIZE, Array, Image, Size

OLDEST = 12
"""Largest age of propagated scores, in frames."""
IGNORE = 255
MOST_BYTES = 1_500_000_000
"""Memory limit for samples; a network with large maps gets fewer."""
_PER_RUN = 2
"""Samples of a video from the same earlier frame; more if the video is short."""


@dataclass(frozen=True, eq=False)
class Target:
    """A frame to be shown: as prepared, uint8 [H, W, 3]; the network's scores, float16 [classes, h, w], and labels, ``own``,
    uint8 [H, W]; human ``labels``, as large, or None; the features that are read, float16 [channels, h, w], or None.

    ``shown``: the picture's width and height without the padding. Frames of another shape have another size.
    """

    clip: str
    image: Image
    scores: Array
    own: Array
    labels: Array | None
    features: Array | None
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


@dataclass
class Samples:
    """Samples to learn from, and held-out ones."""

    learn: list[Sample] = field(default_factory=list)
    held_out: list[Sample] = field(default_factory=list)


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
    """Return about ``count`` samples: of videos, frames and those before them; of folders of pictures, synthetic motion.

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
        """Return ``count`` samples, of stills and videos in proportion to the numbers of clips."""
        stills, videos = ([clip for clip in clips if bool(clip.images) == still] for still in (True, False))
        share = round(count * len(stills) / max(1, len(clips)))
        found = []
        for sample in chain(self._of_stills(stills, share), self._of_videos(videos, count - share)):
            found.append(sample)
            self.done += 1
            self.progress(self.done)
        if not found:
            raise DataError("there are no frames to learn from; give videos, clips or folders of pictures.")
        return found

    def _of_stills(self, clips: Sequence[Clip], count: int) -> Iterator[Sample]:
        frames = spread(((clip.name, frame) for clip in clips for frame in self._frames(clip)), max(2, count // 2))
        if not count or not frames:
            return
        targets: dict[int, Target] = {}
        pictures = [frame.image for _, frame in frames]
        rounds = chain.from_iterable(self.random.permutation(len(frames)) for _ in range(count))
        for place in islice(rounds, count):
            if place not in targets:
                targets[place] = self._target(*frames[place])
            target, lag = targets[place], int(self.random.integers(1, OLDEST + 1))
            columns, rows = target.shown
            still, labels = (np.ascontiguousarray(each[:rows, :columns]) for each in (target.image, target.own))
            before = past(still, lag, self.random, others=pictures, labels=labels)
            yield from self._along([*before, still], {lag: partial(_same, target)})

    def _of_videos(self, clips: Sequence[Clip], count: int) -> Iterator[Sample]:
        """Yield samples of runs of frames spread over each clip, from the first frame of a run to later ones."""
        if not count or not clips:
            return
        each = -(-count // len(clips))
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
                targets = {int(lag): partial(self._target, clip.name, run[lag]) for lag in lags}
                yield from self._along([frame.image for frame in run], targets)

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

    def _target(self, name: str, frame: ClipFrame) -> Target:
        answer = self.teacher(frame.image)
        picture = answer.prepared[IMAGE][0].copy()
        height, width = picture.shape[:2]
        columns, rows = (int(side) for side in answer.prepared.get(PICTURE_SIZE, (width, height)))
        labels = None
        if frame.labels is not None:
            labels = np.full((height, width), IGNORE, np.uint8)
            labels[:rows, :columns] = nearest(frame.labels, (rows, columns))
        features = None if answer.features is None else _half(answer.features)
        return Target(name, picture, _half(answer.scores), answer.labels.copy(), labels, features, (columns, rows))

    def _frames(self, clip: Clip) -> Iterator[ClipFrame]:
        return decoded(matching(clip, self.teacher.said.classes), self.warn)


def matching(clip: Clip, classes: Sequence[str]) -> Clip:
    """Return the clip, without its labels if their classes are not ``classes``."""
    return clip if clip.classes is not None and clip.classes.names == tuple(classes) else unlabelled(clip)


def nearest(labels: Array, shape: tuple[int, int]) -> Array:
    """Return labels [h, w] at another ``shape``: at each place the one in the middle."""
    y, x = (((np.arange(side) + 0.5) * of / side).astype(int) for side, of in zip(shape, labels.shape, strict=True))
    return np.asarray(labels[y[:, None], x])


def _same(target: Target) -> Target:
    return target


def _half(values: Array) -> Array:
    return np.ascontiguousarray(values).astype(np.float16)
