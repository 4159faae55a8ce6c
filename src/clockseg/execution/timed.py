"""Timing of the parts of a network in any engine."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from clockseg.clockwork.network import Part, StagedNetwork


@dataclass
class Times:
    """Seconds and calls per part (``STAGE.body``, ``STAGE.head``, the groups, ``finish``, ``whole``), growing as it runs."""

    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    calls: Counter[str] = field(default_factory=Counter)

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
            times.seconds[name] += clock() - start
            times.calls[name] += 1
            return value

        return call

    return net.map(wrapped), times
