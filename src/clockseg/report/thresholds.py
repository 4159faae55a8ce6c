"""The thresholds of the clocks of a run."""

from __future__ import annotations

from typing import NamedTuple

from clockseg.clocks.spec import parse_schedule
from clockseg.clockwork.clock import facts
from clockseg.clockwork.schedule import schedule_for
from clockseg.errors import ClocksegError


class Threshold(NamedTuple):
    """A threshold; ``below``: True if the clock fires when its signal is below it."""

    value: float
    below: bool = False


def thresholds(schedule: str, stages: int) -> list[Threshold | None]:
    """Return the threshold of each stage, None without a constant one; ``schedule`` as the command line writes it.

    >>> thresholds("either(adaptive(0.2), at_least_every(8))", 2)
    [None, Threshold(value=0.2, below=False)]
    >>> thresholds("my.module:schedule", 2)
    [None, None]
    """
    try:
        clocks = schedule_for(parse_schedule(schedule, imports=False), stages).clocks
    except (ClocksegError, OSError):
        # The name of a file, or an object of the user, whose code is not run for a page.
        return [None] * stages
    declared = map(facts, clocks)
    return [None if one.threshold is None else Threshold(one.threshold, one.below) for one in declared]
