"""A clock on how sure the watched map is (the paper's section 4.3 names it and leaves it open)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from clockseg.clocks.change import threshold
from clockseg.clocks.maps import peak
from clockseg.clockwork.clock import Decision, Tick, Watch, watched_by_default
from clockseg.errors import UsageError


@dataclass(frozen=True)
class Confidence:
    """Mean softmax peak of this frame's watched score map alone, 1/classes..1; no memory of other frames.

    ``sense="below"`` fires where the shallow map is unsure (mean peak < threshold), so that deeper stages help;
    ``sense="above"`` where it is sure (>=), so that they run when there is something to see.
    """

    threshold: float
    sense: Literal["below", "above"] = "below"
    watch: int | None = None

    def __post_init__(self) -> None:
        threshold(self.threshold)
        if self.sense not in ("below", "above"):
            raise UsageError(f'sense={self.sense!r}; give "below" (fire when unsure) or "above" (fire when sure).')

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """The signal is the mean peak."""
        signal = peak(tick.at(self._watches(tick.stage)).watched)
        fire = signal < self.threshold if self.sense == "below" else signal >= self.threshold
        return Decision(fire, signal), None

    def looks(self, stage: int) -> frozenset[Watch]:
        """At one score map."""
        return frozenset({self._watches(stage)})

    def _watches(self, stage: int) -> Watch:
        watch = watched_by_default(stage) if self.watch is None else Watch("scores", self.watch)
        if watch.stage < 1:
            raise UsageError("confidence needs a score map to watch, and stage 1 comes before any; gate a later stage.")
        return watch
