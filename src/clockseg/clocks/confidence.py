"""A clock on the confidence of the watched score map (mentioned in the paper's section 4.3, without details)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from clockseg.clocks.change import Watching
from clockseg.clocks.maps import peak
from clockseg.clockwork.clock import Decision, Tick
from clockseg.errors import UsageError


@dataclass(frozen=True)
class Confidence(Watching):
    """Fires depending on the mean softmax peak of the watched score map, 1/classes..1.

    ``sense="below"`` fires if the shallow map is unsure (mean peak < threshold), so that deeper stages help; ``sense="above"``
    fires if it is sure (>=). ``watch``: the number of the stage; None: the stage before.
    """

    threshold: float
    sense: Literal["below", "above"] = "below"
    watch: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sense not in ("below", "above"):
            raise UsageError(f'sense={self.sense!r}; give "below" (fire when unsure) or "above" (fire when sure).')

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        signal = peak(tick.at(self.watched(tick.stage)).watched)
        fire = signal < self.threshold if self.sense == "below" else signal >= self.threshold
        return Decision(fire, signal), None

    @property
    def below(self) -> bool:
        """True if it fires where the signal is under the threshold."""
        return self.sense == "below"


confidence = Confidence
