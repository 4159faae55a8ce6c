"""The result of a piece, sums over the frames of pieces, the figures of a summary, and a warning where labels are unreliable."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.trace import Record
from clockseg.evaluation.cost import Prices
from clockseg.evaluation.tally import Tally
from clockseg.execution.machine import machine, versions
from clockseg.segmenting.results import PIECE

BUSY = ("decoding", "motion", "network", "showing", "writing")
"""The activities of a run, which overlap. Showing is fusing and making outputs, writing is drawing and encoding."""


@dataclass(frozen=True)
class Figures:
    """Sums over the frames of pieces, each with its own session; addable.

    ``sums``, by name, NaN for what could not be measured: seconds of the ``network``, its ``multiply_adds`` and those of the
    ``uncut`` network, the ``confidence`` on the ``looked`` frames on which it was measured, seconds ``busy`` with each name of
    ``BUSY``, and the seconds of the network's parts on ``first`` frames and on the ``full`` ones, the later frames on which all
    stages fired.
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


@dataclass(frozen=True)
class PieceResult:
    """The result of a piece.

    ``figures``: sums over its frames; ``decoded``: frames of the input, taken or not; ``problems``: a sentence for each loss;
    ``carry``: the carry in use at its end; ``end_seconds``: the end of its last frame; ``wall_seconds``: elapsed time; ``empty``:
    the reason if there is no frame in it, which is a loss only if there is none in the other pieces either; ``ended_at``: the
    time at which it was complete, in seconds since the epoch.
    """

    figures: Figures
    decoded: int = 0
    problems: tuple[str, ...] = ()
    carry: str = ""
    end_seconds: float | None = None
    wall_seconds: float = 0.0
    empty: str = ""
    ended_at: float = 0.0

    @classmethod
    def read(cls, folder: Path) -> PieceResult | None:
        """Read the result in a piece's folder; None unless the piece is complete."""
        try:
            told = json.loads((folder / PIECE).read_text())
            tally, sums = told["figures"]["tally"], dict(told["figures"]["sums"])
            tally |= {name: tuple(tally[name]) for name in ("stages", "fires")}
            return cls(**told | {"figures": Figures(Tally(**tally), sums), "problems": tuple(told["problems"])})
        except (OSError, ValueError, KeyError, TypeError):
            return None


def elapsed(results: Iterable[PieceResult]) -> float:
    """Return the seconds during which any of the pieces ran: pieces may run at once, and in several runs."""
    seconds, until = 0.0, float("-inf")
    for begun, ended in sorted((one.ended_at - one.wall_seconds, one.ended_at) for one in results):
        seconds += max(0.0, ended - max(begun, until))
        until = max(until, ended)
    return seconds


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
    """Return the warning for a mean confidence ``here`` against the network's own, or None if there is no reason to warn."""
    if here is None or own is None or here >= max(PLAINLY * own, 1 - TIMES * (1 - own)):
        return None
    return f"the labels are probably unreliable: mean confidence {here:.2f}, compared with {own:.2f} on video like the training data"
