"""The samples that a clock learns from: its inputs at random ages of the cached values, and the change by a firing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from clockseg.carry import Carry
from clockseg.clocks import PICTURE, Decision, Tick, Watch, difference
from clockseg.clocks.learned import Input, signals, value, watched
from clockseg.clocks.maps import change, relative_difference
from clockseg.clocks.motion_residual import FULL
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Named, carried, skip_frame
from clockseg.datasets.clips import Clip
from clockseg.errors import DataError, UsageError, VideoError
from clockseg.execution.tape import Tape, Wanted, wanted
from clockseg.training.head_frames import length
from clockseg.types import Array, Image

EVERY = 4
"""Of the labels every fourth row and column are compared."""
OLDEST = 24
"""Frames that what is shown may be old."""
SHORTEST = 10
"""Frames of a clip that teaches."""


@dataclass(frozen=True)
class Take:
    """Frames on a tape, and the labels that the network gives for each when it runs whole."""

    tape: Tape
    truth: list[Array] = field(default_factory=list)

    def changes(self, schedule: Named) -> Iterator[tuple[bool, float]]:
        """Of each frame under ``schedule`` whether it fires, and the share of labels that aren't the network's own."""
        for index, played in enumerate(self.tape.play(schedule)):
            shown = sparse(played.output.value)
            if not self.tape.begins(index):
                yield any(played.record.fired), change(shown, self.truth[index])


class Samples(NamedTuple):
    """``values``: by input, [n, ..]; ``change``: what to predict, [n]; ``plain``: the signal of the clock it is to beat."""

    values: dict[str, Array]
    change: Array
    plain: Array


@dataclass(frozen=True)
class _Asker:
    """A clock that notes what it is shown, and fires at random ages."""

    inputs: tuple[Input, ...]
    seed: int
    motion: bool
    noted: list[tuple[dict[str, Array], float]] = field(default_factory=list, compare=False)
    after: ClassVar[int] = 0

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """``state``: the history, and how old what is held gets before the next firing."""
        rows, age, fires = state or ((), 0, -1)
        if tick.fires != fires:
            age = int(np.random.default_rng((self.seed, len(self.noted))).integers(2, OLDEST + 1))
        if self.motion:
            rows = (*rows, signals(tick))[-64:]
        values = {one.name: value(one, tick, rows, None) for one in self.inputs}
        self.noted.append((values, _plain(tick, self.motion)))
        return Decision(tick.since > age), (rows, age, tick.fires)

    def watches(self, stage: int) -> frozenset[Watch]:
        """At what the clock in training will, and at what the plain one does."""
        return watched(self.inputs, None) | (frozenset() if self.motion else frozenset({PICTURE}))


def _plain(tick: Tick, motion: bool) -> float:
    if motion:
        return float(np.minimum(tick.travel.residual, FULL).mean() / FULL)
    view = tick.views[PICTURE]
    return relative_difference(np.asarray(view.now), np.asarray(view.reference))


def samples(take: Take, carry: Carry, inputs: tuple[Input, ...], *, passes: int, seed: int) -> Samples:
    """Every frame on which nothing fires, in ``passes`` passes over ``take`` that fire at other random ages each."""
    found: list[tuple[dict[str, Array], float, float]] = []
    for index in range(passes):
        asker = _Asker(inputs, 1000 * seed + index, carry.looks)
        told = list(take.changes(carried(asker, carry)))
        found += [
            (values, changed, plain)
            for (values, plain), (fired, changed) in zip(asker.noted, told, strict=True)
            if not fired
        ]
    if not found:
        raise DataError("there are no frames to learn from; give videos of at least a second or two.")
    values = {one.name: np.concatenate([each[0][one.name] for each in found]) for one in inputs}
    return Samples(values, *(np.array([each[at] for each in found], np.float32) for at in (1, 2)))


def sparse(output: Any) -> Array:
    """Labels at every fourth row and column; ``UsageError`` where a network gives no labels."""
    if not isinstance(output, np.ndarray) or output.ndim != 2 or output.dtype.kind not in "ui":
        raise UsageError(
            "a clock learns from labels [height, width], and this network gives none; cut it with its argmax."
        )
    return output[::EVERY, ::EVERY].copy()


def takes(
    net: StagedNetwork,
    clips: Sequence[Clip],
    carry: Carry,
    *,
    frames: int,
    warn: Callable[[str], None],
    say: Callable[[str, int, int], None],
) -> tuple[Take, Take]:
    """One pass of the network over the first frames of each clip, about ``frames`` in all: what teaches, and what scores.

    The last fifth of what is taken of each clip is kept apart. Clips under ``SHORTEST`` frames are left out.
    """
    keep = _kept(net, carry)
    learn, score, done = Take(Tape(net, keep)), Take(Tape(net, keep)), 0
    share = max(SHORTEST, -(-frames // max(1, len(clips))))
    for clip in clips:
        count = min(share, _length(clip, warn))
        for index, (image, vectors) in enumerate(_images(clip, count, carry.reads_vectors, warn)):
            end = count - max(2, count // 5)
            take = learn if index < end else score
            output = take.tape.add(image, vectors=vectors, first=index in (0, end))
            take.truth.append(sparse(output))
            done += 1
            say("the network on every frame", done, min(frames, share * len(clips)))
    if not len(learn.tape) or not len(score.tape):
        raise DataError("there are no frames to learn from; give videos, clips or folders of at least 10 frames.")
    return learn, score


def _kept(net: StagedNetwork, carry: Carry) -> Wanted:
    return wanted(net, [carried(difference(0, of="pixels"), carry), carried(skip_frame(2), carry)])


def _length(clip: Clip, warn: Callable[[str], None]) -> int:
    try:
        found = length(clip)
    except (DataError, VideoError) as error:
        warn(f"{error} Clip {clip.name} is left out.")
        return 0
    if found < SHORTEST:
        warn(f"clip {clip.name} has {found} frames; {SHORTEST} are needed. It is left out.")
        return 0
    return found


def _images(clip: Clip, count: int, vectors: bool, warn: Callable[[str], None]) -> Iterable[tuple[Image, Any]]:
    if not count:
        return
    frames = clip.frames(problem=lambda text: warn(f"{clip.path}: {text}"), vectors=vectors)
    try:
        for _, frame in zip(range(count), frames, strict=False):
            yield frame.image, frame.vectors
    except (DataError, VideoError) as error:
        warn(f"{error} The rest of clip {clip.name} is left out.")
