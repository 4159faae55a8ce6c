"""Methods, the rows of the paper's tables: ways of running a network on clips, and their scores.

The paper's protocols differ in three things: the first scored frame of a clip, how the result of a fixed rate is made
independent of its phase, and the schedule of the frames right after the fill.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat, takewhile
from typing import Any, NamedTuple

import numpy as np

from clockseg.clocks import ALWAYS
from clockseg.clocks.rates import alternating, exponential, fixed_rate, frame_oracle, pipelined, skip_frame
from clockseg.clockwork.facts import facts
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule, ScheduleLike, schedule_for
from clockseg.clockwork.step import Memory, fill, step
from clockseg.clockwork.trace import Record, Tally
from clockseg.datasets.clips import Clip
from clockseg.errors import DataError, UsageError
from clockseg.evaluation.labels import scored_classes
from clockseg.evaluation.metrics import Confusion, band_kind, boundary_band, confusion
from clockseg.execution.pipeline import segments
from clockseg.paper.report import ORACLE, Row
from clockseg.types import Array, Image, Labels
from clockseg.video.clip import Frame


@dataclass(frozen=True)
class Method:
    """One row: a network, whole or truncated, under a schedule.

    ``phases``: the period of a fixed rate. It is run once from each of the first ``phases`` frames on
    and the confusions are added, so that no phase is favoured (the authors' merged histograms). ``first``: the frame at
    which it is filled. ``startup``: the schedules of the frames right after the fill, before ``schedule``.
    """

    name: str
    net: StagedNetwork
    schedule: ScheduleLike = frame_oracle
    phases: int = 1
    first: int = 0
    startup: tuple[ScheduleLike, ...] = ()
    note: str = ""

    @property
    def starts(self) -> range:
        """The frames at which the runs are filled."""
        return range(self.first, self.first + self.phases)


@dataclass(frozen=True)
class Score:
    """The scores of a method; addable.

    ``scores`` and ``boundary``: against human labels. ``tally``: the firings on all scored frames. ``seconds``: of each stage,
    and last of fusing and finishing, on those frames.
    """

    scores: Confusion
    boundary: Confusion
    tally: Tally
    seconds: tuple[float, ...]

    def __add__(self, other: Score) -> Score:
        return Score(
            self.scores + other.scores,
            self.boundary + other.boundary,
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
    say: Callable[[str], None] = lambda text: None,
) -> list[Score]:
    """Score each method on the labelled frames of all clips from frame ``first_scored`` on.

    Frames count from 0 in each clip after subsampling. ``say`` gets a sentence on the progress. ``UsageError`` if a method
    would be scored before it is filled.
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
    names = method.net.names
    return Score(none, none, Tally(names), (0.0,) * (len(names) + 1))


def _score_clip(
    methods: Sequence[Method], clip: Clip, classes: int, first_scored: int, say: Callable[[str], None]
) -> list[Score]:
    runs = [[_Run(method, start) for start in method.starts] for method in methods]
    totals = [_nothing(method, classes) for method in methods]
    mapped = _mapping(methods, clip)
    for t, frame in enumerate(clip):
        say(f"{clip.name}, frame {t}")
        # The runs of other phases have memories of their own, and each sees every frame from its start on.
        found = [[run.result(t, frame.image) for run in phases] for phases in runs]
        if t >= first_scored and frame.labels is not None:
            band = _band(clip, frame)
            for index, phases in enumerate(found):
                for labels, record in filter(None, phases):
                    totals[index] += _scored(frame.labels, mapped(labels), record, classes, band)
    return totals


def _mapping(methods: Sequence[Method], clip: Clip) -> Callable[[Labels], Labels]:
    """Return the map from class ids of the network to those of the clip, which is applied before anything is counted."""
    net = methods[0].net
    names = net.sidecar.classes if net.sidecar is not None else ()
    _, table = scored_classes(clip, names, net) if names else (names, None)
    return lambda labels: labels if table is None else table[labels]


class _Run:
    """One run of a method over a clip."""

    def __init__(self, method: Method, start: int) -> None:
        self._net, self._start = method.net, start
        # That of the fill, those of the frames right after it, and that of all others.
        schedules = (method.schedule, *method.startup), repeat(method.schedule)
        self._schedules = (schedule_for(one, len(method.net)) for one in chain(*schedules))
        self._memory: Memory | None = None

    def result(self, t: int, image: Image) -> tuple[Labels, Record] | None:
        """Return the labels and the record of frame t; None before the start of the run."""
        if t < self._start:
            return None
        schedule = next(self._schedules)
        if self._memory is None:
            output, self._memory = fill(self._net, schedule, image)
        else:
            output, self._memory = step(self._net, schedule, self._memory, image)
        return np.asarray(output), self._memory.record


def _band(clip: Clip, frame: Frame) -> Array:
    """Return the pixels near a boundary of the human labels."""
    if clip.classes is None or frame.labels is None:
        raise DataError(f"{clip.path} has labels but no class names; add a classes.json next to it.")
    return boundary_band(frame.labels, kind=band_kind(clip.classes.names), ignore=clip.classes.ignore)


def _scored(truth: Labels, output: Any, record: Record, classes: int, band: Array) -> Score:
    spent = record.seconds
    return Score(
        confusion(truth, output, classes),
        confusion(truth, output, classes, where=band),
        Tally(("",) * len(record.fired), 0, 1, tuple(map(int, record.fired)), int(any(record.fired))),
        (*spent.stages, spent.fuse + spent.finish),
    )


SKIP = "skip-frame"
EXPONENTIAL = "exponential"
ALTERNATING = "alternating (1,1,2)"
ALTERNATING_122 = "alternating (1,2,2)"
BASELINE_3, BASELINE_2 = "3-stage baseline", "2-stage baseline"
PIPELINE_3, PIPELINE_2 = "3-stage pipeline", "2-stage pipeline"
NOTEBOOK_3 = "3-stage pipeline, notebook start-up"
ADAPTIVE = "adaptive at 50 %"

SHARES = (59, 18, 23)
"""Percent of the time in each stage according to the paper: 59 and 77 cumulated, on an unknown machine."""
_SCHEDULES: dict[str, ScheduleLike] = {
    SKIP: skip_frame(2),
    EXPONENTIAL: exponential,
    ALTERNATING: alternating,
    ALTERNATING_122: fixed_rate((1, 2, 2)),
    PIPELINE_3: pipelined(3),
    NOTEBOOK_3: pipelined(3),
    PIPELINE_2: pipelined(2),
    ADAPTIVE: alternating,
}


def relative_cost(
    schedule: ScheduleLike, shares: Sequence[float], *, fire_rate: float | Sequence[float] | None = None
) -> float:
    """Return the expected mean cost of a frame under ``schedule``, relative to running every stage (section 5).

    ``shares``: of each stage, in any unit (seconds, multiply-adds, percent), without fusion. ``fire_rate``: 0..1, one per
    stage, or one of the first stage without a fixed rate and of all after it, which it gates. The segments of a pipelined
    schedule run concurrently, so the longest counts: latency, not work.

    >>> paper = (59, 18, 23)
    >>> relative_cost(exponential, paper), relative_cost(pipelined(3), paper)
    (0.7375, 0.59)
    >>> from clockseg.clocks import adaptive
    >>> relative_cost(adaptive(0.25), paper, fire_rate=0.5)
    0.885
    """
    made = schedule_for(schedule, len(shares))
    if min(shares) < 0 or not 0 < sum(shares) < math.inf:
        raise UsageError(f"shares {tuple(shares)}; give one finite number of at least 0 per stage, not all of them 0.")
    rates = _rates(made, fire_rate)
    if len(rates) != len(made) or not all(0 <= rate <= 1 for rate in rates):
        raise UsageError(f"fire rates {rates} for {len(made)} stages; give one of 0..1 per stage.")
    spent = (sum(shares[index] * rates[index] for index in segment) for segment in segments(made.delays))
    return max(spent) / sum(shares)


def _rates(schedule: Schedule, given: float | Sequence[float] | None) -> tuple[float, ...]:
    """Return the share of frames on which each stage fires; ``UsageError`` if the schedule and ``given`` leave it open."""
    if given is not None and not isinstance(given, (int, float)):
        return tuple(given)
    fixed = tuple(takewhile(bool, (1 / (facts(clock).period or math.inf) for clock in schedule.clocks)))
    if given is None and len(fixed) == len(schedule):
        return fixed
    # The first clock without a fixed rate decides for all stages after it if these fire whenever they may.
    after = range(len(fixed) + 1, len(schedule))
    gates = len(fixed) < len(schedule) and all(schedule.clocks[i] == ALWAYS and not schedule.delays[i] for i in after)
    if given is None or not gates:
        raise UsageError(
            f"fire_rate={given} for the clocks {', '.join(map(repr, schedule.clocks))}; give none if all have a fixed rate, a "
            "number if one has none and gates all stages after it, and otherwise one per stage."
        )
    return (*fixed, *[given] * (len(schedule) - len(fixed)))


SAVINGS = {name: round(100 * (1 - relative_cost(schedule, SHARES)), 2) for name, schedule in _SCHEDULES.items()}
SAVINGS |= {BASELINE_3: SAVINGS[PIPELINE_3], BASELINE_2: SAVINGS[PIPELINE_2]}
"""Percent of the time saved with the paper's shares; of the latency for pipelines and the truncated networks next to them."""


class Networks(NamedTuple):
    """A network in three stages, and the networks truncated after its first and second stage (None: not given)."""

    full: StagedNetwork
    pool3: StagedNetwork | None = None
    pool4: StagedNetwork | None = None


def oracle(nets: Networks) -> list[Method]:
    """Return the frame oracle: every stage on every frame."""
    return [Method(ORACLE, nets.full)]


def baselines(nets: Networks) -> list[Method]:
    """Return the truncated networks, which have the latency of the pipelines without a pipeline."""
    found = [(BASELINE_3, nets.pool3), (BASELINE_2, nets.pool4)]
    return [Method(name, net) for name, net in found if net is not None]


def pipelines(nets: Networks, *, notebook: bool = False) -> list[Method]:
    """Return the two pipelines; ``notebook``: with a third one that starts as in the authors' PASCAL notebook.

    There the second frame is a step of the 2-stage pipeline, so that the third shows stages of frames (2, 1, 1), not
    (2, 1, 0) as in the paper.
    """
    started = [Method(NOTEBOOK_3, nets.full, pipelined(3), startup=(pipelined(2),))] if notebook else []
    return [Method(PIPELINE_3, nets.full, pipelined(3)), *started, Method(PIPELINE_2, nets.full, pipelined(2))]


def fixed_rates(nets: Networks, *, balanced: bool, exponentially: bool = True) -> list[Method]:
    """Return skip-frame, exponential and both definitions of alternating.

    ``balanced``: the scored frames contain each phase equally often (PASCAL's frames 2 to 5), so one run is enough.
    """
    phases = {SKIP: 2} | ({EXPONENTIAL: 4} if exponentially else {}) | {ALTERNATING: 2, ALTERNATING_122: 2}
    return [Method(name, nets.full, _SCHEDULES[name], 1 if balanced else count) for name, count in phases.items()]


def measured(data: str, methods: Sequence[Method], scores: Sequence[Score]) -> list[Row]:
    """Return one row per method; savings are relative to the seconds of the first, the frame oracle."""
    full = latency(methods[0], scores[0])
    return [
        Row(
            data,
            method.name,
            "measured",
            100 * score.scores.mean_iu,
            100 * score.scores.fw_iu,
            100 * score.boundary.mean_iu,
            100 * score.boundary.fw_iu,
            full_frames=None if method.name in (BASELINE_3, BASELINE_2) else 100 * score.fire_rate,
            saving=100 * (1 - latency(method, score) / full),
            note=method.note,
        )
        for method, score in zip(methods, scores, strict=True)
    ]


def latency(method: Method, score: Score) -> float:
    """Return the seconds from a frame to its output: all stages, or the slowest segment of a pipeline, and the fusion."""
    schedule: Schedule = schedule_for(method.schedule, len(method.net))
    *stages, rest = (spent / max(1, score.tally.frames) for spent in score.seconds)
    return max(sum(stages[i] for i in segment) for segment in segments(schedule.delays)) + rest
