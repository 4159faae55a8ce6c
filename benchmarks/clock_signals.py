"""Ways to sum up what motion leaves unexplained, as clocks: what ``motion_residual`` was chosen from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from clockseg.carry import Motion
from clockseg.carry.motion import grid, sampled
from clockseg.clocks import Clock, Decision, Tick, Watch, motion_residual
from clockseg.clocks.motion_residual import FULL
from clockseg.libraries import opencv

LEVEL = 12
REACH = 2
"""Places of the flow's grid around a border of labels that count as near it."""


@dataclass(frozen=True)
class Unexplained:
    """Fires by the share of places off by more than ``LEVEL``, or by the mean residual; all places, or those near borders."""

    threshold: float
    mean: bool = False
    borders: bool = False
    after: ClassVar[int] = 0
    needs_motion: ClassVar[bool] = True

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """``state``: the output, and the places near its borders, so that they are looked for once."""
        motion: Motion = tick.travel
        off = np.minimum(motion.residual, FULL) / FULL if self.mean else motion.residual > LEVEL
        if self.borders:
            state = (
                state if state is not None and state[0] is tick.output else (tick.output, _near(tick.output, motion))
            )
            near = sampled(state[1], grid(motion.flow) + motion.flow, nearest=True).astype(bool)
            off = off[near] if near.any() else off
        signal = float(off.mean())
        return Decision(signal >= self.threshold, signal), state

    def watches(self, stage: int) -> frozenset[Watch]:
        """Return no map."""
        return frozenset()


def _near(output: Any, motion: Motion) -> Any:
    """Where the label map of ``output`` has borders nearby, at the size of the flow's grid: uint8 [h, w]."""
    cv2 = opencv()
    labels = output["labels"][0]
    rows, columns = (round(side * share) for side, share in zip(labels.shape, motion.now.share[::-1], strict=True))
    size = motion.now.grey.shape[::-1]
    small = cv2.resize(labels[:rows, :columns], size, interpolation=cv2.INTER_NEAREST)
    around = np.ones((2 * REACH + 1, 2 * REACH + 1), np.uint8)
    return (cv2.dilate(small, around) != cv2.erode(small, around)).astype(np.uint8)


SIGNALS: dict[str, Callable[[float], Clock]] = {
    "mean residual": motion_residual,
    "mean residual near borders": lambda t: Unexplained(t, mean=True, borders=True),
    "share off by 12": lambda t: Unexplained(t),
    "share off by 12 near borders": lambda t: Unexplained(t, borders=True),
}
