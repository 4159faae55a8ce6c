"""What a clock is shown, what it answers, and what a clock is."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from clockseg.errors import UsageError

Mask: TypeAlias = Any
"""Places of the frame that fire (the paper's elementwise C), bool [rows, columns]: a stage fires whole if any place does."""


class Watch(NamedTuple):
    """Something a clock can watch: the picture, or the score map or features of stage ``stage`` (1 is the first)."""

    of: str
    stage: int = 0


PICTURE = Watch("picture")


class View(NamedTuple):
    """One watched thing now, at this stage's last firing, and at the frame before."""

    now: Any
    reference: Any
    previous: Any


class Tick(NamedTuple):
    """What a clock is shown at frame ``t`` (counted from the last fill).

    ``stage``: the stage it decides for (1 is the first). ``watched``, ``reference``, ``previous``: the watched map now,
    at this stage's last firing, and at the frame before; the watched map is the score map of the stage before, for
    stage 1 the picture. ``since``: frames since this stage last fired (1 right after a firing). ``fires``: its firings
    after the fill. ``seconds``: wall time.

    Where the carry finds motion (``clockseg.carry.Motion``; else None), ``motion`` is that since the frame before, and
    ``travel`` that since what this stage holds was computed. ``output``: the network's last output as ``finish`` made it,
    of the frame on which it was made.
    ``classes``: the names of the network's classes, by id, where they are known. ``took``: the network's seconds on the frame
    before.
    """

    t: int
    stage: int
    image: Any
    watched: Any
    reference: Any
    previous: Any
    since: int
    fires: int
    motion: Any = None
    seconds: float = 0.0
    views: Mapping[Watch, View] = {}
    travel: Any = None
    output: Any = None
    classes: Sequence[str] = ()
    took: float = 0.0

    def at(self, watch: Watch) -> Tick:
        """This tick with another thing watched."""
        now, reference, previous = self.views[watch]
        return self._replace(watched=now, reference=reference, previous=previous)


class Decision(NamedTuple):
    """A clock's answer; ``signal`` is what the trace shows against the threshold.

    ``refill``: nothing that is held is worth anything any more (a scene cut), so the frame is run as the first one was.
    Clocks keep their states.
    """

    fire: bool | Mask
    signal: float | None = None
    refill: bool = False

    @property
    def fires(self) -> bool:
        """Whether the stage fires at all: true for a mask with any place set."""
        return bool(np.any(self.fire))


@runtime_checkable
class Clock(Protocol):
    """Decides for one stage at each frame after a fill. ``state`` is None at first; the session keeps it."""

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """The decision, and the state to be given back at the next tick."""
        ...

    def looks(self, stage: int) -> frozenset[Watch]:
        """What it needs to be shown when it decides for ``stage``; what nobody looks at is not kept."""
        ...


def watched_by_default(stage: int) -> Watch:
    """The score map of the stage before; for stage 1 the picture."""
    return Watch("scores", stage - 1) if stage > 1 else PICTURE


@dataclass(frozen=True)
class Plain:
    """A plain function of the tick as a clock: it answers with a bool or a ``Decision`` and keeps no state.

    >>> every_third = Plain(lambda tick: tick.t % 3 == 0)
    """

    function: Callable[[Tick], bool | Decision]

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """What the function says."""
        answer = self.function(tick)
        return (answer if isinstance(answer, Decision) else Decision(bool(answer))), None

    def looks(self, stage: int) -> frozenset[Watch]:
        """What it watches by default: nobody knows what a function reads."""
        return frozenset({watched_by_default(stage)})


def as_clock(clock: Clock | Callable[[Tick], bool | Decision]) -> Clock:
    """A clock as it is; a plain function of the tick made one.

    >>> as_clock(lambda tick: tick.since >= 4)  # doctest: +ELLIPSIS
    Plain(function=<function ...>)
    """
    if isinstance(clock, type) or not callable(clock):
        raise UsageError(f"{clock!r} is no clock; give a Clock or a function of the tick.")
    if isinstance(clock, Clock):
        return clock
    needed = [p for p in inspect.signature(clock).parameters.values() if p.default is p.empty]
    if len(needed) != 1:
        raise UsageError(f"{clock!r} takes more than the tick; a clock with state is an object with `looks` as well.")
    return Plain(clock)
