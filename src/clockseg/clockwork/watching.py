"""What clocks and carry look at: taken from the stages as they see them, kept no longer than needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from clockseg.clockwork.clock import PICTURE, Clock, Watch, class_ids, facts, own_watches, walk
from clockseg.clockwork.clock import watches as watched
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule
from clockseg.errors import UsageError


class Kept(Protocol):
    """What is needed of a stage's memory."""

    @property
    def trunk(self) -> Any: ...

    @property
    def shown(self) -> Any: ...


def watches(schedule: Schedule, index: int) -> frozenset[Watch]:
    return watched(schedule.clocks[index], index + 1)


def views(net: StagedNetwork, schedule: Schedule, index: int, picture: Any, before: Sequence[Kept]) -> dict[Watch, Any]:
    """What the clock of stage ``index`` looks at now, of the stages before it as it sees them."""
    found = {}
    for watch in watches(schedule, index):
        if watch == PICTURE:
            found[watch] = picture
        else:
            stage, kept = net.stages[watch.stage - 1], before[watch.stage - 1]
            if watch.of == "features":
                found[watch] = stage.features(kept.trunk)
            elif stage.scores is not None:
                found[watch] = stage.scores(kept.shown)
    return found


def keep_picture(schedule: Schedule, image: Any) -> Any:
    """A copy of the picture if anything looks at old ones: the caller may decode the next frame into the same memory."""
    looks = schedule.carry.looks or any(PICTURE in watches(schedule, i) for i in range(len(schedule)))
    return image.copy() if looks and isinstance(image, np.ndarray) else image if looks else None


def check(net: StagedNetwork, schedule: Schedule) -> None:
    """Refuse a schedule whose clocks look at what this network doesn't have, with what to do instead."""
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
    if facts(clock).needs_motion and not schedule.carry.looks:
        raise UsageError(
            f"the clock of stage {number}, {clock}, goes by what motion leaves unexplained, and the carry {schedule.carry} "
            "finds none; give one that does, such as --carry warp or carried(.., warp(flow))."
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
