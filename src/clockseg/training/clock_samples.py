"""Samples for a learned clock: its inputs at random ages of the cached values, and the share of labels a firing changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import numpy as np

from clockseg.carry import Carry
from clockseg.clocks import Decision, Tick, Watch, difference
from clockseg.clocks.learned import Input, value, watched
from clockseg.clocks.maps import change
from clockseg.clocks.rates import carried, skip_frame
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import ScheduleLike
from clockseg.datasets.clips import Clip
from clockseg.errors import DataError, VideoError
from clockseg.evaluation.labels import checked_labels
from clockseg.execution.recording import Recording, needs
from clockseg.types import Array
from clockseg.video.clip import Frame

Warn = Callable[[str], None]
EVERY = 4
"""Labels are compared in every fourth row and column."""
OLDEST = 24
"""Largest age of cached values, in frames."""
SHORTEST = 10
"""Frames that a clip needs."""


@dataclass(frozen=True)
class Take:
    """Recorded frames, and the labels that the uncut network gives for each."""

    recording: Recording
    truth: list[Array] = field(default_factory=list)

    def changes(self, schedule: ScheduleLike) -> Iterator[tuple[bool, float]]:
        """Yield for each frame under ``schedule`` if it fires, and the share of labels that are not the network's own."""
        for index, played in enumerate(self.recording.play(schedule)):
            shown = _sparse(played.output.value)
            if not self.recording.frames[index].first:
                yield any(played.record.fired), change(shown, self.truth[index])


class Samples(NamedTuple):
    """``values``: by input, [n, ..]; ``change``: the target, [n], 0..1."""

    values: dict[str, Array]
    change: Array


@dataclass(frozen=True)
class _Asker:
    """A clock that notes the inputs it is given, and fires at random ages."""

    inputs: tuple[Input, ...]
    seed: int
    noted: list[dict[str, Array]] = field(default_factory=list, compare=False)
    gates_after: ClassVar[int] = 0

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Decide; ``state``: the age at which to fire next, and the number of firings."""
        age, fires = state or (0, -1)
        if tick.fires != fires:
            age = int(np.random.default_rng((self.seed, len(self.noted))).integers(2, OLDEST + 1))
        self.noted.append({one.name: value(one, tick) for one in self.inputs})
        return Decision(tick.since > age), (age, tick.fires)

    def watches(self, stage: int) -> frozenset[Watch]:
        """Return the maps that the clock in training reads."""
        return watched(self.inputs)


def samples(take: Take, carry: Carry, inputs: tuple[Input, ...], *, passes: int, seed: int) -> Samples:
    """Return a sample per frame without a firing, from ``passes`` replays of ``take`` that fire at other random ages each."""
    found: list[dict[str, Array]] = []
    changes: list[float] = []
    for index in range(passes):
        asker = _Asker(inputs, 1000 * seed + index)
        told = list(take.changes(carried(asker, carry)))
        for values, (fired, changed) in zip(asker.noted, told, strict=True):
            if not fired:
                found.append(values)
                changes.append(changed)
    if not found:
        raise DataError("there are no frames to learn from; give videos of at least a second or two.")
    together = {one.name: np.concatenate([values[one.name] for values in found]) for one in inputs}
    return Samples(together, np.array(changes, np.float32))


def takes(
    net: StagedNetwork,
    clips: Sequence[Clip],
    carry: Carry,
    *,
    frames: int,
    warn: Warn,
    progress: Callable[[str, int, int], None] = lambda what, done, of: None,
) -> tuple[Take, Take]:
    """Run the network once over the first frames of each clip, about ``frames`` in all: a take to learn from, one to score on.

    The last fifth of what is taken of each clip is held out. Clips under ``SHORTEST`` frames are left out. ``DataError`` if
    no frames are left, ``UsageError`` if the network gives no labels.
    """
    keep = needs(net, [carried(difference(0, of="pixels"), carry), carried(skip_frame(2), carry)], outputs=True)
    learn, score, done = Take(Recording(net, keep)), Take(Recording(net, keep)), 0
    share = max(SHORTEST, -(-frames // max(1, len(clips))))
    for clip, length in lengths(clips, warn):
        if length < SHORTEST:
            warn(f"clip {clip.name} has {length} frames; {SHORTEST} are needed. It is left out.")
            continue
        count = min(share, length)
        end = count - max(2, count // 5)
        for index, frame in enumerate(islice(decoded(clip, warn, vectors=carry.reads_vectors), count)):
            take = learn if index < end else score
            output = take.recording.add(frame.picture, vectors=frame.vectors, first=index in (0, end))
            take.truth.append(_sparse(checked_labels(output, net)))
            done += 1
            progress("running the network on every frame", done, min(frames, share * len(clips)))
    if not len(learn.recording) or not len(score.recording):
        raise DataError("there are no frames to learn from; give videos, clips or folders of at least 10 frames.")
    return learn, score


def _sparse(labels: Array) -> Array:
    """Return the labels of every fourth row and column."""
    return labels[::EVERY, ::EVERY].copy()


def lengths(clips: Sequence[Clip], warn: Warn) -> list[tuple[Clip, int]]:
    """Return the clips that can be opened with their numbers of frames; a video without one in its header is decoded."""
    found = []
    for clip in clips:
        try:
            found.append((clip, clip.expected() or sum(1 for _ in clip)))
        except (DataError, VideoError) as error:
            warn(f"{error} Clip {clip.name} is left out.")
    return found


def decoded(clip: Clip, warn: Warn, *, vectors: bool = False) -> Iterator[Frame]:
    """Yield the frames of ``clip`` without labels, up to the first that can't be decoded, of which ``warn`` is told."""
    try:
        yield from replace(clip, labels=(None,) * len(clip.images)).frames(problem=warn, vectors=vectors)
    except (DataError, VideoError) as error:
        warn(f"{error} The rest of clip {clip.name} is left out.")
