"""A clock on the confidence of the watched score map (mentioned in the paper's section 4.3, without details)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from clockseg.clocks.threshold import Watching
from clockseg.clockwork.clock import Tick
from clockseg.errors import UsageError
from clockseg.types import Array


@dataclass(frozen=True)
class Confidence(Watching):
    """Fires depending on the mean softmax peak of the watched score map, 1/classes..1.

    ``sense="below"`` fires if the shallow map is unsure (mean peak < threshold), so that deeper stages help; ``sense="above"``
    fires if it is sure (>=). ``watch``: the number of the stage; None: the stage before.
    """

    threshold: float
    sense: Literal["below", "above"] = "below"
    watch: int | None = None
    below: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sense not in ("below", "above"):
            raise UsageError(f'sense={self.sense!r}; give "below" (fire when unsure) or "above" (fire when sure).')
        object.__setattr__(self, "below", self.sense == "below")

    def signal(self, tick: Tick, state: Any) -> tuple[float, Any]:
        """Return the mean peak."""
        return peak(tick.at(self.watched(tick.stage)).watched), state


def peak(scores: Array) -> float:
    """Return the mean over cells of the largest softmax probability, 1/classes..1.

    >>> peak(np.zeros((1, 4, 2, 2)))
    0.25
    """
    scores = np.ascontiguousarray(scores)  # the memory layout decides the order of additions, and so the last digit
    if scores.ndim != 4:
        raise UsageError(f"confidence needs a score map, [n, classes, h, w]; this array has shape {scores.shape}.")
    top = scores.max(axis=1, keepdims=True)
    return float(np.mean(1.0 / np.exp(scores - top).sum(axis=1)))
