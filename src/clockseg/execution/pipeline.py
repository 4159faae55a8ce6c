"""Pipelines: the segments of a schedule with delays, run in order or ahead (paper, section 4.1).

A segment reads only values of the previous frame, so both compute the same bits, and differ in when an output is ready. With
stages of seconds a, b, c and fusing f, ``pipelined(3)`` gives frame t's output

* in order     a + b + c + f seconds after the frame;
* ahead        a + f after: b and c for frame t are computed after the output of frame t - 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from clockseg.clockwork.lazy import Executor, Lazy
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import ScheduleLike
from clockseg.clockwork.session import Session


def segments(delays: Sequence[int]) -> tuple[range, ...]:
    """Return the stages of each segment: one begins at the first stage and at each delay.

    >>> segments((0, 0, 1))
    (range(0, 2), range(2, 3))
    """
    starts = [0, *(i for i, delay in enumerate(delays) if delay), len(delays)]
    return tuple(range(a, b) for a, b in pairwise(starts))


class Ahead(Session):
    """A session that runs ahead: ``between``, called after each output, computes the delayed segments of the next frame.

    >>> from clockseg.clockwork.network import Stage
    >>> from clockseg.clocks.rates import pipelined
    >>> ahead = Ahead(StagedNetwork("two", (Stage("a", "A{}".format), Stage("b", "B{}".format))), pipelined(2))
    >>> [(ahead(frame), ahead.between())[0] for frame in "012"]
    ['BA0', 'BA0', 'BA1']
    """

    def __init__(self, net: StagedNetwork, schedule: ScheduleLike) -> None:
        super().__init__(net, schedule)
        self.segments = segments(self.schedule.delays)
        self.executor = _Remembering(self.segments[0].stop)

    def between(self) -> None:
        """Compute the delayed segments of the next frame, in case their clocks fire: everything that they read is known."""
        if self.memory is None:
            return
        for segment in self.segments[1:]:
            trunk = self.memory.stages[segment.start - 1].trunk
            for i in segment:
                stage = self.net.stages[i]
                trunk = Lazy(i, stage.name + ".body", stage.body, (trunk,))
                self.executor.read(trunk, Lazy(i, stage.name + ".head", stage.head, (trunk,)))


class _Remembering(Executor):
    """An executor that remembers the last value of each part of the stages from ``first`` on, for the very same argument."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.first = first
        self.last: dict[str, tuple[Any, Any]] = {}

    def force(self, batch: Sequence[Lazy]) -> None:
        for call in batch:
            later = isinstance(call.kind, int) and call.kind >= self.first
            given = call.args[0].value if later else None
            if later and call.name in self.last and self.last[call.name][0] is given:
                call.value = self.last[call.name][1]
                continue
            super().force([call])
            if later:
                self.last[call.name] = given, call.value
