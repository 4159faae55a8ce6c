"""Clocks that go by the frame counter alone (paper, section 4.2: fixed rate)."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, SupportsIndex

from clockseg.clockwork.clock import Decision, Tick, Watch
from clockseg.errors import UsageError


def whole_number(value: Any, what: str, *, least: int = 1) -> int:
    """``value`` if it is a whole number of at least ``least``.

    >>> whole_number(3, "a period")
    3
    """
    if isinstance(value, bool) or not isinstance(value, SupportsIndex) or operator.index(value) < least:
        raise UsageError(f"{what} is {value!r}; it must be a whole number of at least {least}.")
    return operator.index(value)


@dataclass(frozen=True)
class Every:
    """Fires when t = 0 mod ``period``; ``Every(1)`` always.

    >>> [Every(2)(Tick(t, 1, None, None, None, None, 1, 0), None)[0].fire for t in range(1, 5)]
    [False, True, False, True]
    """

    period: int

    def __post_init__(self) -> None:
        whole_number(self.period, "a period")

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """By the frame counter."""
        return Decision(tick.t % self.period == 0), None

    def looks(self, stage: int) -> frozenset[Watch]:
        """At nothing."""
        return frozenset()


@dataclass(frozen=True)
class AtLeastEvery:
    """Fires when the stage has held for ``frames`` frames: a cap on staleness, for use in ``Either``.

    >>> AtLeastEvery(8)(Tick(9, 3, None, None, None, None, 8, 0), None)[0].fire
    True
    """

    frames: int

    def __post_init__(self) -> None:
        whole_number(self.frames, "at_least_every's number of frames")

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """By the frames since the last firing."""
        return Decision(tick.since >= self.frames), None

    def looks(self, stage: int) -> frozenset[Watch]:
        """At nothing."""
        return frozenset()


ALWAYS = Every(1)
