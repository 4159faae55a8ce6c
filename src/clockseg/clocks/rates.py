"""Schedules by name, and with another carry: functions of the number of stages that print as the text that they are read from.

Those of the paper at fixed rates are here: the baselines, the fixed rates of section 4.2 and the pipelines of section 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import update_wrapper
from typing import Any

from clockseg.clocks.expressions import text_of
from clockseg.clockwork.carry import Carry, as_carry
from clockseg.clockwork.clock import ALWAYS, Every
from clockseg.clockwork.schedule import ByStages, Schedule, ScheduleLike, schedule_for
from clockseg.errors import UsageError, whole_number


class NamedSchedule:
    """A function of the number of stages that prints as ``text``, the expression for it; by default the function's name."""

    def __init__(self, function: ByStages, text: str = "") -> None:
        update_wrapper(self, function)
        self.function, self.text = function, text or function.__name__

    def __call__(self, stages: int) -> Schedule:
        """Return the schedule for so many stages."""
        return self.function(stages)

    def __repr__(self) -> str:
        return self.text

    def __reduce__(self) -> str | tuple[Any, ...]:
        return self.text if self.text.isidentifier() else (NamedSchedule, (self.function, self.text))


@NamedSchedule
def frame_oracle(stages: int) -> Schedule:
    """Fire every stage on every frame.

    >>> frame_oracle(2).clocks
    (Every(period=1), Every(period=1))
    """
    return Schedule((ALWAYS,) * whole_number(stages, "the number of stages"))


@NamedSchedule
def alternating(stages: int) -> Schedule:
    """Fire the last stage on every other frame: periods (1, .., 1, 2) (paper, section 4.2 and its tables).

    >>> alternating(3).clocks[-1]
    Every(period=2)
    """
    return Schedule((*(ALWAYS,) * (stages - 1), Every(2)))


@NamedSchedule
def exponential(stages: int) -> Schedule:
    """Fire stage l on every 2^(l-1)-th frame (paper, section 4.2).

    >>> exponential(3).clocks
    (Every(period=1), Every(period=2), Every(period=4))
    """
    return Schedule(tuple(Every(2**i) for i in range(stages)))


def skip_frame(n: int) -> NamedSchedule:
    """Fire the whole network on every ``n``-th frame and hold the output in between.

    >>> skip_frame(2)(3).clocks
    (Every(period=2), Every(period=2), Every(period=2))
    """
    whole_number(n, "skip_frame's n")
    return NamedSchedule(lambda stages: Schedule((Every(n),) * stages), f"skip_frame({n})")


def fixed_rate(periods: Sequence[int], *, nested: bool = True) -> NamedSchedule:
    """Fire stage l on frames t = 0 mod ``periods[l]`` (paper, section 4.2). ``nested=False`` allows periods such as (1, 2, 3).

    >>> fixed_rate((1, 2, 2))(3).clocks
    (Every(period=1), Every(period=2), Every(period=2))
    """
    if isinstance(periods, (str, int)) or not isinstance(periods, Sequence):
        raise UsageError(f"fixed_rate({periods!r}); give one period per stage, such as fixed_rate((1, 2, 4)).")
    made = Schedule(tuple(Every(period) for period in periods), nested=nested)
    text = f"fixed_rate({tuple(periods)}{'' if nested else ', nested=False'})"
    return NamedSchedule(lambda stages: schedule_for(made, stages), text)


def pipelined(k: int) -> NamedSchedule:
    """Fire every stage, in a pipeline of ``k`` segments: the last k - 1 stages read the previous frame's values (section 4.1).

    >>> pipelined(3)(3).delays
    (0, 1, 1)
    """
    whole_number(k, "pipelined's k")

    def made(stages: int) -> Schedule:
        if k > stages:
            raise UsageError(f"pipelined({k}) for a network of {stages} stages; k is at most the number of stages.")
        return Schedule((ALWAYS,) * stages, delays=(0,) * (stages - k + 1) + (1,) * (k - 1))

    return NamedSchedule(made, f"pipelined({k})")


def carried(schedule: ScheduleLike, carry: Carry) -> NamedSchedule:
    """Return ``schedule`` with another carry.

    >>> from clockseg.carry import Flow, Warp
    >>> print(carried(skip_frame(4), Warp(Flow()))(3).carry)
    warp(flow)
    """
    as_carry(carry)
    text = f"carried({text_of(schedule)}, {text_of(carry)})"
    return NamedSchedule(lambda stages: replace(schedule_for(schedule, stages), carry=carry), text)
