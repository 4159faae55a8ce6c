"""The samples that a correction learns from: propagated scores of an earlier frame, and the network's own for this one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice

import numpy as np

from clockseg.carry import Motion
from clockseg.datasets.clips import Clip, ClipFrame
from clockseg.errors import DataError, VideoError
from clockseg.networks.calibration import spread
from clockseg.training.stale_motion import STROLL, Past, Wander, past
from clockseg.training.stale_teacher import Answer, Teacher, picture_share
from clockseg.types import IMAGE, Array, Image, Size

LAGS = tuple(range(1, 13))
"""Frames that moved scores may be old."""
IGNORE = 255
MOST_BYTES = 1_500_000_000
"""Memory limit for samples; a network with large maps gets fewer."""
_PER_CHAIN = 2
"""Frames of a video that learn from the same earlier one; more where it is short."""


@dataclass(frozen=True, eq=False)
class Target:
    """A frame that is corrected: as prepared, uint8 [H, W, 3]; the network's own scores, float16 [classes, h, w], and
    labels, ``own``, uint8 [H, W]; people's, as large, or None; the features that are read, float16 [channels, h, w], or None.

    ``share``: of width and height, what is picture; ``clip``: where it is from. Frames of another shape have another size.
    """

    clip: str
    image: Image
    scores: Array
    own: Array
    labels: Array | None
    features: Array | None
    share: tuple[float, float]

    @property
    def size(self) -> Size:
        """Width and height as prepared."""
        return self.image.shape[1], self.image.shape[0]


@dataclass(frozen=True, eq=False)
class Sample:
    """Scores that are ``lag`` frames old, moved: float16 [classes, h, w]; ``unexplained``: float16 [1, h, w]; what there
    should be: a target."""

    moved: Array
    unexplained: Array
    lag: int
    target: Target


@dataclass
class Samples:
    """All there are, and those of clips that are held out."""

    learn: list[Sample] = field(default_factory=list)
    held_out: list[Sample] = field(default_factory=list)


def gather(
    teacher: Teacher,
    clips: Sequence[Clip],
    *,
    count: int,
    random: np.random.Generator,
    hold_out: Sequence[str] = (),
    wander: Wander = STROLL,
    say: Callable[[str, int, int], None] = lambda what, done, of: None,
    warn: Callable[[str], None] = lambda sentence: None,
) -> Samples:
    """About ``count`` samples: of videos, frames and those before them; of folders of pictures, motion made up.

    An eighth as many again of the clips in ``hold_out``; without any, every eighth target is held out. ``DataError`` if
    there is nothing to learn from.
    """
    count = min(count, max(1, MOST_BYTES // _bytes(teacher)))
    learn = [clip for clip in clips if clip.name not in hold_out]
    held = [clip for clip in clips if clip.name in hold_out]
    if unknown := sorted(set(hold_out) - {clip.name for clip in held}):
        names = ", ".join(sorted({clip.name for clip in clips}))
        raise DataError(f"no clip {', '.join(unknown)} to hold out; the clips are {names}.")
    apart = max(1, count // 8)
    work = _Gathering(teacher, random, wander, say, warn, count + apart)
    found = list(work.of(learn, count if held else count + apart))
    if held:
        return Samples(found, list(work.of(held, apart)))
    targets = list(dict.fromkeys(id(one.target) for one in found))
    kept = set(targets[::8]) if len(targets) > 1 else set()
    return Samples(
        [one for one in found if id(one.target) not in kept], [one for one in found if id(one.target) in kept]
    )


def _bytes(teacher: Teacher) -> int:
    """Of one sample, about: half of what its target takes, since two share it or more."""
    classes, height, width = teacher.shape
    maps = (classes + 1) * height * width * 2
    return maps + maps // 2 + 2 * teacher.size[0] * teacher.size[1]


@dataclass
class _Gathering:
    """Asks the network, and tells of it."""

    teacher: Teacher
    random: np.random.Generator
    wander: Wander
    say: Callable[[str, int, int], None]
    warn: Callable[[str], None]
    total: int
    done: int = 0

    def of(self, clips: Sequence[Clip], count: int) -> Iterator[Sample]:
        """Stills first; of each kind as many as it has clips."""
        stills, videos = [clip for clip in clips if clip.images], [clip for clip in clips if not clip.images]
        share = round(count * len(stills) / max(1, len(clips)))
        before = self.done
        for sample in chain(self._of_stills(stills, share), self._of_videos(videos, count - share)):
            self.done += 1
            self.say("gathering", self.done, self.total)
            yield sample
        if self.done == before:
            raise DataError("there are no frames to learn from; give videos, clips or folders of pictures.")

    def _of_stills(self, clips: Sequence[Clip], count: int) -> Iterator[Sample]:
        frames = spread(((clip.name, frame) for clip in clips for frame in self._frames(clip)), max(2, count // 2))
        if not count or not frames:
            return
        targets: dict[int, Target] = {}
        pictures = [frame.image for _, frame in frames]
        for number in range(count):
            place = number % len(frames)
            if place == 0:
                order = self.random.permutation(len(frames))
            name, frame = frames[order[place]]
            if order[place] not in targets:
                targets[order[place]] = self._target(name, frame)
            lag = int(self.random.choice(LAGS))
            target = targets[order[place]]
            labels = _shown(target, target.own)
            made = past(
                _shown(target, target.image), lag, self.random, others=pictures, labels=labels, wander=self.wander
            )
            yield self._sample(made, target)

    def _sample(self, before: Past, target: Target) -> Sample:
        """Only the oldest frame is seen by the network; of the others there is what motion is found by."""
        oldest = before.frame(before.lag)
        answer, sight = self.teacher(oldest), self.teacher.see(oldest)
        height, width = sight.grey.shape
        small = before.scaled((width, height))
        seen = [
            *(self.teacher.small(small.frame(n), sight) for n in range(before.lag - 1, 0, -1)),
            self.teacher.see(before.still),
        ]
        motion = None
        for now in seen:
            motion, sight = self.teacher.warp.compose(motion, self.teacher.warp.observe(sight, now)), now
        return _stored(self.teacher, answer, motion, before.lag, target)

    def _of_videos(self, clips: Sequence[Clip], count: int) -> Iterator[Sample]:
        """From each clip runs of frames, spread evenly: what is moved is from a run's first."""
        if not count or not clips:
            return
        each = -(-count // len(clips))
        for clip in clips:
            length = sum(1 for _ in self._frames(clip))
            runs = max(1, min(-(-each // _PER_CHAIN), length // (max(LAGS) + 1)))
            step, of_run = length / runs, min(max(LAGS), -(-each // runs))
            frames, at, want = self._frames(clip), 0, 0.0
            for _ in range(runs):
                skipped = islice(frames, max(0, round(want) - at), None)
                pictures = list(islice(skipped, max(LAGS) + 1))
                if len(pictures) < 2:
                    break
                yield from self._run(clip.name, pictures, of_run)
                at, want = max(at, round(want)) + len(pictures), want + max(step, len(pictures))

    def _run(self, name: str, frames: Sequence[ClipFrame], count: int) -> Iterator[Sample]:
        lags = set(self.random.choice(range(1, len(frames)), min(count, len(frames) - 1), replace=False))
        answer = self.teacher(frames[0].image)
        motion, sight = None, self.teacher.see(frames[0].image)
        for lag, frame in enumerate(frames[1:], start=1):
            now = self.teacher.see(frame.image)
            motion, sight = self.teacher.warp.compose(motion, self.teacher.warp.observe(sight, now)), now
            if lag in lags:
                yield _stored(self.teacher, answer, motion, lag, self._target(name, frame))

    def _target(self, name: str, frame: ClipFrame) -> Target:
        answer = self.teacher(frame.image)
        share = picture_share(answer.prepared)
        labels = None if frame.labels is None else _placed(frame.labels, answer.labels.shape, share)
        features = None if answer.features is None else answer.features.astype(np.float16)
        picture = answer.prepared[IMAGE][0].copy()
        return Target(name, picture, _half(answer.scores), answer.labels.copy(), labels, features, share)

    def _frames(self, clip: Clip) -> Iterator[ClipFrame]:
        """As far as they can be decoded; labels only where they mean what the network's classes do."""
        names = None if clip.classes is None else clip.classes.names
        if names != self.teacher.said.classes:
            clip = replace(clip, labels=(None,) * len(clip.images))
        try:
            yield from clip.frames(problem=lambda text: self.warn(f"{clip.path}: {text}"))
        except (DataError, VideoError) as error:
            self.warn(f"{error} The rest of clip {clip.name} is left out.")


def _stored(teacher: Teacher, answer: Answer, motion: Motion | None, lag: int, target: Target) -> Sample:
    if motion is None:
        raise DataError("a frame without one before it; scores are moved from an earlier frame.")
    moved, unexplained = teacher.moved(answer.fused, motion)
    return Sample(_half(moved), _half(unexplained), lag, target)


def _shown(target: Target, array: Array) -> Array:
    """Return a prepared picture or its labels without the padding."""
    width, height = target.size
    return np.ascontiguousarray(array[: round(height * target.share[1]), : round(width * target.share[0])])


def _half(scores: Array) -> Array:
    return np.ascontiguousarray(scores).astype(np.float16)


def _placed(labels: Array, shape: tuple[int, ...], share: tuple[float, float]) -> Array:
    """Labels at the working size; there are none in the padding."""
    height, width = shape
    columns, rows = round(width * share[0]), round(height * share[1])
    found = np.full((height, width), IGNORE, np.uint8)
    y = ((np.arange(rows) + 0.5) * labels.shape[0] / rows).astype(int)
    x = ((np.arange(columns) + 0.5) * labels.shape[1] / columns).astype(int)
    found[:rows, :columns] = labels[y[:, None], x]
    return found
