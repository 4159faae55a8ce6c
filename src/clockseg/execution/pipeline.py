"""Pipelines: the segments of a schedule with delays, run in order or ahead (paper, section 4.1).

A segment reads only values of the previous frame, so both compute the same bits, and differ in when an output is ready. With
stages of seconds a, b, c and fusing f, ``pipelined(3)`` gives frame t's output

* in order     a + b + c + f seconds after the frame;
* ahead        a + f after: b and c for frame t are computed after the output of frame t - 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from clockseg.clockwork.network import Part, StagedNetwork, Value
from clockseg.clockwork.schedule import Schedule, ScheduleLike, schedule_for
from clockseg.clockwork.session import Session


def segments(delays: Sequence[int]) -> tuple[range, ...]:
    """Return the stages of each segment: one begins at the first stage and at each delay.

    >>> segments((0, 0, 1))
    (range(0, 2), range(2, 3))
    """
    starts = [0, *(i for i, delay in enumerate(delays) if delay), len(delays)]
    return tuple(range(a, b) for a, b in pairwise(starts))


class Runner(NamedTuple):
    """A session and the work between its frames: call ``session(image)`` for the output, then ``between()``."""

    session: Session
    between: Callable[[], None] = lambda: None


def runner(net: StagedNetwork, schedule: ScheduleLike, *, ahead: bool = False) -> Runner:
    """Return a runner for ``schedule``; ``ahead``: ``between`` computes the delayed segments of the next frame.

    >>> from clockseg.clockwork.network import Stage
    >>> from clockseg.clocks.rates import pipelined
    >>> made = runner(StagedNetwork("two", (Stage("a", "A{}".format), Stage("b", "B{}".format))), pipelined(2), ahead=True)
    >>> [(made.session(frame), made.between())[0] for frame in "012"]
    ['BA0', 'BA0', 'BA1']
    """
    made = schedule_for(schedule, len(net))
    if not ahead or not any(made.delays):
        return Runner(Session(net, made))
    session = Session(_remembering(net, made), made)
    return Runner(session, lambda: _go_ahead(session))


@dataclass
class _Remembered:
    """A part that remembers its last value, for the very same argument. Values are never overwritten."""

    part: Part
    last: tuple[Value, Value] | None = field(default=None, repr=False)

    def __call__(self, value: Value) -> Value:
        if self.last is None or self.last[0] is not value:
            self.last = value, self.part(value)
        return self.last[1]


def _remembering(net: StagedNetwork, schedule: Schedule) -> StagedNetwork:
    """Return ``net`` with stages after the first segment that remember their last values."""
    first = segments(schedule.delays)[0].stop
    later = (replace(one, body=_Remembered(one.body), head=_Remembered(one.head)) for one in net.stages[first:])
    return replace(net, stages=(*net.stages[:first], *later))


def _go_ahead(session: Session) -> None:
    """Compute the delayed segments of the next frame, in case their clocks fire: everything that they read is known."""
    if session.memory is None:
        return
    for segment in segments(session.schedule.delays)[1:]:
        trunk = session.memory.stages[segment.start - 1].trunk.value
        for stage in session.net.stages[segment.start : segment.stop]:
            trunk = stage.body(trunk)
            stage.head(trunk)
