"""Streaming evaluation: frames arrive in real time, and the newest finished output is scored at each frame's deadline.

Frame t arrives t / FPS seconds after frame 0. Its deadline is (t + 1) / FPS, when the next frame arrives. At each deadline the
newest finished output is scored as the labels of frame t, whichever frame it was computed from. A network that takes at most
one frame interval therefore scores as if it took no time.

The network takes the newest frame as soon as it is free. Frames that were overtaken are dropped, and a schedule counts the frames it
sees. Frame 0 is run before the stream begins and is not scored, so that there is an output at every deadline and all networks
are scored on the same frames.

After the streaming accuracy of Li, Wang, Ramanan: Towards Streaming Perception (ECCV 2020), which scores at t / FPS, where
even a network that keeps up shows the previous frame.
"""

from __future__ import annotations

import math
import random
import time
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.datasets.clips import Clip, ClipFrame
from clockseg.errors import DataError, UsageError
from clockseg.evaluation.labels import checked_labels, class_names, scored_classes
from clockseg.evaluation.metrics import Confusion, confusion, finite
from clockseg.evaluation.runs import added
from clockseg.execution.pipeline import Runner
from clockseg.types import Labels

MOST_BYTES = 4 << 30
"""The most bytes of decoded frames in memory: a stream must not wait for a decoder."""


class Timer:
    """The clock of a stream, in seconds of real time."""

    def now(self) -> float:
        """Return the seconds of the machine's monotonic clock."""
        return time.perf_counter()

    def wait(self, until: float) -> None:
        """Return when ``now`` is at least ``until``."""
        time.sleep(max(0.0, until - self.now()))


class Shown(NamedTuple):
    """One output of a stream: its frame, and when it was started and finished, in seconds from the start of the stream.

    ``newest`` and ``oldest``: the newest and the oldest frame from which a stage contributed to it.
    """

    frame: int
    start: float
    finish: float
    newest: int
    oldest: int
    output: Any


@dataclass(frozen=True)
class Stream:
    """Outputs of a network on a stream of ``frames`` frames at ``fps``, in order; the first is that of frame 0."""

    fps: float
    frames: int
    outputs: tuple[Shown, ...]

    def at_deadlines(self) -> list[Shown]:
        """Return the newest finished output at the deadline of each frame from 1 on."""
        finishes, frames = [one.finish for one in self.outputs], [one.frame for one in self.outputs]
        # At most frame t: a network that takes no time may finish frame t + 1 exactly at the deadline of frame t.
        counts = (
            min(bisect_right(finishes, (t + 1) / self.fps), bisect_right(frames, t)) for t in range(1, self.frames)
        )
        return [self.outputs[count - 1] for count in counts]

    @property
    def dropped(self) -> int:
        """The number of frames that were never run because a newer one had arrived."""
        return self.frames - len(self.outputs)

    def ages(self) -> list[float]:
        """Return at each deadline the seconds since the newest frame in the shown output arrived; 1 / fps at best."""
        return [(t + 1 - one.newest) / self.fps for t, one in enumerate(self.at_deadlines(), start=1)]

    def oldest_ages(self) -> list[float]:
        """Return the same for the oldest frame in the shown output."""
        return [(t + 1 - one.oldest) / self.fps for t, one in enumerate(self.at_deadlines(), start=1)]


def stream(runner: Runner, images: Sequence[Any], fps: float, *, timer: Timer | None = None) -> Stream:
    """Run ``runner`` on ``images`` that arrive at ``fps`` by ``timer`` (None: real time); its session is reset first."""
    if not images or not (fps > 0 and math.isfinite(fps)):
        raise UsageError(f"{len(images)} frames at {fps} FPS; give at least one frame, at a number of FPS above 0.")
    timing = timer or Timer()
    runner.session.reset()
    origins: list[int] = []
    outputs = [_run(runner, images, 0, origins, timing, begin=0.0)._replace(start=0.0, finish=0.0)]
    begin = timing.now()
    arrivals = [begin + t / fps for t in range(len(images))]
    while outputs[-1].frame < len(images) - 1:
        newest = bisect_right(arrivals, timing.now()) - 1
        if newest > outputs[-1].frame:
            outputs.append(_run(runner, images, newest, origins, timing, begin))
        else:
            timing.wait(arrivals[newest + 1])
    return Stream(fps, len(images), tuple(outputs))


def _run(runner: Runner, images: Sequence[Any], frame: int, origins: list[int], timing: Timer, begin: float) -> Shown:
    """Run one frame; ``origins``: the frames run since the last fill, which the indices in records refer to."""
    start = timing.now() - begin
    output = runner.session(images[frame])
    finish = timing.now() - begin
    record = runner.session.record
    if record.fill:
        origins.clear()
    origins.append(frame)
    runner.between()
    return Shown(frame, start, finish, origins[max(record.reflects)], origins[min(record.reflects)], output)


@dataclass(frozen=True)
class Streamed:
    """Scores of the outputs shown at the deadlines of streams; addable. Every frame except the first of each clip counts.

    ``scores``: against human labels, on labelled frames; ``agreement``: against the uncut network's labels of the same frame, on
    all frames; ``oracle``: the uncut network's own ``scores``, as if it took no time. ``ages`` and ``oldest_ages``: seconds, as
    in ``Stream``. ``on_time``: the number of deadlines at which the output shown was that of the same frame.
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

    @classmethod
    def nothing(cls, name: str, fps: float, classes: tuple[str, ...]) -> Streamed:
        """Return the scores of no frames, to which others are added."""
        none = Confusion.none(len(classes))
        return cls(name, fps, classes, none, none, none)

    def __add__(self, other: Streamed) -> Streamed:
        found: Streamed = added(self, other, same=("name", "fps", "classes"))
        return found

    @property
    def kept(self) -> float | None:
        """The share of the mIoU of an uncut network that takes no time; None without labels."""
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
    """Stream all clips at ``fps`` through each runner; results are in the order of ``runners``.

    ``net``: its uncut form gives the classes and the labels to agree with; ``classes`` and ``warn`` as in ``evaluate``. Runners
    run one after another, in an order that changes from clip to clip. ``timer``: None for real time, in which a clip of n
    frames takes n / fps seconds per runner. A clip is decoded into memory first: ``DataError`` if it is larger than
    ``MOST_BYTES`` or has fewer than two frames.

    >>> from clockseg.clockwork.network import Stage
    >>> evaluate_streaming(StagedNetwork("one", (Stage("a", str.upper),)), [], [], fps=30, classes=["dark", "light"])
    ()
    """
    names = class_names(net, classes, [(name, runner.session.net) for name, runner in runners])
    totals = [Streamed.nothing(name, fps, names) for name, _ in runners]
    for clip in clips:
        scored, lookup = scored_classes(clip, names, net)
        frames, uncut = _decoded(clip, warn), net.uncut()

        def labels(output: Any, frame: ClipFrame, net: StagedNetwork, lookup: Labels | None = lookup) -> Labels:
            found = checked_labels(output, net, frame)
            return found if lookup is None else lookup[found]

        oracle = [labels(uncut(frame.image), frame, uncut) for frame in frames]
        for index in random.Random(clip.name).sample(range(len(runners)), len(runners)):
            name, runner = runners[index]
            progress(f"{clip.name}: {name}, {len(frames) / fps:.1f} s")
            played = stream(runner, [frame.image for frame in frames], fps, timer=timer)
            shown = [
                labels(one.output, frame, runner.session.net)
                for one, frame in zip(played.at_deadlines(), frames[1:], strict=True)
            ]
            found = _scored(Streamed.nothing(name, fps, scored), played, frames[1:], oracle[1:], shown)
            totals[index] = totals[index] + found if totals[index].ages else found
    return tuple(totals)


def _scored(
    none: Streamed, played: Stream, frames: Sequence[ClipFrame], oracle: Sequence[Labels], shown: Sequence[Labels]
) -> Streamed:
    """Score the label maps shown at the deadlines of ``frames``; ``oracle``: those of the uncut network."""
    scores = agreement = ideal = none.scores
    for frame, wanted, labels in zip(frames, oracle, shown, strict=True):
        agreement += confusion(wanted, labels, len(none.classes))
        if frame.labels is not None:
            scores += confusion(frame.labels, labels, len(none.classes))
            ideal += confusion(frame.labels, wanted, len(none.classes))
    return replace(
        none,
        scores=scores,
        agreement=agreement,
        oracle=ideal,
        ages=tuple(played.ages()),
        oldest_ages=tuple(played.oldest_ages()),
        finished=len(played.outputs) - 1,
        dropped=played.dropped,
        on_time=sum(one.frame == t for t, one in enumerate(played.at_deadlines(), start=1)),
    )


def _decoded(clip: Clip, warn: Callable[[str], None]) -> list[ClipFrame]:
    frames: list[ClipFrame] = []
    size = 0
    for frame in clip.frames(problem=warn):
        frames.append(frame)
        size += frame.image.nbytes
        if size > MOST_BYTES:
            raise DataError(
                f"{clip.path}: more than {MOST_BYTES >> 30} GiB of frames, which a stream holds in memory; "
                f"take fewer frames, for example with --limit {len(frames) // 2}."
            )
        if frame.image.shape != frames[0].image.shape:
            raise DataError(
                f"{clip.path}: the frame size changes at frame {frame.index}; all frames of a stream need the same size."
            )
    if len(frames) < 2:
        raise DataError(f"{clip.path}: fewer than two frames; a stream needs two, of which the first is not scored.")
    return frames


def _ages(seconds: Sequence[float]) -> dict[str, float] | None:
    if not seconds:
        return None
    p95 = float(np.percentile(seconds, 95, method="inverted_cdf"))
    return {"median": round(1000 * median(seconds), 3), "p95": round(1000 * p95, 3)}
