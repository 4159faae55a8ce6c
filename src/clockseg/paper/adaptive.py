"""The adaptive clock tuned to a firing rate, and the pixel clock with which the paper compares it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from clockseg.clocks import PICTURE, Decision, Tick, Watch, adaptive
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Named, Schedule
from clockseg.datasets.clips import Clip
from clockseg.errors import number
from clockseg.execution.recording import Recording, needs, record
from clockseg.paper.feature_velocity import pixel_difference
from clockseg.planning.tuning import ByThreshold, tune


@dataclass(frozen=True)
class Clocked:
    """A clock at the threshold closest to the requested firing rate, and its actual rate (0..1)."""

    threshold: float
    fire_rate: float
    schedule: Schedule | Named


def recorded(net: StagedNetwork, clips: Iterable[Clip], clock: ByThreshold, *, first: int = 0) -> list[Recording]:
    """Record the maps that ``clock`` watches on each clip, from frame ``first`` on, where it is filled."""
    keep = needs(net, [clock(0.5)])
    return [record(net, (frame.image for frame in islice(clip, first, None)), keep=keep) for clip in clips]


def at_fire_rate(recordings: list[Recording], fire_rate: float, clock: Callable[[float], Named] = adaptive) -> Clocked:
    """Tune ``clock`` to ``fire_rate`` over all recordings together."""
    found = tune(recordings, clock, fire_rate).point
    return Clocked(found.threshold, found.fire_rate, clock(found.threshold))


@dataclass(frozen=True)
class PixelChange:
    """Fires when the picture differs from that of the last firing by at least ``threshold``, 0..2.

    The paper shows its firings but defines neither measure nor threshold. The measure here is that of the paper's table of
    velocities (section 3): the mean relative difference of pixels from which the mean colour is subtracted.
    """

    threshold: float

    def __post_init__(self) -> None:
        number(self.threshold, "the threshold")

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Decide by the pixel difference, which is the signal."""
        tick = tick.at(PICTURE)
        signal = pixel_difference(tick.watched, tick.reference)
        return Decision(signal >= self.threshold, signal), None

    def watches(self, stage: int) -> frozenset[Watch]:
        """Return the picture."""
        return frozenset({PICTURE})


pixel_clock = PixelChange
