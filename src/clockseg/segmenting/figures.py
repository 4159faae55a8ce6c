"""Sums over the frames of a clip or a piece, the figures of its summary, and a warning where a network is out of its depth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.trace import Record, Tally
from clockseg.execution.machine import machine, versions

BUSY = ("decoding", "motion", "network", "showing", "writing")
"""The activities of a run, which overlap. Showing is fusing and making outputs, writing is drawing and encoding."""


@dataclass(frozen=True)
class Figures:
    """Sums over the frames of pieces, each with its own session; addable, and convertible to plain values and back.

    ``sums``, by name, NaN for what could not be measured: seconds of the ``network``, its ``multiply_adds`` and those of the
    ``uncut`` network, the ``confidence`` on the ``looked`` frames on which it was measured, seconds ``busy`` with each name of
    ``BUSY``, and with the number of each part of the network its seconds on ``first`` frames, on ``later`` ones on which it ran,
    and the number of these, ``ran``.

    >>> from clockseg.clockwork.trace import Seconds
    >>> figures = Figures(Tally(("a", "b")))
    >>> seconds = Seconds((2.0, 1.0), fuse=0.5)
    >>> figures = figures.add(Record(True, (True, True), (None, None), (0, 0), seconds), first=True)
    >>> figures = figures.add(Record(False, (True, False), (None, None), (1, 0), Seconds((4.0, 0.0), fuse=0.7)), first=False)
    >>> figures.full_seconds, (figures + figures).full_seconds, (figures + figures).tally.frames
    (5.7, 5.7, 4)
    """

    tally: Tally
    sums: Mapping[str, float] = field(default_factory=dict)

    def add(
        self,
        record: Record,
        *,
        first: bool,
        price: int | None = None,
        whole: int | None = None,
        decode_seconds: float = 0.0,
    ) -> Figures:
        """Return the figures with one more frame; ``first`` if its session begins with it."""
        spent, fires = record.seconds, any(record.fired)
        more = {
            "network": spent.network,
            "multiply_adds": math.nan if price is None else price,
            "uncut": math.nan if whole is None else whole,
            "busy decoding": decode_seconds,
            "busy motion": spent.motion,
            "busy network": sum(spent.stages) + spent.clock,
            "busy showing": spent.fuse + spent.finish,
        }
        parts = zip((*spent.stages, spent.fuse, spent.finish), (*record.fired, fires, fires), strict=True)
        for number, (seconds, ran) in enumerate(parts):
            if first:
                more[f"first {number}"] = seconds
            elif ran:
                more |= {f"later {number}": seconds, f"ran {number}": 1}
        return replace(self.plus(more), tally=self.tally.add(record, first=first))

    def plus(self, more: Mapping[str, float]) -> Figures:
        """Return the figures with ``more`` added to their sums."""
        sums = {name: self.sums.get(name, 0.0) + more.get(name, 0.0) for name in {**self.sums, **more}}
        return replace(self, sums=sums)

    def __add__(self, other: Figures) -> Figures:
        if not isinstance(other, Figures):
            return NotImplemented
        return replace(self.plus(other.sums), tally=self.tally + other.tally)

    @property
    def full_seconds(self) -> float:
        """Seconds of a frame on which every stage fires: the mean of each part over the later frames on which it ran, else the first."""
        total, count = self.sums.get, len(self.tally.stages) + 2
        return sum(
            total(f"later {number}", 0.0) / ran
            if (ran := total(f"ran {number}"))
            else total(f"first {number}", 0.0) / self.tally.clips
            for number in range(count)
        )

    @property
    def confidence(self) -> float | None:
        """The mean confidence over the frames on which it was measured, 0..1; None if it never was."""
        return self._per("confidence", self.sums.get("looked", 0.0))

    def _per(self, name: str, count: float) -> float | None:
        """Return a sum over a number, None if either is unknown."""
        mean = self.sums.get(name, math.nan) / count if count else math.nan
        return None if math.isnan(mean) else mean

    def summary(self, wall_seconds: float) -> dict[str, Any]:
        """Return the figures for ``summary.json``."""
        tally, sums = self.tally, self.sums
        mean = tally.seconds_per_frame
        return {
            "frames": tally.frames,
            "fire_rate": tally.fire_rate,
            "network_rate": tally.network_rate,
            "network_seconds": round(sums.get("network", 0.0), 6),
            "wall_seconds": round(wall_seconds, 6),
            "fps": round(tally.frames / wall_seconds, 3),
            "relative_time_estimate": None if mean is None else round(mean / self.full_seconds, 4),
            "multiply_adds_per_frame": _rounded(self._per("multiply_adds", tally.frames), 0),
            "relative_multiply_adds": _rounded(self._per("multiply_adds", sums.get("uncut", 0.0)), 4),
            "confidence": _rounded(self.confidence, 3),
            "busy_seconds": {name: round(sums.get(f"busy {name}", 0.0), 3) for name in BUSY},
        }

    def facts(self) -> dict[str, Any]:
        """Return the figures as plain values for JSON.

        >>> figures = Figures(Tally(("a",), 1, 3, (1,)), {"network": 2.0})
        >>> Figures.from_facts(figures.facts()) == figures
        True
        """
        return asdict(self)

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Figures:
        """Restore figures from the values of ``facts``; ``KeyError`` or ``TypeError`` for anything else."""
        tally = facts["tally"]
        return cls(Tally(**tally | {name: tuple(tally[name]) for name in ("stages", "fires")}), dict(facts["sums"]))


def _rounded(value: float | None, places: int) -> float | None:
    return None if value is None else round(value, places or None)


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


def looked_at(number: int) -> bool:
    """Return true for the key frames whose confidence is measured: number 0, 1, 2, 4, 8, and so on.

    >>> [number for number in range(20) if looked_at(number)]
    [0, 1, 2, 4, 8, 16]
    """
    return number & (number - 1) == 0


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
