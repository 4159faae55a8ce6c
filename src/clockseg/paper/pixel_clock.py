"""The pixel clock, the foil of the paper's adaptive figure: as the adaptive clock, but it watches the picture.

The paper shows its firings and defines neither its measure nor its threshold. Here the measure is the one of its table of
velocities (section 3): the mean over pixels of the relative difference, on pixels from which the mean is subtracted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from clockseg.clocks import PICTURE, Decision, Tick, Watch
from clockseg.errors import number
from clockseg.paper.feature_velocity import pixel_difference


@dataclass(frozen=True)
class PixelChange:
    """Fires when the picture differs from that of the last firing by at least ``threshold``, 0..2."""

    threshold: float

    def __post_init__(self) -> None:
        number(self.threshold, "the threshold")

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """The signal is the pixel difference."""
        tick = tick.at(PICTURE)
        signal = pixel_difference(tick.watched, tick.reference)
        return Decision(signal >= self.threshold, signal), None

    def watches(self, stage: int) -> frozenset[Watch]:
        """Return the picture."""
        return frozenset({PICTURE})


pixel_clock = PixelChange
