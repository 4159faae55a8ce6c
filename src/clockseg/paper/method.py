"""Methods, the rows of the paper's tables: ways of running a network on clips, and their scores.

The paper's protocols differ in three things: the first scored frame of a clip, how the result of a fixed rate is made
independent of its phase, and the schedule of the frames right after the fill.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Named, Schedule, frame_oracle, schedule_for
from clockseg.clockwork.step import Memory, fill, step
from clockseg.clockwork.trace import Record, Tally
from clockseg.datasets.clips import Clip, ClipFrame
from clockseg.errors import DataError, UsageError
from clockseg.evaluation.labels import scored_classes
from clockseg.evaluation.metrics import Confusion, band_kind, boundary_band, confusion
from clockseg.types import Image, Labels


def silent(text: str) -> None:
    """Ignore the progress."""


@dataclass(frozen=True)
class Method:
    """One row: a network, whole or truncated, under a schedule.

    ``phases``: the period of a fixed rate. It is run once from each of the first ``phases`` frames on
    and the confusions are added, so that no phase is favoured (the authors' merged histograms). ``first``: the frame at
    which it is filled. ``startup``: the schedules of the frames right after the fill, before ``schedule``.

    >>> from clockseg.clockwork.network import Stage
    >>> Method("skip-frame", StagedNetwork("one", (Stage("a", str.upper),)), phases=2).starts
    range(0, 2)
    """

    name: str
    net: StagedNetwork
    schedule: Schedule | Named = frame_oracle
    phases: int = 1
    first: int = 0
    startup: tuple[Schedule | Named, ...] = ()

    @property
    def starts(self) -> range:
        """The frames at which the runs are filled."""
        return range(self.first, self.first + self.phases)


@dataclass(frozen=True)
class Score:
    """The scores of a method; addable.

    ``scores`` and ``boundary``: against human labels; ``agreement``: with the first method. ``tally``: the firings on all
    scored frames. ``seconds``: of each stage, and last of fusing and finishing, on those frames.
    """

    scores: Confusion
    boundary: Confusion
    agreement: Confusion
    tally: Tally
    seconds: tuple[float, ...]

    def __add__(self, other: Score) -> Score:
        return Score(
            self.scores + other.scores,
            self.boundary + other.boundary,
            self.agreement + other.agreement,
            self.tally + other.tally,
            tuple(a + b for a, b in zip(self.seconds, other.seconds, strict=True)),
        )

    @property
    def fire_rate(self) -> float:
        """The share of the scored frames on which the last stage fired."""
        return self.tally.fires[-1] / self.tally.frames if self.tally.frames else float("nan")


def score(
    methods: Sequence[Method],
    clips: Iterable[Clip],
    *,
    classes: int,
    first_scored: int = 0,
    say: Callable[[str], None] = silent,
) -> list[Score]:
    """Score each method on the labelled frames of all clips from frame ``first_scored`` on.

    The first method is the frame oracle, with which the labels of the others are compared. Frames count from 0 in each clip
    after subsampling. ``say`` gets a sentence on the progress. ``UsageError`` if a method would be scored before it is filled.

    >>> score([], [], classes=2)
    []
    """
    for method in methods:
        if method.starts[-1] > first_scored:
            raise UsageError(
                f"{method.name} is filled at frame {method.starts[-1]} but scored from frame {first_scored} on; "
                "score from a later frame."
            )
    totals = [_nothing(method, classes) for method in methods]
    for clip in clips if methods else ():
        for index, found in enumerate(_score_clip(methods, clip, classes, first_scored, say)):
            totals[index] += found
    return totals


def _nothing(method: Method, classes: int) -> Score:
    none = Confusion.none(classes)
    names = tuple(stage.name for stage in method.net.stages)
    return Score(none, none, none, Tally(names), (0.0,) * (len(names) + 1))


def _score_clip(
    methods: Sequence[Method], clip: Clip, classes: int, first_scored: int, say: Callable[[str], None]
) -> list[Score]:
    runs = [[_Run(method, start) for start in method.starts] for method in methods]
    totals = [_nothing(method, classes) for method in methods]
    mapped = _mapping(methods, clip)
    for t, frame in enumerate(clip):
        say(f"{clip.name}, frame {t}")
        # The runs of other phases have memories of their own, and each sees every frame from its start on.
        found = [[mapped(run.output(t, frame.image)) for run in phases] for phases in runs]
        if t >= first_scored and frame.labels is not None:
            judge = _Judge(clip, frame, classes, found[0][0])
            for index, phases in enumerate(runs):
                for run, output in zip(phases, found[index], strict=True):
                    totals[index] += judge.score(output, run.record)
    return totals


def _mapping(methods: Sequence[Method], clip: Clip) -> Callable[[Labels | None], Any]:
    """Return the map from class ids of the network to those of the clip, which is applied before anything is counted."""
    net = methods[0].net
    names = net.sidecar.classes if net.sidecar is not None else ()
    _, table = scored_classes(clip, names, net) if names else (names, None)
    return lambda labels: labels if labels is None or table is None else table[labels]


class _Run:
    """One run of a method over a clip."""

    def __init__(self, method: Method, start: int) -> None:
        self.net = method.net
        stages = len(method.net)
        self._schedule = schedule_for(method.schedule, stages)
        self._startup = [schedule_for(schedule, stages) for schedule in method.startup]
        self._start = start
        self._memory: Memory | None = None

    def output(self, t: int, image: Image) -> Labels | None:
        """Return the labels for frame t; None before the start of the run."""
        if t < self._start:
            return None
        if self._memory is None:
            output, self._memory = fill(self.net, self._schedule, image)
        else:
            since = self._memory.t
            schedule = self._startup[since] if since < len(self._startup) else self._schedule
            output, self._memory = step(self.net, schedule, self._memory, image)
        return np.asarray(output)

    @property
    def record(self) -> Record:
        """The record of the last frame."""
        if self._memory is None:
            raise UsageError("nothing has run yet.")
        return self._memory.record


class _Judge:
    """A labelled frame, against which outputs are scored."""

    def __init__(self, clip: Clip, frame: ClipFrame, classes: int, oracle: Any) -> None:
        if clip.classes is None or frame.labels is None:
            raise DataError(f"{clip.path} has labels but no class names; add a classes.json next to it.")
        self._truth, self._oracle, self._count = frame.labels, oracle, classes
        self._band = boundary_band(frame.labels, kind=band_kind(clip.classes.names), ignore=clip.classes.ignore)

    def score(self, output: Any, record: Record) -> Score:
        spent = record.seconds
        return Score(
            confusion(self._truth, output, self._count),
            confusion(self._truth, output, self._count, where=self._band),
            confusion(self._oracle, output, self._count),
            Tally(("",) * len(record.fired), 0, 1, tuple(map(int, record.fired)), int(any(record.fired))),
            (*spent.stages, spent.fuse + spent.finish),
        )
