"""Liveness: the values of a batch that later calls read, found by a dry run of the same step over all ways to fire.

For schedules that are nested and have no delays, so that on each frame the first stages fire, however many.
"""

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

Live: TypeAlias = Mapping[str, frozenset[str]]
"""By the name of a call: the names of the calls of later batches that take its value."""


def depths(schedule: Schedule) -> tuple[int, ...]:
    """Return the numbers of stages that may fire on a frame under ``schedule``, largest first.

    >>> from clockseg.clocks.rates import alternating, skip_frame
    >>> depths(alternating(3)), depths(skip_frame(2)(3))
    ((3, 2), (3, 0))
    """
    before = (1, *schedule.periods)
    # A stage holds alone if its clock may answer otherwise than that of the stage before it.
    alone = [i for i, period in enumerate(schedule.periods) if period is None or period not in (1, before[i])]
    return (len(schedule), *alone[::-1])


@dataclass(frozen=True)
class Prompted:
    """A clock that watches what its ``parts`` do, and answers ``fires`` in their place."""

    parts: tuple[Clock]
    fires: bool

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        return Decision(self.fires), state


def prompted(schedule: Schedule, depth: int) -> Schedule:
    """Return ``schedule`` with the first ``depth`` stages firing, whatever its clocks would answer."""
    return replace(schedule, clocks=tuple(Prompted((clock,), i < depth) for i, clock in enumerate(schedule.clocks)))


def liveness(net: StagedNetwork, schedule: Schedule) -> Live:
    """Return what later batches read under ``schedule``, in the same frame or in a later one.

    The step runs without a network: after a fill, every depth, and after each of these every depth again. What is
    read later than that is read then as well.
    """
    dry = _Dry()
    _, first = step(net, schedule, None, None, executor=dry)
    schedules = [prompted(schedule, depth) for depth in depths(schedule)]
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
