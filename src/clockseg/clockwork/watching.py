"""Checks of a schedule against a network."""

from __future__ import annotations

from clockseg.clockwork.clock import PICTURE, Clock, Watch, class_ids, facts, own_watches, walk
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule
from clockseg.errors import UsageError


def check(net: StagedNetwork, schedule: Schedule) -> None:
    """Raise ``UsageError`` if a clock of the schedule watches a map that this network does not have, or needs motion."""
    for index, clock in enumerate(schedule.clocks):
        for part in walk(clock):
            _check_motion(schedule, part, index + 1)
            _check_classes(net, part)
            for watch in own_watches(part, index + 1):
                _check_watch(net, part, index + 1, watch)


def check_replayable(clock: Clock, number: int) -> None:
    """Raise ``UsageError`` if the answers of the clock of stage ``number``, or of one of its parts, can't be replayed."""
    for part in walk(clock):
        if reason := facts(part).not_replayable:
            raise UsageError(f"the clock of stage {number}, {part}, can't be replayed: {reason}")


def _check_motion(schedule: Schedule, clock: Clock, number: int) -> None:
    if facts(clock).needs_motion and not schedule.carry.estimates_motion:
        raise UsageError(
            f"the clock of stage {number}, {clock}, needs motion, and the carry {schedule.carry} estimates none. Try "
            '--carry "warp(flow)", or carried(.., warp(flow)) in the schedule.'
        )


def _check_classes(net: StagedNetwork, clock: Clock) -> None:
    wanted = facts(clock).classes
    known = net.classes if wanted else ()
    for one in class_ids(wanted, known):
        if known and one >= len(known):
            raise UsageError(f"network {net.name!r} has no class {one}; its ids are 0 to {len(known) - 1}.")


def _check_watch(net: StagedNetwork, clock: Clock, number: int, watch: Watch) -> None:
    if watch == PICTURE:
        return
    if not 1 <= watch.stage < number:
        raise UsageError(
            f"the clock of stage {number} watches the {watch.of} of stage {watch.stage}; it may watch the stages before it"
            + (f", 1 to {number - 1}." if number > 1 else ': for stage 1 only the picture, difference(of="pixels").')
        )
    stage = net.stages[watch.stage - 1]
    if watch.of == "scores" and stage.scores is None and hasattr(clock, "watches"):
        raise UsageError(
            f"network {net.name!r} has no class scores at stage {watch.stage} ({stage.name}); "
            'watch its features: difference(threshold, of="features").'
        )
