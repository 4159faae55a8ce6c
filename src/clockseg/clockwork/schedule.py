"""Schedules: one clock and one delay per stage, and one carry. Those of the paper by name are in clockseg.clocks.rates.

Wherever clockseg takes a ``Schedule``, it also takes a function of the number of stages, such as ``alternating``, or a clock,
such as ``adaptive(0.25)``; the stages before those that the clock decides for always fire.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

from clockseg.clockwork.carry import Carry, as_carry, identity
from clockseg.clockwork.clock import (
    ALWAYS,
    PICTURE,
    Clock,
    Every,
    Watch,
    as_clock,
    class_ids,
    declared_gate,
    facts,
    is_clock,
    own_watches,
    walk,
    watches,
)
from clockseg.clockwork.network import StagedNetwork
from clockseg.errors import UsageError


@dataclass(frozen=True)
class Schedule:
    """One clock and one delay per stage, and a carry (paper, section 4).

    ``clocks``: one per stage; functions of the tick are clocks too. ``delays``: 0 if a stage reads its predecessor's
    value of this frame, 1 if that of the previous frame (pipelining); empty for all 0. ``carry``: how cached values are
    propagated. ``nested``: a stage with delay 0 fires only if the one before it does, so a firing always computes the value
    that the uncut network has at this stage.

    >>> Schedule((ALWAYS, ALWAYS), delays=(0, 1)).carry
    Identity()
    """

    clocks: tuple[Clock, ...]
    delays: tuple[int, ...] = ()
    carry: Carry = identity
    nested: bool = True

    def __post_init__(self) -> None:
        clocks = tuple(as_clock(clock) for clock in self.clocks)
        object.__setattr__(self, "clocks", clocks)
        object.__setattr__(self, "delays", tuple(self.delays) or (0,) * len(clocks))
        if not clocks:
            raise UsageError("this schedule has no clocks; give one clock per stage.")
        if len(self.delays) != len(clocks) or set(self.delays) - {0, 1} or self.delays[0]:
            raise UsageError(
                f"delays {self.delays} for {len(clocks)} stages; give 0 or 1 for each stage, and 0 for the first."
            )
        as_carry(self.carry)
        if self.nested:
            self._check_nested()

    def __len__(self) -> int:
        return len(self.clocks)

    @cached_property
    def watched(self) -> tuple[frozenset[Watch], ...]:
        """For each stage, the maps that its clock watches."""
        return tuple(watches(clock, number) for number, clock in enumerate(self.clocks, start=1))

    @cached_property
    def periods(self) -> tuple[int | None, ...]:
        """For each stage, the period that its clock declares; None if it declares none."""
        return tuple(facts(clock).period for clock in self.clocks)

    def __str__(self) -> str:
        """Return the expression that ``parse_schedule`` reads if its periods, or a single clock beside those that always fire, make it."""
        gates = tuple(clock for clock in self.clocks if clock != ALWAYS)
        if any(self.delays) or not self.nested:
            return repr(self)
        if None not in self.periods:
            one = len(set(self.periods)) == 1
            text = f"skip_frame({self.periods[0]})" if one else f"fixed_rate({self.periods})"
        elif len(gates) == 1 and gated(gates, len(self)).clocks == self.clocks:
            text = str(gates[0])
        else:
            return repr(self)
        return text if self.carry == identity else f"carried({text}, {self.carry})"

    def _check_nested(self) -> None:
        for number, (outer, inner) in enumerate(pairwise(self.periods), start=1):
            if outer and inner and inner % outer and not self.delays[number]:
                raise UsageError(
                    f"stage {number + 1} (every {inner} frames) would fire on frames on which stage {number} (every {outer}) holds: "
                    "not nested. Give periods that are multiples of the one before, such as (1, 2, 4), or nested=False."
                )


ByStages: TypeAlias = Callable[[int], Schedule]
"""A schedule for any number of stages, as a function of that number."""
ScheduleLike: TypeAlias = Schedule | ByStages | Clock
"""A schedule, a function of the number of stages, or a clock."""


def gated(clocks: tuple[Clock, ...], stages: int) -> Schedule:
    """Return the schedule of ``clocks`` for consecutive stages; the stages before them always fire, those after them follow.

    The first clock belongs to the stage after ``Facts.gates_after``; by default the clocks belong to the last stages. Stages after the
    last clock fire when it does (nested firing).

    >>> gated((lambda tick: tick.since >= 4,), 3).clocks[:2]
    (Every(period=1), Every(period=1))
    """
    found = {after for after in map(declared_gate, clocks) if after is not None}
    first = found.pop() if found else stages - len(clocks)
    if first < 0:
        raise UsageError(f"{len(clocks)} clocks or thresholds for a network of {stages} stages; give at most {stages}.")
    if first + len(clocks) > stages:
        raise UsageError(
            f"a clock for the stages after stage {first} (its gates_after, or watch=), but the network has {stages} stages. "
            f"Give at most {stages - len(clocks)}; gates_after = 0 stands for the whole network."
        )
    period = facts(clocks[-1]).period
    follows = Every(period) if period else ALWAYS
    return Schedule((ALWAYS,) * first + clocks + (follows,) * (stages - first - len(clocks)))


def schedule_for(schedule: ScheduleLike, stages: int) -> Schedule:
    """Return ``schedule`` as a ``Schedule`` for ``stages`` stages; ``UsageError`` if it is none or has another number of stages.

    >>> from clockseg import exponential
    >>> schedule_for(exponential, 3).clocks
    (Every(period=1), Every(period=2), Every(period=4))
    """
    made: Any = schedule
    if is_clock(schedule):
        made = gated((as_clock(schedule),), stages)
    elif callable(made):
        try:
            made = made(stages)
        except (AttributeError, TypeError) as error:
            raise UsageError(
                f"{schedule!r} failed as a function of the number of stages ({error}); give a Schedule or such a function. The argument of "
                "a clock must be named tick."
            ) from error
    if not isinstance(made, Schedule):
        found = repr(schedule) if made is schedule else f"{schedule!r} returned {made!r}, which"
        raise UsageError(
            f"{found} is not a schedule; give one such as clockseg.alternating or clockseg.adaptive(0.25), or text through "
            "clockseg.parse_schedule."
        )
    if len(made) != stages:
        raise UsageError(f"the schedule has {len(made)} stages and the network {stages}; give one clock per stage.")
    return made


def check(net: StagedNetwork, schedule: Schedule) -> None:
    """Raise ``UsageError`` if a clock of the schedule watches a map or class that this network does not have, or needs motion."""
    for number, clock in enumerate(schedule.clocks, start=1):
        for part in walk(clock):
            if facts(part).needs_motion and not schedule.carry.estimates_motion:
                raise UsageError(
                    f"the clock of stage {number}, {part}, needs motion, and the carry {schedule.carry} estimates none. Give "
                    'carried(.., warp(flow)) as the schedule, or --carry "warp(flow)" where a command has it.'
                )
            class_ids(facts(part).classes, net.classes)
            for watch in own_watches(part, number):
                _check_watch(net, part, number, watch)


def _check_watch(net: StagedNetwork, clock: Clock, number: int, watch: Watch) -> None:
    if watch == PICTURE:
        return
    if not 1 <= watch.stage < number:
        raise UsageError(
            f"the clock of stage {number}, {clock}, watches the {watch.of} of stage {watch.stage}; it may watch the stages before it"
            + (f", 1 to {number - 1}." if number > 1 else ': for stage 1 only the picture, difference(of="pixels").')
        )
    stage = net.stages[watch.stage - 1]
    # A clock that declares no maps may not read them at all; it gets None.
    if watch.of == "scores" and stage.scores is None and facts(clock).watches is not None:
        raise UsageError(
            f"network {net.name!r} has no class scores at stage {watch.stage} ({stage.name}); "
            'watch its features, such as either(difference(0.1, of="features"), at_least_every(8)), or the picture, as '
            "motion_residual, budget and fixed rates do without scores."
        )
