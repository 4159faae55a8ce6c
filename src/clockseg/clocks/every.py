"""Clocks that count frames (paper, section 4.2: fixed rate)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from clockseg.clockwork.clock import Decision, Every, Tick, Watch
from clockseg.errors import whole_number


@dataclass(frozen=True)
class AtLeastEvery:
    """Fires after ``frames`` frames without a firing: a cap on staleness, as in ``either(adaptive(0.25), at_least_every(8))``.

    >>> AtLeastEvery(8)(Tick(9, 3, None, None, None, None, 8, 0), None)[0].fire
    True
    """

    frames: int

    def __post_init__(self) -> None:
        whole_number(self.frames, "at_least_every's number of frames")

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        return Decision(tick.since >= self.frames), None

    def watches(self, stage: int) -> frozenset[Watch]:
        """Return nothing: it counts frames."""
        return frozenset()


every = Every
at_least_every = AtLeastEvery
