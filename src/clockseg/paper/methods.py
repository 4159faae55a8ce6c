"""Methods, the rows of the paper's tables: ways of running a network on clips, and their scores.

The paper's protocols differ in three things: the first scored frame of a clip, how the result of a fixed rate is made
independent of its phase, and the schedule of the frames right after the fill.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np

from clockseg.clocks.rates import alternating, exponential, fixed_rate, frame_oracle, pipelined, skip_frame
from clockseg.clockwork.clock import facts
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import ScheduleLike, schedule_for
from clockseg.clockwork.step import Memory, fill, step
from clockseg.clockwork.trace import Record
from clockseg.datasets.clips import Clip
from clockseg.errors import DataError, UsageError
from clockseg.evaluation.labels import scored_classes
from clockseg.evaluation.metrics import Confusion, band_kind, boundary_band, confusion
from clockseg.execution.pipeline import segments
from clockseg.paper.report import ORACLE, Row
from clockseg.types import Array, Image, Labels


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


@dataclass
class Score:
    """The scores of a method on the scored frames, which are added one by one.

    ``scores`` and ``boundary``: against human labels. ``seconds``: of each stage, and last of fusing and finishing. ``fires``:
    of the last stage.
    """

    scores: Confusion
    boundary: Confusion
    seconds: Array
    frames: int = 0
    fires: int = 0

    def add(self, truth: Labels, output: Labels, record: Record, band: Array) -> None:
        """Add a frame; ``band``: the pixels near a boundary."""
        classes, spent = len(self.scores), record.seconds
        self.scores += confusion(truth, output, classes)
        self.boundary += confusion(truth, output, classes, where=band)
        self.seconds += (*spent.stages, spent.fuse + spent.finish)
        self.frames += 1
        self.fires += record.fired[-1]

    @property
    def fire_rate(self) -> float:
        """The share of the scored frames on which the last stage fired."""
        return self.fires / self.frames if self.frames else math.nan


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
    none = Confusion.none(classes)
    totals = [Score(none, none, np.zeros(len(method.net) + 1)) for method in methods]
    for clip in clips:
        mapped = _mapping(methods[0].net, clip)
        runs = [(total, _Run(method, start)) for method, total in zip(methods, totals) for start in method.starts]
        for t, frame in enumerate(clip):
            say(f"{clip.name}, frame {t}")
            # The runs of other phases have memories of their own, and each sees every frame from its start on.
            found = [(total, run.result(t, frame.image)) for total, run in runs]
            if t >= first_scored and frame.labels is not None:
                band = _band(clip, frame.labels)
                for total, result in found:
                    if result is not None:
                        total.add(frame.labels, mapped(result[0]), result[1], band)
    return totals


def _mapping(net: StagedNetwork, clip: Clip) -> Callable[[Labels], Labels]:
    """Return the map from class ids of the network to those of the clip, which is applied before anything is counted."""
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


def _band(clip: Clip, labels: Labels) -> Array:
    """Return the pixels near a boundary of the human labels."""
    if clip.classes is None:
        raise DataError(f"{clip.path} has labels but no class names; add a classes.json next to it.")
    return boundary_band(labels, kind=band_kind(clip.classes.names), ignore=clip.classes.ignore)


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


def relative_cost(schedule: ScheduleLike, shares: Sequence[float], fire_rates: Sequence[float] | None = None) -> float:
    """Return the expected mean cost of a frame under ``schedule``, relative to running every stage (section 5).

    ``shares``: of each stage, in any unit (seconds, multiply-adds, percent), without fusion. ``fire_rates``: of each stage, 0..1; None:
    those of its clocks, which are fixed. The segments of a pipelined schedule run concurrently, so the longest counts: latency,
    not work.
    """
    made = schedule_for(schedule, len(shares))
    rates = [1 / (facts(clock).period or math.nan) for clock in made.clocks] if fire_rates is None else fire_rates
    if len(rates) != len(made) or not all(0 <= rate <= 1 for rate in rates):
        raise UsageError(f"fire rates {rates} for {len(made)} stages; give one of 0..1 per stage.")
    spent = (sum(shares[index] * rates[index] for index in segment) for segment in segments(made.delays))
    return max(spent) / sum(shares)


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
    *stages, rest = score.seconds / max(1, score.frames)
    delays = schedule_for(method.schedule, len(method.net)).delays
    return float(max(sum(stages[i] for i in segment) for segment in segments(delays)) + rest)
