"""The threshold at which a clock fires on a given share of frames, found on the clips themselves, without their labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

from clockseg.clocks import adaptive
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Named, Schedule, schedule_for
from clockseg.datasets.clips import Clip
from clockseg.execution.recording import Recording, needs, record
from clockseg.planning.tuning import ByThreshold, tune


@dataclass(frozen=True)
class Clocked:
    """A clock at the threshold that comes closest to the rate asked for, and its rate there (0..1)."""

    threshold: float
    fire_rate: float
    schedule: Schedule | Named


def recorded(net: StagedNetwork, clips: Iterable[Clip], clock: ByThreshold, *, first: int = 0) -> list[Recording]:
    """Record the maps that ``clock`` watches on each clip, from frame ``first`` on, at which it is filled."""
    keep = needs(schedule_for(clock(0.5), len(net)))
    return [record(net, (frame.image for frame in islice(clip, first, None)), keep=keep) for clip in clips]


def at_fire_rate(recordings: list[Recording], fire_rate: float, clock: Callable[[float], Named] = adaptive) -> Clocked:
    """``clock`` at the threshold that gives ``fire_rate`` over all recordings together."""
    found = tune(recordings, clock, fire_rate).point
    return Clocked(found.threshold, found.fire_rate, clock(found.threshold))
