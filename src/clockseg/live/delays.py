"""Delays: how long frames took, in memory that does not grow however long the run."""

from __future__ import annotations

import math
from typing import Any

_LEAST, _STEP, _BINS = 1e-4, 1.01, 1700


class Delays:
    """Counts of delays, in seconds, in steps of 1 %; from 0.1 ms to half an hour, beyond that the ends.

    >>> delays = Delays()
    >>> for milliseconds in range(1, 101):
    ...     delays.add(milliseconds / 1000)
    >>> len(delays), round(delays.quantile(0.5), 3), round(delays.quantile(0.99), 3), delays.most
    (100, 0.05, 0.099, 0.1)
    """

    def __init__(self) -> None:
        self._counts = [0] * _BINS
        self._number = 0
        self.most = 0.0

    def __len__(self) -> int:
        return self._number

    def add(self, seconds: float) -> None:
        """One more."""
        place = int(math.log(max(seconds, _LEAST) / _LEAST, _STEP) + 0.5)
        self._counts[min(place, _BINS - 1)] += 1
        self._number += 1
        self.most = max(self.most, seconds)

    def quantile(self, share: float) -> float | None:
        """Return the quantile ``share`` of the delays (nearest rank, to half a percent); None without any."""
        left = max(1, math.ceil(share * self._number))
        for place, number in enumerate(self._counts):
            left -= number
            if left <= 0:
                return float(min(self.most, _LEAST * _STEP**place))
        return None

    def facts(self) -> dict[str, Any]:
        """Median, 95th and 99th percentile and the most, in milliseconds; None without any.

        >>> Delays().facts()["median"] is None
        True
        """
        quantiles = {"median": 0.5, "p95": 0.95, "p99": 0.99}
        found = {name: _milliseconds(self.quantile(share)) for name, share in quantiles.items()}
        return found | {"most": _milliseconds(self.most if self._number else None)}


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(1000 * seconds, 3)
