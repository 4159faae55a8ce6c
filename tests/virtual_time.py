"""A timer that only moves when it is told to, and networks whose parts take given durations on it: exact tests of timing."""

from __future__ import annotations

from collections.abc import Mapping

from clockseg.clockwork.network import Part, StagedNetwork, Value
from clockseg.evaluation.streaming import Timer


class VirtualTimer(Timer):
    """A timer that stands still except for ``wait`` and ``spend``."""

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        """Return the seconds spent and waited so far."""
        return self._now

    def wait(self, until: float) -> None:
        """Arrive at once."""
        self._now = max(self._now, until)

    def spend(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds


def with_durations(net: StagedNetwork, timer: VirtualTimer, seconds: Mapping[str, float]) -> StagedNetwork:
    """Return ``net`` with parts that take these seconds of a virtual timer, by name (``STAGE.body``, ..; others take 0)."""

    def spending(name: str, part: Part) -> Part:
        def call(*values: Value) -> Value:
            timer.spend(seconds.get(name, 0.0))
            return part(*values)

        return call

    return net.map(spending)
