"""A clock with a fixed fire rate: its threshold adapts to the motion."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from clockseg.clocks.combine import part_of
from clockseg.clocks.expressions import Written, text_of
from clockseg.clockwork.clock import Clock, Decision, Tick, ask
from clockseg.clockwork.facts import facts
from clockseg.errors import UsageError, number

GAIN = 0.2
"""The speed at which the threshold adapts: with a larger gain, the rate holds over fewer frames."""
SPAN = 32.0
"""The threshold stays between 1/32 and 32 times its initial value."""


@dataclass(frozen=True)
class Paced(Written):
    """A change clock whose threshold adapts so that its stage fires on the share ``rate`` of frames, whatever the motion.

    With a fixed threshold the fire rate depends on the motion, and differs on other videos than those it was tuned on.
    Here a firing raises the threshold by the factor exp(gain * (1 - rate)), and a frame without lowers it by
    exp(gain * rate), so it is always the clock's own times exp(gain * (firings - rate * frames)). While it is within its
    range (``SPAN``), the number of firings deviates from the rate by at most ln(32) / ``GAIN`` = 17, however long the
    video. It stays above 0, so nothing fires where nothing changes. Firings caused by another clock (``Either``) count.

    >>> from clockseg.clocks import adaptive
    >>> Paced(adaptive(0.1), 50)
    Traceback (most recent call last):
        ...
    clockseg.errors.UsageError: paced at the rate 50; give a share of frames between 0 and 1, such as 0.5.
    """

    clock: Clock
    rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "clock", part_of("paced", self.clock))
        declared = facts(self.clock)
        if declared.threshold is None or declared.below or declared.parts:
            raise UsageError(
                f"{text_of(self.clock)} can't be paced; give a clock whose threshold can adapt: adaptive or difference. "
                "Use either and both around paced(..), not inside it."
            )
        if not 0 < number(self.rate, "paced's rate") < 1:
            raise UsageError(f"paced at the rate {self.rate!r}; give a share of frames between 0 and 1, such as 0.5.")

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Compare the threshold with the signal divided by the threshold's growth, which is also the signal in traces."""
        moved, frames, fires, inner = state or (0.0, 0, 0, None)
        behind = (tick.fires - fires) - self.rate * (tick.t - 1 - frames)
        moved = min(max(moved + GAIN * behind, -math.log(SPAN)), math.log(SPAN))
        decision, inner = ask(self.clock, tick, inner)
        signal = math.nan if decision.signal is None else decision.signal / math.exp(moved)
        strict = getattr(self.clock, "strict", False)
        fire = signal > self.threshold if strict else signal >= self.threshold
        return Decision(fire, signal), (moved, tick.t - 1, tick.fires, inner)

    @property
    def parts(self) -> tuple[Clock, ...]:
        return (self.clock,)

    @property
    def threshold(self) -> float:
        """The clock's threshold, with which the signal in the trace is comparable."""
        return float(self.clock.threshold)  # type: ignore[attr-defined]  # only a clock with a threshold is taken
