"""The thresholds that a run's clocks compare their signals with."""

from __future__ import annotations

from typing import NamedTuple

from clockseg.clocks import (
    Both,
    Change,
    Clock,
    Confidence,
    Difference,
    Either,
    Invert,
    Learned,
    MotionResidual,
    Paced,
)
from clockseg.clocks.spec import parse_schedule
from clockseg.clockwork.schedule import schedule_for
from clockseg.errors import ClocksegError


class Threshold(NamedTuple):
    """A threshold; ``below``: the clock fires where its signal is under it, not over it."""

    value: float
    below: bool = False


def thresholds(schedule: str, stages: int) -> list[Threshold | None]:
    """A threshold for each stage, None where its clock has none that stays; ``schedule`` as the command line writes it.

    >>> thresholds("either(adaptive(0.2), at_least_every(8))", 2)
    [None, Threshold(value=0.2, below=False)]
    >>> thresholds("my.module:schedule", 2)
    [None, None]
    """
    try:
        clocks = schedule_for(parse_schedule(schedule, imports=False), stages).clocks
    except (ClocksegError, OSError):
        # The name of a file, or an object of the user's: it is not run for a page's sake.
        return [None] * stages
    return [_of(clock) for clock in clocks]


def _of(clock: Clock) -> Threshold | None:
    match clock:
        case Confidence():
            return Threshold(clock.threshold, clock.sense == "below")
        case Change() | Difference() | Learned() | MotionResidual():
            return Threshold(clock.threshold)
        case Paced():
            # Its trace shows the signal in units of the fixed threshold.
            return _of(clock.clock)
        case Invert():
            inner = _of(clock.clock)
            return None if inner is None else Threshold(inner.value, not inner.below)
        case Either() | Both():
            return next((found for found in map(_of, clock.clocks) if found is not None), None)
    return None
