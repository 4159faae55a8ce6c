"""Samples for a learned clock: its inputs at random ages of the cached values, and the share of labels a firing changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from clockseg.carry import Carry
from clockseg.clocks import Decision, Tick, Watch, difference
from clockseg.clocks.learned import Inputs, values, watched
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


@dataclass(frozen=True)
class _Asker:
    """A clock that notes the inputs it is given, and fires at random ages."""

    inputs: Inputs
    seed: int
    noted: list[dict[str, Array]] = field(default_factory=list, compare=False)
    gates_after: ClassVar[int] = 0

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Decide; ``state``: the age at which to fire next, and the number of firings."""
        age, fires = state or (0, -1)
        if tick.fires != fires:
            age = int(np.random.default_rng((self.seed, len(self.noted))).integers(2, OLDEST + 1))
        self.noted.append(values(self.inputs, tick))
        return Decision(tick.since > age), (age, tick.fires)

    def watches(self, stage: int) -> frozenset[Watch]:
        """Return the maps that the clock in training reads."""
        return watched(self.inputs)


def samples(take: Take, carry: Carry, inputs: Inputs, *, passes: int, seed: int) -> tuple[dict[str, Array], Array]:
    """Return the values of every input, [n, ..], and the target, [n], 0..1: a sample per frame without a firing.

    They are from ``passes`` replays of ``take`` that fire at other random ages each.
    """
    found: list[tuple[dict[str, Array], float]] = []
    for index in range(passes):
        asker = _Asker(inputs, 1000 * seed + index)
        told = list(take.changes(carried(asker, carry)))
        found += [(noted, changed) for noted, (fired, changed) in zip(asker.noted, told, strict=True) if not fired]
    if not found:
        raise DataError("there are no frames to learn from; give videos of at least a second or two.")
    together = {name: np.concatenate([noted[name] for noted, _ in found]) for name in inputs}
    return together, np.array([changed for _, changed in found], np.float32)


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
    learn, score = Take(Recording(net, keep)), Take(Recording(net, keep))
    share = max(SHORTEST, -(-frames // max(1, len(clips))))
    for clip in clips:
        for frame, first, held in _decoded(clip, share, warn, vectors=carry.reads_vectors):
            take = score if held else learn
            output = take.recording.add(frame.picture, vectors=frame.vectors, first=first)
            take.truth.append(_sparse(checked_labels(output, net)))
            done = len(learn.truth) + len(score.truth)
            progress("running the network on every frame", done, min(frames, share * len(clips)))
    if not learn.truth or not score.truth:
        raise DataError("there are no frames to learn from; give videos, clips or folders of at least 10 frames.")
    return learn, score


def _sparse(labels: Array) -> Array:
    """Return the labels of every fourth row and column."""
    return labels[::EVERY, ::EVERY].copy()


def _decoded(clip: Clip, most: int, warn: Warn, *, vectors: bool) -> Iterator[tuple[Frame, bool, bool]]:
    """Yield up to ``most`` frames of ``clip``; for each, True if it is the first to learn from or to score on, and if it is held out.

    ``warn`` is told of the first frame that can't be decoded, after which there are no others, and of a clip that is too short.
    """
    try:
        # A video without a number of frames in its header is decoded twice.
        count = min(most, clip.expected() or sum(1 for _ in clip))
        if count < SHORTEST:
            warn(f"clip {clip.name} has {count} frames; {SHORTEST} are needed. It is left out.")
            return
        end = count - max(2, count // 5)
        frames = replace(clip, labels=(None,) * len(clip.images)).frames(problem=warn, vectors=vectors)
        for index, frame in enumerate(islice(frames, count)):
            yield frame, index in (0, end), index >= end
    except (DataError, VideoError) as error:
        warn(f"{error} The rest of clip {clip.name} is left out.")
