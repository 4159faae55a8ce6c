"""How far maps of numbers (depth, edges) are from what they should be: a deviation is a sum, as a confusion is of labels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.errors import DataError
from clockseg.types import Array


@dataclass(frozen=True)
class Deviation:
    """``apart``: the sum of absolute differences over all places of all frames; ``size``: of absolute values; addable.

    ``worst``: the relative error of the frame that has the largest. ``frames``: how many frames.

    >>> one = deviation(np.array([1.0, 3.0]), np.array([1.0, 4.0]))
    >>> (one + one).relative_error, one.worst
    (0.2, 0.2)
    """

    apart: float = 0.0
    size: float = 0.0
    worst: float = 0.0
    frames: int = 0

    def __add__(self, other: Deviation) -> Deviation:
        if not isinstance(other, Deviation):
            return NotImplemented
        worst = max(self.worst, other.worst)
        return Deviation(self.apart + other.apart, self.size + other.size, worst, self.frames + other.frames)

    @property
    def relative_error(self) -> float:
        """mean |a - b| / mean |b|, 0 and more: 0 where all is equal; NaN without frames, infinite beside nothing but zeros."""
        return _ratio(self.apart, self.size) if self.frames else math.nan


def deviation(values: Array, truth: Array) -> Deviation:
    """The deviation of one frame's ``values`` from ``truth``, arrays of one shape; where the truth isn't finite is left out.

    Of several channels it is one figure, so give them alike ranges or compare them one by one.
    """
    a, b = np.asarray(values, np.float64), np.asarray(truth, np.float64)
    if a.shape != b.shape:
        raise DataError(f"maps of shapes {list(a.shape)} and {list(b.shape)} can't be compared; give equal shapes.")
    known = np.isfinite(b)
    if not known.all():
        a, b = a[known], b[known]
    apart, size = float(np.abs(a - b).sum()), float(np.abs(b).sum())
    return Deviation(apart, size, _ratio(apart, size), 1)


def _ratio(apart: float, size: float) -> float:
    # What isn't finite beside a truth that is, is as wrong as can be.
    if not math.isfinite(apart):
        return math.inf
    return apart / size if size else math.inf if apart else 0.0


def gives_numbers(net: StagedNetwork) -> bool:
    """Whether the output of ``net`` is a map of numbers: its file has a sidecar that names no classes.

    >>> from clockseg.clockwork.network import Stage
    >>> gives_numbers(StagedNetwork("one", (Stage("a", str.upper),)))
    False
    """
    return net.sidecar is not None and not net.sidecar.classes
