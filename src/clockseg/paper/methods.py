"""The methods that the paper's tables compare, with the names used there, and their rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from clockseg.clocks import ALWAYS
from clockseg.clockwork.clock import facts
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import (
    Named,
    Schedule,
    alternating,
    exponential,
    fixed_rate,
    pipelined,
    schedule_for,
    skip_frame,
)
from clockseg.errors import UsageError
from clockseg.paper.method import Method, Score
from clockseg.paper.rows import ORACLE, Row

SKIP = "skip-frame"
EXPONENTIAL = "exponential"
ALTERNATING = "alternating (1,1,2)"
ALTERNATING_122 = "alternating (1,2,2)"
BASELINE_3, BASELINE_2 = "3-stage baseline", "2-stage baseline"
PIPELINE_3, PIPELINE_2 = "3-stage pipeline", "2-stage pipeline"
NOTEBOOK_3 = "3-stage pipeline, notebook start-up"
ADAPTIVE = "adaptive at 50 %"
LATE_3, LATE_23 = "stage 3 a frame late", "stages 2 and 3 a frame late"

SHARES = (59, 18, 23)
"""Percent of the time in each stage according to the paper: 59 and 77 cumulated, on an unknown machine."""
_SCHEDULES: dict[str, Schedule | Named] = {
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
    schedule: Schedule | Named, shares: Sequence[float], *, fire_rate: float | Sequence[float] | None = None
) -> float:
    """Return the expected mean cost of a frame under ``schedule``, relative to running every stage (section 5).

    ``shares``: of each stage, in any unit (seconds, multiply-adds, percent), without fusion. ``fire_rate``: 0..1, of the
    adaptive stage and of those that it gates, or one per stage; fixed rates need none. The segments of a pipelined schedule
    run concurrently, so the longest counts: latency, not work.

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
    segments = (sum(shares[index] * rates[index] for index in segment) for segment in made.segments())
    return max(segments) / sum(shares)


def _rates(schedule: Schedule, given: float | Sequence[float] | None) -> tuple[float, ...]:
    """Return the share of frames on which each stage fires."""
    periods = [facts(clock).period for clock in schedule.clocks]
    fixed = tuple(1 / period for period in periods if period)
    first = next((i for i, period in enumerate(periods) if not period), len(schedule))
    if given is None and first == len(schedule):
        return fixed
    if isinstance(given, (int, float)):
        follow = range(first + 1, len(schedule))
        if first < len(schedule) and all(schedule.clocks[i] == ALWAYS and not schedule.delays[i] for i in follow):
            return (*fixed[:first], *[given] * (len(schedule) - first))
    elif given is not None:
        return tuple(given)
    raise UsageError(
        f"fire_rate={given} for the clocks {', '.join(map(repr, schedule.clocks))}; give none where all go by the frame "
        "counter, a number where one does not and gates all stages after it, and one a stage otherwise."
    )


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


def lags(nets: Networks) -> list[Method]:
    """Return methods whose stages run on every frame but one frame late: the third alone, and the second with it."""
    late = (Schedule((ALWAYS,) * 3, delays=(0, 0, 1)), Schedule((ALWAYS,) * 3, delays=(0, 1, 0)))
    return [Method(name, nets.full, schedule) for name, schedule in zip((LATE_3, LATE_23), late, strict=True)]


def price_of_lag(rows: Sequence[Row], data: str) -> str:
    """Return a note on the cost, in points of mean IU, of a lag of one frame in stage 3, then also in stage 2 and in stage 1.

    The last is computed from skip-frame, which equals the frame oracle on half of the frames and is late in all stages on
    the others.
    """
    scores = {row.method: row.mean_iu or 0.0 for row in rows if (row.data, row.source) == (data, "measured")}
    late = (scores[ORACLE], scores[LATE_3], scores[LATE_23], 2 * scores[SKIP] - scores[ORACLE])
    third, second, first = (before - after for before, after in pairwise(late))
    return (
        f"{data}: a lag of one frame in stage 3 costs {third:.1f} points of mean IU, in stage 2 as well {second:.1f} more, "
        f"in stage 1 as well {first:.1f} more. Exponential holds stages 2 and 3 longer than skip-frame does, but never stage 1."
    )


def measured(data: str, methods: Sequence[Method], scores: Sequence[Score]) -> list[Row]:
    """Return one row per method; savings are relative to the seconds of the first, the frame oracle."""
    full = latency(methods[0], scores[0])
    return [
        _row(data, method, score, 1 - latency(method, score) / full)
        for method, score in zip(methods, scores, strict=True)
    ]


def latency(method: Method, score: Score) -> float:
    """Return the seconds from a frame to its output: all stages, or the slowest segment of a pipeline, and the fusion."""
    schedule: Schedule = schedule_for(method.schedule, len(method.net))
    *stages, rest = (spent / max(1, score.tally.frames) for spent in score.seconds)
    return max(sum(stages[i] for i in segment) for segment in schedule.segments()) + rest


def _row(data: str, method: Method, score: Score, saving: float) -> Row:
    truncated = method.name in (BASELINE_3, BASELINE_2)
    return Row(
        data,
        method.name,
        "measured",
        100 * score.scores.mean_iu,
        100 * score.scores.fw_iu,
        100 * score.boundary.mean_iu,
        100 * score.boundary.fw_iu,
        full_frames=None if truncated else 100 * score.fire_rate,
        saving=100 * saving,
    )
