"""Timing of the parts of a network in any engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from clockseg.clockwork.network import Part, StagedNetwork


@dataclass
class Times:
    """Seconds and calls per part (``STAGE.body``, ``STAGE.head``, the groups, ``finish``, ``whole``), growing as it runs."""

    seconds: dict[str, float] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, seconds: float) -> None:
        """Count one call."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        self.calls[name] = self.calls.get(name, 0) + 1

    def clear(self) -> None:
        """Reset the sums, for example after calls that compiled."""
        self.seconds.clear()
        self.calls.clear()


def timed(net: StagedNetwork, clock: Callable[[], float] = time.perf_counter) -> tuple[StagedNetwork, Times]:
    """Return ``net`` with every part timed by ``clock`` (seconds), and the sums.

    >>> from clockseg.clockwork.network import Stage
    >>> net, times = timed(StagedNetwork("one", (Stage("a", str.upper),)), iter(range(99)).__next__)
    >>> net("x"), times.seconds["a.body"], times.calls["a.body"]
    ('X', 1.0, 1)
    """
    times = Times()

    def wrapped(name: str, part: Part) -> Part:
        def call(*values: Any) -> Any:
            start = clock()
            value = part(*values)
            times.add(name, clock() - start)
            return value

        return call

    return net.map(wrapped), times
