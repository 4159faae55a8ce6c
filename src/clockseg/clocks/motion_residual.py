"""A clock on the motion-compensated residual: no stage has to run before it decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from clockseg.clocks.threshold import Thresholded
from clockseg.clockwork.clock import Tick, Watch
from clockseg.errors import UsageError
from clockseg.types import Array

FULL = 64
"""The residual in grey levels that counts as 1; smaller residuals count proportionally."""


def residual(tick: Tick) -> Array:
    """Return the residual since the last firing in grey levels, [h, w], at most ``FULL``; ``UsageError`` if the motion has none."""
    found: Array | None = getattr(tick.travel, "residual", None)
    if found is None:
        raise UsageError(
            f"the carry's motion, a {type(tick.travel).__name__}, has no residual, which this clock reads. Use a carry with "
            "clockseg.carry.Motion, such as warp(flow)."
        )
    least: Array = np.minimum(found, FULL)
    return least


@dataclass(frozen=True)
class MotionResidual(Thresholded):
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
    gates_after: ClassVar[int] = 0
    needs_motion: ClassVar[bool] = True

    def signal(self, tick: Tick, state: Any) -> tuple[float, Any]:
        """Return the residual."""
        return float(residual(tick).mean() / FULL), state

    def watches(self, stage: int) -> frozenset[Watch]:
        """Return nothing: the tick brings the motion."""
        return frozenset()
