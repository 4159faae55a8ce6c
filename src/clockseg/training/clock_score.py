"""Scores of a clock on held-out frames, beside those of simpler clocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from clockseg.carry import Carry
from clockseg.clocks import Clock, difference, learned, motion_residual
from clockseg.clocks.learned import load
from clockseg.clockwork.schedule import carried, skip_frame
from clockseg.training.clock_samples import Samples, Take, samples
from clockseg.types import Array

PERIODS = (4, 8)
"""The fixed rates: one frame in so many."""
_HALVINGS = 9


def score(file: str, take: Take, carry: Carry, *, seed: int) -> dict[str, Any]:
    """Plain values: rank correlations of signals with the true change, and the agreement of clocks that fire equally often.

    ``agreement``: a row a rate, the share of labels that are the network's own over the frames after each clip's first. The
    clocks' thresholds are those at which they fire as often as the fixed rate on these very frames, or a bit less.
    """
    graph = load(file)
    found = samples(take, carry, graph.inputs, passes=2, seed=seed + 1)
    told = {
        "learned": correlation(_signals(file, found), found.change),
        _plain_name(carry): correlation(found.plain, found.change),
        "since": correlation(found.values["since"][:, 0], found.change),
    }
    return {
        "frames": len(take.tape),
        "samples": len(found.change),
        "correlation": told,
        "agreement": [_at_rate(file, take, carry, period) for period in PERIODS],
    }


def _plain_name(carry: Carry) -> str:
    return "motion_residual" if carry.looks else "difference of pixels"


def _signals(file: str, found: Samples) -> Array:
    graph = load(file)
    rows = range(len(found.change))
    return np.array(
        [float(graph.run({name: each[row : row + 1] for name, each in found.values.items()}).item()) for row in rows]
    )


def _at_rate(file: str, take: Take, carry: Carry, period: int) -> dict[str, Any]:
    fixed = _played(take, carry, skip_frame(period))
    most = fixed[0]

    def plain(threshold: float) -> Clock:
        return motion_residual(threshold) if carry.looks else difference(threshold, of="pixels")

    ways = {
        "learned": _matched(take, carry, lambda threshold: learned(file, threshold), most),
        _plain_name(carry): _matched(take, carry, plain, most),
        "fixed rate": fixed,
    }
    return {
        "period": period,
        "firings": {name: fired for name, (fired, _) in ways.items()},
        "pixels": {name: round(same, 5) for name, (_, same) in ways.items()},
    }


def _matched(take: Take, carry: Carry, gate: Callable[[float], Clock], most: int) -> tuple[int, float]:
    """Of the thresholds at which it fires ``most`` times at most, the one at which it fires most often."""
    low, high = 0.0, 1.0
    best = _played(take, carry, gate(high))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        found = _played(take, carry, gate(middle))
        if found[0] > most:
            low = middle
        else:
            high, best = middle, found
            if found[0] == most:
                break
    return best


def _played(take: Take, carry: Carry, schedule: Any) -> tuple[int, float]:
    """Firings, and the share of labels that are as the network's own."""
    told = list(take.changes(carried(schedule, carry)))
    return sum(fired for fired, _ in told), 1 - float(np.mean([changed for _, changed in told]))


def correlation(one: Array, other: Array) -> float | None:
    """Spearman's rank correlation, -1..1, equal values sharing their rank; None where either is all the same.

    >>> correlation(np.array([1., 2., 9.]), np.array([0.1, 0.2, 0.3]))
    1.0
    """
    first, second = _ranks(one), _ranks(other)
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return round(float(np.corrcoef(first, second)[0, 1]), 4)


def _ranks(values: Array) -> Array:
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2)[places])
