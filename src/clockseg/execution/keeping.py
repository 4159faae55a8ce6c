"""What of a frame a schedule reads again: only that need be kept of it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from clockseg.clocks import PICTURE, Clock, Decision, Tick, Watch
from clockseg.clockwork.carry import identity
from clockseg.clockwork.carrying import how, moves_whole
from clockseg.clockwork.clock import facts
from clockseg.clockwork.clock import watches as watched
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule
from clockseg.clockwork.together import Keep
from clockseg.clockwork.watching import watches


def looks_at_maps(schedule: Schedule, index: int) -> bool:
    """Whether the clock of stage ``index`` looks at more than the picture: then the stages before it must have run."""
    return any(watch != PICTURE for watch in watches(schedule, index))


def together(schedule: Schedule, index: int) -> bool:
    """Whether stage ``index`` surely fires if the one before it does, in a nested schedule without a delay between them."""
    period = facts(schedule.clocks[index]).period
    return period == 1 or (period is not None and period == facts(schedule.clocks[index - 1]).period)


def everything(net: StagedNetwork) -> Keep:
    """All trunks, held values and groups: what a step keeps that knows nothing of the next."""
    return Keep.all(len(net), [group.name for group in net.groups])


def needed(net: StagedNetwork, schedule: Schedule) -> Keep:
    """What later runs of a session under ``schedule`` read, in this frame or in those to come.

    A trunk: where the next stage may run later than this one. A held value: where groups may run without its stage
    having fired just before, together with them. A score map: where a clock watches it.
    """
    watched = frozenset().union(*(watches(schedule, index) for index in range(len(schedule))))
    features = frozenset(watch.stage - 1 for watch in watched if watch.of == "features")
    if _runs_whole(schedule) and not watched - {PICTURE} and not _reads_a_stage(net):
        return _fused(net, schedule)
    scores = frozenset(watch.stage - 1 for watch in watched if watch.of == "scores")
    if not schedule.nested or len(schedule.segments()) > 1 or schedule.carry != identity:
        return everything(net)._replace(scores=scores)
    stages = range(len(net))
    asked = frozenset(index for index in stages if looks_at_maps(schedule, index))
    trunks = frozenset(index - 1 for index in asked if index) | features
    # These fire whenever any stage does.
    leading = frozenset(i for i in stages if all(together(schedule, before) for before in range(1, i + 1)))
    held = frozenset(index for index in stages if index not in leading or any(later > index for later in asked))
    return Keep(trunks, held, scores, _rested(net, leading))


def _runs_whole(schedule: Schedule) -> bool:
    """Whether all stages fire or none, and the carry then moves what was fused."""
    stages = range(1, len(schedule))
    alone = len(schedule.segments()) == 1 and schedule.nested and moves_whole(schedule)
    return alone and all(together(schedule, index) for index in stages)


def _reads_a_stage(net: StagedNetwork) -> bool:
    return net.correction is not None and net.correction.reads is not None


def _fused(net: StagedNetwork, schedule: Schedule) -> Keep:
    """What is fused, if that is moved; of a network without groups, what its last stage holds."""
    none: Keep = Keep.all(0, ())
    if how(net, schedule.carry, (False,) * len(net)) == "output":
        return none
    if net.groups:
        return none._replace(groups=frozenset({net.last}))
    return none._replace(held=frozenset({len(net) - 1}))


def _rested(net: StagedNetwork, leading: frozenset[int]) -> frozenset[str]:
    """The groups that may rest on a frame on which others run: those made from no stage that fires on every such frame."""
    changing = {net.stages[index].name for index in leading}
    found: list[str] = []
    for group in net.groups:
        if changing.intersection(group.reads):
            changing.add(group.name)
        else:
            found.append(group.name)
    return frozenset(found)


def ends(schedule: Schedule) -> Sequence[int]:
    """The stages (0 is the first) that may be the last to fire on a frame, under a nested schedule.

    >>> from clockseg.clockwork.schedule import alternating, exponential
    >>> ends(alternating(3)), ends(exponential(3))
    ([1, 2], [0, 1, 2])
    """
    last = len(schedule) - 1
    return [i for i in range(last) if not together(schedule, i + 1)] + [last]


@dataclass(frozen=True)
class _Settled:
    """A clock that looks where ``clock`` looks and always says the same."""

    clock: Clock
    fires: bool

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        return Decision(self.fires), None

    def watches(self, stage: int) -> frozenset[Watch]:
        return watched(self.clock, stage)


def settled(schedule: Schedule) -> Iterator[Schedule]:
    """``schedule`` with the clocks' answers given: for each stage that may be the last to fire on a frame, and for none
    where something is computed then."""
    for last in (*ends(schedule), *([-1] if moves_whole(schedule) else [])):
        yield replace(schedule, clocks=tuple(_Settled(c, i <= last) for i, c in enumerate(schedule.clocks)))


def pattern(schedule: Schedule) -> Hashable:
    """What decides which parts run together under ``schedule``; the same for schedules that need the same models."""
    looks = tuple(watches(schedule, index) for index in range(len(schedule)))
    return looks, tuple(ends(schedule)), schedule.delays, schedule.nested, str(schedule.carry)
