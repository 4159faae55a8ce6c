"""Sums over the frames of a clip or a piece, the figures of its summary, and a warning where a network is out of its depth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.trace import Record, Tally
from clockseg.evaluation.cost import Prices
from clockseg.execution.machine import machine, versions

BUSY = ("decoding", "motion", "network", "showing", "writing")
"""The activities of a run, which overlap. Showing is fusing and making outputs, writing is drawing and encoding."""


@dataclass(frozen=True)
class Figures:
    """Sums over the frames of pieces, each with its own session; addable, and convertible to plain values and back.

    ``sums``, by name, NaN for what could not be measured: seconds of the ``network``, its ``multiply_adds`` and those of the
    ``uncut`` network, the ``confidence`` on the ``looked`` frames on which it was measured, seconds ``busy`` with each name of
    ``BUSY``, and the seconds of the network's parts on ``first`` frames and on the ``full`` ones, the later frames on which all
    stages fired.

    >>> from clockseg.clockwork.trace import Seconds
    >>> figures = Figures(Tally(("a", "b")))
    >>> figures = figures.add(Record(True, (True, True), (None, None), (0, 0), Seconds((2.0, 1.0), fuse=0.5)), first=True)
    >>> figures = figures.add(Record(False, (True, False), (None, None), (1, 0), Seconds((1.5, 0.0), fuse=0.25)), first=False)
    >>> figures.summary(1.0)["relative_time_estimate"], (figures + figures).tally.frames
    (0.5, 4)
    """

    tally: Tally
    sums: Mapping[str, float] = field(default_factory=dict)

    def add(self, record: Record, *, first: bool, prices: Prices | None = None, decode_seconds: float = 0.0) -> Figures:
        """Return the figures with one more frame; ``first`` if its session begins with it, ``prices`` at its size."""
        spent = record.seconds
        parts = sum(spent.stages) + spent.fuse + spent.finish
        more = {
            "network": spent.network,
            "multiply_adds": math.nan if prices is None else prices.frame(record),
            "uncut": math.nan if prices is None or prices.whole is None else prices.whole,
            "busy decoding": decode_seconds,
            "busy motion": spent.motion,
            "busy network": sum(spent.stages) + spent.clock,
            "busy showing": spent.fuse + spent.finish,
        }
        if first:
            more["first"] = parts
        elif all(record.fired):
            more |= {"full": parts, "full frames": 1}
        return replace(self.plus(more), tally=self.tally.add(record, first=first))

    def plus(self, more: Mapping[str, float]) -> Figures:
        """Return the figures with ``more`` added to their sums."""
        sums = {name: self.sums.get(name, 0.0) + more.get(name, 0.0) for name in {**self.sums, **more}}
        return replace(self, sums=sums)

    def __add__(self, other: Figures) -> Figures:
        if not isinstance(other, Figures):
            return NotImplemented
        return replace(self.plus(other.sums), tally=self.tally + other.tally)

    def _mean(self, name: str, count: float, digits: int | None = 9) -> float | None:
        """Return a sum over a number, rounded; None if either is unknown."""
        mean = self.sums.get(name, math.nan) / count if count else math.nan
        return None if math.isnan(mean) else round(mean, digits)

    def summary(self, wall_seconds: float) -> dict[str, Any]:
        """Return the figures for ``summary.json``."""
        tally, sums = self.tally, self.sums
        mean = tally.seconds_per_frame
        full = self._mean("full", sums.get("full frames", 0)) or self._mean("first", tally.clips)
        return {
            "frames": tally.frames,
            "fire_rate": tally.fire_rate,
            "network_rate": tally.network_rate,
            "network_seconds": round(sums.get("network", 0.0), 6),
            "wall_seconds": round(wall_seconds, 6),
            "fps": round(tally.frames / wall_seconds, 3),
            "relative_time_estimate": None if mean is None or not full else round(mean / full, 4),
            "multiply_adds_per_frame": self._mean("multiply_adds", tally.frames, None),
            "relative_multiply_adds": self._mean("multiply_adds", sums.get("uncut", 0.0), 4),
            "confidence": self._mean("confidence", sums.get("looked", 0), 3),
            "busy_seconds": {name: round(sums.get(f"busy {name}", 0.0), 3) for name in BUSY},
        }

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Figures:
        """Restore figures from plain values; ``KeyError`` or ``TypeError`` for anything else.

        >>> from dataclasses import asdict
        >>> figures = Figures(Tally(("a",), 1, 3, (1,)), {"network": 2.0})
        >>> Figures.from_facts(asdict(figures)) == figures
        True
        """
        tally = facts["tally"]
        return cls(Tally(**tally | {name: tuple(tally[name]) for name in ("stages", "fires")}), dict(facts["sums"]))


def run_facts(net: StagedNetwork, schedule: str, carry: str) -> dict[str, Any]:
    """Return the part of a summary that says what ran: the network, its schedule, the libraries and the machine."""
    said = net.sidecar
    return {
        "network": net.name,
        "schedule": schedule,
        "carry": carry,
        "engine": net.engine,
        "classes": [] if said is None else list(said.classes),
        "palette": [] if said is None else [list(colour) for colour in said.palette],
        "versions": versions(),
        "machine": machine(),
    }


PLAINLY = 0.8
"""A network's labels count as unreliable below this share of its confidence on its own validation data."""
TIMES = 3.0
"""They also count as unreliable if 1 - confidence is more than this many times as large: the mean confidence of `street` is 0.95 on
its own clip, 0.89 on other traffic and 0.75 to 0.83 on animals, rooms and sports."""


def stated(net: StagedNetwork) -> float | None:
    """Return the mean confidence on its own validation data that a network's sidecar states, if it does."""
    return None if net.sidecar is None else net.sidecar.confidence


def confidence_of(maps: Any) -> float:
    """Return the mean of the largest class probability, 0..1; ``maps``: class scores [1, classes, h, w], or a mapping with them."""
    scores = next(iter(maps.values())) if isinstance(maps, Mapping) else maps
    found = np.asarray(scores, np.float32)
    return float((1 / np.exp(found - found.max(axis=1, keepdims=True)).sum(axis=1)).mean())


def doubt(here: float | None, own: float | None) -> str | None:
    """Return the warning for a mean confidence ``here`` against the network's own, or None if there is no reason to warn.

    >>> doubt(0.41, 0.86)
    'the labels are probably unreliable: mean confidence 0.41, compared with 0.86 on video like the training data'
    >>> doubt(0.8, 0.86), doubt(0.9, 0.95)
    (None, None)
    """
    if here is None or own is None or here >= max(PLAINLY * own, 1 - TIMES * (1 - own)):
        return None
    return f"the labels are probably unreliable: mean confidence {here:.2f}, compared with {own:.2f} on video like the training data"
