"""A clock on what motion can't explain: no part of the network runs to decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from clockseg.clocks.change import number
from clockseg.clockwork.clock import Decision, Tick, Watch

FULL = 64
"""Grey levels by which a place must be off after the move to count in full; less of it counts for less."""


@dataclass(frozen=True)
class MotionResidual:
    """Fires when the motion composed since the last firing leaves at least ``threshold`` of the picture unexplained.

    The signal is a share, 0..1: the mean over the picture of how far it is off, in parts of ``FULL`` grey levels, when that of
    the last firing is moved to this frame; what came into view counts in full. All places count alike: to weigh those near
    the borders of labels gains nothing (docs/clocks.md). It needs a carry that finds motion, such as ``warp(flow)``.

    >>> MotionResidual("much")
    Traceback (most recent call last):
        ...
    clockseg.errors.UsageError: the threshold is 'much'; it must be a number, such as 0.25.
    """

    threshold: float

    def __post_init__(self) -> None:
        number(self.threshold, "the threshold")

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """From the composed motion alone."""
        signal = float(np.minimum(tick.travel.residual, FULL).mean() / FULL)
        return Decision(signal >= self.threshold, signal), None

    def looks(self, stage: int) -> frozenset[Watch]:
        """At no map: the tick brings the motion."""
        return frozenset()
