"""A clock on the motion-compensated residual: no stage has to run before it decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from clockseg.clocks.expressions import Written
from clockseg.clockwork.clock import Decision, Tick, Watch
from clockseg.errors import number

FULL = 64
"""The residual in grey levels that counts as 1; smaller residuals count proportionally."""


@dataclass(frozen=True)
class MotionResidual(Written):
    """Fires when the motion-compensated residual since the last firing is at least ``threshold``.

    The signal, 0..1, is the mean over the picture of the difference in grey levels between this frame and that of the last
    firing warped to it, over ``FULL`` and at most 1; pixels that came into view count as 1. It needs a carry that estimates
    motion, such as ``warp(flow)``.

    >>> MotionResidual("much")
    Traceback (most recent call last):
        ...
    clockseg.errors.UsageError: the threshold is 'much'; it must be a number, such as 0.25.
    """

    threshold: float
    written = "motion_residual"
    gates_after: ClassVar[int] = 0
    needs_motion: ClassVar[bool] = True

    def __post_init__(self) -> None:
        number(self.threshold, "the threshold")

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        signal = float(np.minimum(tick.travel.residual, FULL).mean() / FULL)
        return Decision(signal >= self.threshold, signal), None

    def watches(self, stage: int) -> frozenset[Watch]:
        """Return nothing: the tick brings the motion."""
        return frozenset()


motion_residual = MotionResidual
