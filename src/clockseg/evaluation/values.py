"""Maps of numbers, such as depth or edges: there are no classes to count, so agreement is a relative error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from clockseg.errors import DataError
from clockseg.evaluation.metrics import finite
from clockseg.types import Array


@dataclass(frozen=True)
class Deviation:
    """Difference of maps of numbers from a reference, summed over frames; addable.

    ``apart``: the sum of absolute differences; ``size``: the sum of the reference's absolute values; ``worst``: the
    largest relative error of a frame; ``frames``: the number of frames.

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
        """mean |a - b| / mean |b|, at least 0; NaN without frames, infinite against nothing but zeros."""
        return _ratio(self.apart, self.size) if self.frames else math.nan

    def facts(self) -> dict[str, Any]:
        """Return plain values, None without frames."""
        worst = self.worst if self.frames else math.nan
        return {"relative_error": finite(self.relative_error), "worst_frame": finite(worst)}


def deviation(values: Array, truth: Array) -> Deviation:
    """Compare one frame's ``values`` with ``truth``, arrays of one shape; places where the truth is not finite don't count.

    Several channels give one figure, so scale them alike or compare them one by one.
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
    # A value that is not finite where the truth is finite is as wrong as can be.
    if not math.isfinite(apart):
        return math.inf
    return apart / size if size else math.inf if apart else 0.0
