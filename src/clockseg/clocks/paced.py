"""A clock that keeps its fire rate: its threshold follows the motion."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from clockseg.clocks.change import Change, number
from clockseg.clocks.difference import Difference
from clockseg.clockwork.clock import Decision, Tick, Watch
from clockseg.errors import UsageError

SPAN = 32.0
"""The threshold moves between a 32nd of what it is at the start and 32 times that."""


@dataclass(frozen=True)
class Paced:
    """A change clock whose threshold moves so that its stage fires on the share ``rate`` of frames, whatever the motion.

    A fixed threshold lets the fire rate follow the motion: on other videos than it was tuned on, the rate is another.
    Here every firing raises the threshold by the factor exp(gain * (1 - rate)), and every frame without lowers it by
    exp(gain * rate), so that at any frame it is the clock's own times exp(gain * (firings - rate * frames)). While it is
    inside its range (``SPAN``) the firings are therefore within ln(32) / gain of the rate, 17 for the gain of 0.2,
    however long the video. It stays above 0: where nothing changes at all, nothing fires. Firings that another clock
    caused (``Either``) count. ``gain``: 0 fixes the threshold, a large one fixes the rate at every few frames.

    >>> Paced(Change(0.1), 50)
    Traceback (most recent call last):
        ...
    clockseg.errors.UsageError: paced at the rate 50; give a share of frames between 0 and 1, such as 0.5.
    """

    clock: Change | Difference
    rate: float
    gain: float = 0.2

    def __post_init__(self) -> None:
        if not isinstance(self.clock, Change | Difference):
            raise UsageError(
                f"{self.clock!r} can't be paced; give a clock whose threshold can move: adaptive or difference. "
                "Put either and both around it."
            )
        if not 0 < number(self.rate, "paced's rate") < 1:
            raise UsageError(f"paced at the rate {self.rate!r}; give a share of frames between 0 and 1, such as 0.5.")
        if not 0 <= number(self.gain, "paced's gain") < math.inf:
            raise UsageError(f"paced with gain={self.gain!r}; give a number of 0 or more, such as 0.2.")

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """The clock's signal over what its threshold has grown by: so it meets the fixed threshold, in traces too."""
        moved, frames, fires, inner = state or (0.0, 0, 0, None)
        behind = (tick.fires - fires) - self.rate * (tick.t - 1 - frames)
        moved = min(max(moved + self.gain * behind, -math.log(SPAN)), math.log(SPAN))
        decision, inner = self.clock(tick, inner)
        signal = math.nan if decision.signal is None else decision.signal / math.exp(moved)
        strict = isinstance(self.clock, Change) and self.clock.strict
        fire = signal > self.clock.threshold if strict else signal >= self.clock.threshold
        return Decision(fire, signal), (moved, tick.t - 1, tick.fires, inner)

    def looks(self, stage: int) -> frozenset[Watch]:
        """At what the clock looks at."""
        return self.clock.looks(stage)
