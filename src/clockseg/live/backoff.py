"""Backoff: how long to wait before a source is tried again."""

from __future__ import annotations

import random
from dataclasses import dataclass

from clockseg.errors import UsageError


@dataclass(frozen=True)
class Backoff:
    """Waits that grow by ``factor`` from ``first_seconds`` to ``most_seconds``, each shortened by up to the share ``jitter``.

    The jitter keeps what lost one server at one moment from coming back to it at one moment.

    >>> [Backoff(0.5, 2.0, 3.0, jitter=0.0).seconds(tries) for tries in range(4)]
    [0.5, 1.0, 2.0, 3.0]
    """

    first_seconds: float = 0.5
    factor: float = 2.0
    most_seconds: float = 30.0
    jitter: float = 0.25

    def __post_init__(self) -> None:
        if not (0 < self.first_seconds <= self.most_seconds and self.factor >= 1 and 0 <= self.jitter < 1):
            raise UsageError(f"{self}; give waits above 0 that do not shrink, and a jitter from 0 to below 1.")

    def seconds(self, tries: int, chance: float | None = None) -> float:
        """The wait after ``tries`` tries in a row that came to nothing; ``chance``: 0..1 (None: drawn)."""
        # A power of a long outage would overflow.
        full = min(self.most_seconds, self.first_seconds * self.factor ** min(tries, 64))
        return full * (1 - self.jitter * (random.random() if chance is None else chance))
