"""Clocks that compare a signal with a threshold, as the paper's adaptive clock does (section 4.3).

The equation of each clock's signal is here for ``motion_residual``, and in watching.py and learned.py for the others.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar

from clockseg.clocks.expressions import Written
from clockseg.clockwork.clock import Clock, Decision, Tick, Watch, name_of
from clockseg.clockwork.facts import facts
from clockseg.errors import UsageError, number
from clockseg.types import Array

FULL = 64
"""The residual in grey levels that counts as 1; smaller residuals count proportionally."""


class Thresholded(Written):
    """A clock that fires when its signal is at least ``threshold``: a dataclass that says how to compute the ``signal``.

    ``strict``: it fires only above the threshold. ``below``: it fires below the threshold instead.
    """

    threshold: float
    strict: bool = False
    below: bool = False

    def __post_init__(self) -> None:
        number(self.threshold, "the threshold")

    def signal(self, tick: Tick, state: Any) -> tuple[float, Any]:
        """Return the signal of this frame, and the state for the next one."""
        raise NotImplementedError

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Compare the signal with the threshold."""
        signal, state = self.signal(tick, state)
        if self.below:
            return Decision(signal < self.threshold, signal), state
        return Decision(signal > self.threshold if self.strict else signal >= self.threshold, signal), state


def with_threshold(clock: Clock, threshold: float) -> Clock:
    """Return a copy of the clock with another threshold; ``UsageError`` if it has none.

    >>> from clockseg.clockwork.clock import as_clock
    >>> with_threshold(as_clock(lambda tick, threshold=0.5: tick.fires >= threshold), 4).threshold
    4
    """
    known: list[str] = [one.name for one in fields(clock) if one.init] if is_dataclass(clock) else []
    if "threshold" in known and facts(clock).threshold is not None:
        return replace(clock, threshold=threshold)  # type: ignore[type-var]  # a dataclass
    raise UsageError(
        f"{name_of(clock)} has no threshold that could be set; give a dataclass with a field threshold, a function of "
        "(tick, threshold=..), or a function of the threshold, such as lambda t: either(adaptive(t), at_least_every(8))."
    )


def residual(tick: Tick) -> Array:
    """Return the residual since the last firing in grey levels, [h, w], at most ``FULL``; ``UsageError`` if the motion has none."""
    found: Array | None = getattr(tick.travel, "residual", None)
    if found is None:
        raise UsageError(
            f"the carry's motion, a {type(tick.travel).__name__}, has no residual, which this clock reads. Use a carry with "
            "clockseg.carry.Motion, such as warp(flow)."
        )
    return found.clip(max=FULL)


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
    watches: ClassVar[frozenset[Watch]] = frozenset()

    def signal(self, tick: Tick, state: Any) -> tuple[float, Any]:
        """Return the residual."""
        return float(residual(tick).mean() / FULL), state
