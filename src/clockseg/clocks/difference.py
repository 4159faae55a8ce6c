"""Clocks on how much a map of numbers differs: scores, features or the pixels themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from clockseg.clocks.change import Reference, check_reference, threshold
from clockseg.clocks.maps import relative_difference
from clockseg.clockwork.clock import PICTURE, Decision, Tick, Watch
from clockseg.errors import UsageError

Of = Literal["scores", "features", "pixels"]


@dataclass(frozen=True)
class Difference:
    """Relative difference of what is watched, sum |a - b| / half of sum (|a| + |b|), 0..2; fires at ``>=``.

    ``of``: "scores" or "features" of stage ``watch`` (None: the stage before), or "pixels" (of the picture). The
    networks that have no class scores on the way are clocked by "features".
    """

    threshold: float
    of: Of = "scores"
    watch: int | None = None
    reference: Reference = "fired"

    def __post_init__(self) -> None:
        threshold(self.threshold)
        check_reference(self.reference)
        if self.of not in ("scores", "features", "pixels"):
            raise UsageError(f'of={self.of!r}; give "labels", "scores", "features" or "pixels".')

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """The signal is the relative difference."""
        tick = tick.at(self._watches(tick.stage))
        past = tick.reference if self.reference == "fired" else tick.previous
        signal = relative_difference(tick.watched, past)
        return Decision(signal >= self.threshold, signal), None

    def looks(self, stage: int) -> frozenset[Watch]:
        """At one map, or the picture."""
        return frozenset({self._watches(stage)})

    def _watches(self, stage: int) -> Watch:
        if self.of == "pixels":
            return PICTURE
        watch = stage - 1 if self.watch is None else self.watch
        if watch < 1:
            raise UsageError(f'{self.of} of stage {watch} do not exist; stage 1 can watch of="pixels" only.')
        return Watch(self.of, watch)
