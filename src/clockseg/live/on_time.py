"""A clock for streams: as many firings as the machine has time for, where they pay most, and none that would be late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from clockseg.clocks.combine import MOVEMENT, Budget
from clockseg.clockwork.clock import Clock, Decision, Tick

WEIGHT = 0.2
"""The weight of a firing that took less than those before it, in what firings take."""
FRESH = 0.8
"""Share of the latency that must be left where a firing takes longer than that by itself."""


class Room(NamedTuple):
    """Time available: 1 / ``fps`` seconds for the mean frame, and ``left_seconds`` of ``latency_seconds`` for this one."""

    fps: float
    left_seconds: float
    latency_seconds: float


class _State(NamedTuple):
    fired_seconds: float | None
    inner: Any


@dataclass(frozen=True)
class OnTime:
    """``budget(fps=..)`` of a stream whose rate and latency ``room`` tells at each frame.

    The budget says how many firings there is time for, and which. Of these, one that would make this frame late is left out:
    a frame that had to wait behind a firing is not the next one to fire, so that the network catches up before frames must be
    dropped. Where a firing takes longer than the latency, only frames fire that have at least ``FRESH`` of it left. A hard
    cut refills in any case.

    >>> from clockseg.clockwork.schedule import schedule_for
    >>> schedule_for(OnTime(lambda: Room(fps=30.0, left_seconds=0.1, latency_seconds=0.1)), 3).clocks[1:]
    (Every(period=1), Every(period=1))
    """

    room: Callable[[], Room]
    signal: Clock = MOVEMENT

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Decide as the budget does, but don't fire if this frame would then be late."""
        room, past = self.room(), state or _State(None, None)
        # The first full pass does not count: it compiles.
        fired = None if state is None else _fired(past.fired_seconds, tick)
        asked, inner = Budget(fps=room.fps, signal=self.signal)(tick, past.inner)
        needed = None if fired is None else fired if fired <= room.latency_seconds else FRESH * room.latency_seconds
        late = needed is not None and room.left_seconds < needed and not asked.refill
        return (asked._replace(fire=False) if late else asked), _State(fired, inner)

    @property
    def parts(self) -> tuple[Clock, ...]:
        """The budget."""
        return (Budget(fps=1.0, signal=self.signal),)


def _fired(before: float | None, tick: Tick) -> float | None:
    """Update the estimate of a firing's time: a longer one raises it at once, a shorter one lowers it slowly."""
    last = tick.last_seconds
    if not last or tick.since != 1:
        return before
    return last if before is None else max(last, before + WEIGHT * (last - before))
