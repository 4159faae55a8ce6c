"""Liveness: the values of a batch that later calls read, found by a dry run of the same step over all firing patterns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from clockseg.clockwork.clock import Clock, Decision, Tick
from clockseg.clockwork.lazy import Executor, Lazy
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule
from clockseg.clockwork.step import step

Pattern: TypeAlias = tuple[bool, ...]
"""The stages that fire on a frame."""
Live: TypeAlias = Mapping[str, frozenset[str]]
"""By the name of a call: the names of the calls of later batches that take its value."""
MOST = 32
"""Largest number of patterns of a schedule that is analysed; with more, every value is kept."""


def patterns(schedule: Schedule) -> tuple[Pattern, ...]:
    """Return all patterns in which stages may fire under ``schedule``; some that never come may be among them.

    >>> from clockseg.clocks.rates import alternating, exponential
    >>> patterns(alternating(3)), len(patterns(exponential(3)))
    (((True, True, True), (True, True, False)), 3)
    """
    rows: list[Pattern] = [()]
    for i in range(len(schedule)):
        nested = i > 0 and schedule.nested and not schedule.delays[i]
        period = schedule.periods[i]
        same = i > 0 and period is not None and period == schedule.periods[i - 1]
        found: list[Pattern] = []
        for row in rows:
            if nested and not row[-1]:
                answers: tuple[bool, ...] = (False,)
            elif period == 1:
                answers = (True,)
            else:
                answers = (row[-1],) if same else (True, False)
            found += ((*row, fires) for fires in answers)
        rows = found
    return tuple(rows)


@dataclass(frozen=True)
class Prompted:
    """A clock that watches what its ``parts`` do, and answers ``fires`` in their place."""

    parts: tuple[Clock]
    fires: bool

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        return Decision(self.fires), state


def prompted(schedule: Schedule, pattern: Pattern) -> Schedule:
    """Return ``schedule`` with the stages of ``pattern`` firing, whatever its clocks would answer."""
    return replace(schedule, clocks=tuple(map(Prompted, zip(schedule.clocks), pattern)))


def liveness(net: StagedNetwork, schedule: Schedule) -> Live | None:
    """Return what later batches read under ``schedule``, in the same frame or in a later one; None: everything.

    The step runs without a network: after a fill, every pattern, and after each of these every pattern again. What is
    read later than that is read then as well.
    """
    found = patterns(schedule)
    if len(found) > MOST:
        return None
    dry = _Dry()
    _, first = step(net, schedule, None, None, executor=dry)
    schedules = [prompted(schedule, pattern) for pattern in found]
    for one in schedules:
        _, second = step(net, one, first, None, executor=dry)
        for then in schedules:
            step(net, then, second, None, executor=dry)
    return {name: frozenset(readers) for name, readers in dry.live.items()}


@dataclass
class _Dry(Executor):
    """An executor that computes nothing, and notes which calls take values of earlier batches."""

    live: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def force(self, batch: Sequence[Lazy]) -> None:
        here = set(map(id, batch))
        for call in batch:
            for given in call.args:
                if type(given) is Lazy and id(given) not in here:
                    self.live[given.name].add(call.name)
