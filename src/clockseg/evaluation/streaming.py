"""Streaming evaluation: what is shown at each frame's deadline, scored (see ``clockseg.evaluation.stream``)."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.datasets.clips import Clip, ClipFrame
from clockseg.errors import DataError, UsageError
from clockseg.evaluation.labels import checked_labels, class_names, scored_classes
from clockseg.evaluation.metrics import Confusion, confusion, finite
from clockseg.evaluation.stream import Stream, Timer, stream
from clockseg.execution.pipeline import Runner
from clockseg.types import Labels

MOST_BYTES = 4 << 30
"""Of decoded frames in memory: a stream must not wait for a decoder."""


@dataclass(frozen=True)
class Streamed:
    """Scores of the outputs shown at the deadlines of streams; addable. Every frame but the first of each clip counts.

    ``scores``: against human labels, on labelled frames; ``agreement``: against the uncut network's labels of that frame,
    on all; ``oracle``: the uncut network's own ``scores``, as if it took no time. ``ages`` and ``oldest_ages``: seconds, as
    of ``Stream``. ``on_time``: deadlines at which the output shown was that of their own frame.
    """

    name: str
    fps: float
    classes: tuple[str, ...]
    scores: Confusion
    agreement: Confusion
    oracle: Confusion
    ages: tuple[float, ...] = field(default=(), repr=False)
    oldest_ages: tuple[float, ...] = field(default=(), repr=False)
    finished: int = 0
    dropped: int = 0
    on_time: int = 0

    def __add__(self, other: Streamed) -> Streamed:
        if not isinstance(other, Streamed):
            return NotImplemented
        mine, theirs = (self.name, self.fps, self.classes), (other.name, other.fps, other.classes)
        if mine != theirs:
            raise UsageError(f"streams of {mine} and {theirs} can't be added: give the same name, FPS and classes.")
        return replace(
            self,
            scores=self.scores + other.scores,
            agreement=self.agreement + other.agreement,
            oracle=self.oracle + other.oracle,
            ages=self.ages + other.ages,
            oldest_ages=self.oldest_ages + other.oldest_ages,
            finished=self.finished + other.finished,
            dropped=self.dropped + other.dropped,
            on_time=self.on_time + other.on_time,
        )

    @property
    def kept(self) -> float | None:
        """The share of the mean IU of an uncut network that takes no time; without labels None."""
        return finite(self.scores.mean_iu / self.oracle.mean_iu if self.oracle.mean_iu else math.nan)

    def facts(self) -> dict[str, Any]:
        """Return what ``clockseg evaluate --streaming --json`` prints: plain values, None where there is nothing to report."""
        return {
            "schedule": self.name,
            "mean_iu": finite(self.scores.mean_iu),
            "kept": self.kept,
            "agreement": {
                "mean_iu": finite(self.agreement.mean_iu_of()),
                "pixel_acc": finite(self.agreement.pixel_acc),
            },
            "age_ms": _ages(self.ages),
            "oldest_age_ms": _ages(self.oldest_ages),
            "frames": len(self.ages),
            "finished": self.finished,
            "dropped": self.dropped,
            "on_time": self.on_time,
        }


def evaluate_streaming(
    net: StagedNetwork,
    runners: Sequence[tuple[str, Runner]],
    clips: Iterable[Clip],
    *,
    fps: float,
    classes: Sequence[str] | None = None,
    timer: Timer | None = None,
    progress: Callable[[str], None] = lambda sentence: None,
    warn: Callable[[str], None] = warnings.warn,
) -> tuple[Streamed, ...]:
    """Each runner's streams over all clips, in the order given, each clip's frames coming at ``fps``.

    ``net``: its uncut form gives the labels to agree with and the classes (see ``evaluate``, as for ``classes`` and
    ``warn``). Runners, one clip after another, have the machine to themselves, in an order that changes from clip to clip.
    ``timer``: None for real time: a clip of n frames takes n / fps seconds a runner. A clip is decoded into memory first:
    ``DataError`` if it is larger than ``MOST_BYTES`` or has less than two frames.

    >>> from clockseg.clockwork.network import Stage
    >>> evaluate_streaming(StagedNetwork("one", (Stage("a", str.upper),)), [], [], fps=30, classes=["dark", "light"])
    ()
    """
    names = class_names(net, classes, [(name, runner.session.net) for name, runner in runners])
    totals = [_nothing(name, fps, names) for name, _ in runners]
    for clip in clips:
        scored, lookup = scored_classes(clip, names, net)
        frames = _decoded(clip, warn)
        truth = _Truth(net, frames, scored, lookup)
        found: dict[int, Streamed] = {}
        for index in random.Random(clip.name).sample(range(len(runners)), len(runners)):
            name, runner = runners[index]
            progress(f"{clip.name}: {name}, {len(frames) / fps:.1f} s")
            played = stream(runner, [frame.image for frame in frames], fps, timer=timer)
            found[index] = truth.scored(name, played, runner.session.net)
        totals = [total + found[i] if total.ages else found[i] for i, total in enumerate(totals)]
    return tuple(totals)


class _Truth:
    """References of one clip: its labels, and the uncut network's."""

    def __init__(
        self, net: StagedNetwork, frames: list[ClipFrame], classes: tuple[str, ...], lookup: Labels | None
    ) -> None:
        self.frames, self.classes, self.lookup = frames, classes, lookup
        uncut = net.uncut()
        self.oracle = [self.labels(uncut(frame.image), frame, uncut) for frame in frames]

    def labels(self, output: Any, frame: ClipFrame, net: StagedNetwork) -> Labels:
        """An output as labels of the classes that are scored."""
        found = checked_labels(output, frame, net)
        return found if self.lookup is None else self.lookup[found]

    def scored(self, name: str, played: Stream, net: StagedNetwork) -> Streamed:
        """Score the outputs shown at the deadlines."""
        count = len(self.classes)
        shown = played.at_deadlines()
        scores = agreement = oracle = Confusion.none(count)
        for one, frame, ideal in zip(shown, self.frames[1:], self.oracle[1:], strict=True):
            labels = self.labels(one.output, frame, net)
            agreement += confusion(ideal, labels, count)
            if frame.labels is not None:
                scores += confusion(frame.labels, labels, count)
                oracle += confusion(frame.labels, ideal, count)
        return Streamed(
            name,
            played.fps,
            self.classes,
            scores,
            agreement,
            oracle,
            tuple(played.ages()),
            tuple(played.oldest_ages()),
            len(played.outputs) - 1,
            played.dropped,
            sum(one.frame == t for t, one in enumerate(shown, start=1)),
        )


def _nothing(name: str, fps: float, classes: tuple[str, ...]) -> Streamed:
    none = Confusion.none(len(classes))
    return Streamed(name, fps, classes, none, none, none)


def _decoded(clip: Clip, warn: Callable[[str], None]) -> list[ClipFrame]:
    frames: list[ClipFrame] = []
    size = 0
    for frame in clip.frames(problem=lambda text: warn(f"{clip.path}: {text}")):
        frames.append(frame)
        size += frame.image.nbytes
        if size > MOST_BYTES:
            raise DataError(
                f"{clip.path}: more than {MOST_BYTES >> 30} GiB of frames, which a stream holds in memory; "
                f"take less of it, such as --limit {len(frames) // 2}."
            )
        if frame.image.shape != frames[0].image.shape:
            raise DataError(f"{clip.path}: frames change their size at frame {frame.index}; a stream has one size.")
    if len(frames) < 2:
        raise DataError(f"{clip.path}: fewer than two frames; a stream needs two, of which the first isn't scored.")
    return frames


def _ages(seconds: Sequence[float]) -> dict[str, float] | None:
    if not seconds:
        return None
    p95 = float(np.percentile(seconds, 95, method="inverted_cdf"))
    return {"median": round(1000 * median(seconds), 3), "p95": round(1000 * p95, 3)}
