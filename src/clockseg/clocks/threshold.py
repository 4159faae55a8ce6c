"""Clocks that compare a signal with a threshold, as the paper's adaptive clock does (section 4.3).

Each has a file of its own with the equation of its signal: change.py, confidence.py, motion_residual.py and learned.py.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal

from clockseg.clocks.expressions import Written
from clockseg.clockwork.clock import PICTURE, Clock, Decision, Tick, Watch, name_of
from clockseg.clockwork.facts import facts
from clockseg.errors import UsageError, number, whole_number

Of = Literal["labels", "scores", "features", "pixels"]
NEVER = 3.0
"""The largest threshold: shares end at 1 and relative differences at 2, so no signal reaches it."""


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


class Watching(Thresholded):
    """A clock whose signal is computed from a map of the stage ``watch``, or of the one before its own, or from the picture.

    ``threshold``: 0 (fires always) to ``NEVER``; no share is above 1. ``of``: "labels" and "scores" are of the score map.

    >>> from clockseg.clocks import adaptive
    >>> adaptive(15)
    Traceback (most recent call last):
        ...
    clockseg.errors.UsageError: the threshold is 15; it is compared with a share, so give 0 to 1, such as 0.25 for 25 %.
    """

    watch: int | None
    of: Of = "scores"

    def __post_init__(self) -> None:
        if not 0 <= number(self.threshold, "the threshold") <= NEVER:
            raise UsageError(
                f"the threshold is {self.threshold!r}; it is compared with a share, so give 0 to 1, such as 0.25 for 25 %."
            )
        if self.watch is not None:
            whole_number(self.watch, "watch (a stage's number)")

    @property
    def gates_after(self) -> int | None:
        """The watched stage; 0 for the picture."""
        return 0 if self.of == "pixels" else self.watch

    def watched(self, stage: int) -> Watch:
        """Return the map to watch; ``UsageError`` if there is no stage before ``stage``."""
        if self.of == "pixels":
            return PICTURE
        watch = stage - 1 if self.watch is None else self.watch
        if watch < 1:
            raise UsageError(
                "a clock on labels, scores, features or confidence watches a stage before its own, which stage 1 does "
                'not have; decide for a later stage, or watch the picture with difference(threshold, of="pixels").'
            )
        return Watch("features" if self.of == "features" else "scores", watch)

    def watches(self, stage: int) -> frozenset[Watch]:
        """Return that one map."""
        return frozenset({self.watched(stage)})


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
