"""Pipelines: the segments of a schedule with delays, run one after another, at once, or ahead (paper, section 4.1).

A segment reads only what the frame before left, so all three give the same, bit for bit, and differ in when an output
leaves. With stages of seconds a, b, c and fusing f, ``pipelined(3)`` gives frame t's output

* serial       a + b + c + f after the frame came;
* concurrent   max(a, b, c) + f after, each stage on its share of the threads;
* ahead        a + f after, on all threads: b and c for frame t are computed when the output of frame t - 1 has left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from clockseg.clockwork.network import Part, StagedNetwork, Value
from clockseg.clockwork.schedule import Named, Schedule, frame_oracle, schedule_for
from clockseg.clockwork.session import Session
from clockseg.errors import UsageError
from clockseg.execution.machine import threads_or_all
from clockseg.execution.threads import concurrent

How: TypeAlias = Literal["serial", "concurrent", "ahead"]
Threaded: TypeAlias = Callable[[int], StagedNetwork]
"""A network by the number of threads that each of its parts is compiled for, such as ``lambda n: openvino(net, threads=n)``."""


def nothing() -> None:
    """Do nothing between frames; a pipeline that runs ahead has work there."""


class Runner(NamedTuple):
    """A session and how to drive it: ``session(image)`` gives the output, then ``between()`` does what can be done before
    the next frame comes. ``threads``: of each segment.
    """

    session: Session
    between: Callable[[], None] = nothing
    threads: tuple[int, ...] = (1,)


@contextmanager
def running(
    net: Threaded,
    schedule: Schedule | Named,
    *,
    how: How = "serial",
    threads: int | None = None,
    costs: Sequence[float] | None = None,
) -> Iterator[Runner]:
    """A runner for ``schedule``, with ``threads`` in all (None: as many as the process may use), its workers closed at the end.

    Serial and ahead, every part runs on all threads. Concurrent, each segment runs on its ``shares`` of them by the
    ``costs`` of its stages (any unit; None: equal), and fusing on all. A schedule of one segment always runs serially.

    >>> from clockseg.clockwork.schedule import pipelined
    >>> from clockseg.clockwork.network import Stage
    >>> net = StagedNetwork("two", (Stage("a", "A{}".format), Stage("b", "B{}".format)))
    >>> with running(lambda threads: net, pipelined(2), how="concurrent", threads=4) as runner:
    ...     [runner.session(frame) for frame in "012"], runner.threads
    (['BA0', 'BA0', 'BA1'], (2, 2))
    """
    if how not in get_args(How):
        raise UsageError(f"how={how!r}; a pipeline runs {', '.join(get_args(How))}.")
    budget = threads_or_all(threads)
    whole = net(budget)
    made = schedule_for(schedule, len(whole))
    segments = made.segments()
    if len(segments) == 1 or how == "serial":
        yield Runner(Session(whole, made), threads=(budget,) * len(segments))
    elif how == "ahead":
        session = Session(_remembering(whole, made), made)
        yield Runner(session, lambda: _go_ahead(session), (budget,) * len(segments))
    else:
        given = shares(_segment_costs(made, costs), budget)
        shared = _shared_out(net, whole, made, given)
        with concurrent(shared, made, threads=budget) as executor:
            yield Runner(Session(shared, made, executor=executor), threads=given)


def shares(costs: Sequence[float], threads: int) -> tuple[int, ...]:
    """``threads`` shared out to segments of these costs: one each, every further one to what is then slowest.

    With more segments than threads each gets one, and ``concurrent`` runs no more of them at once than there are threads.

    >>> shares((59, 18, 23), 8), shares((77, 23), 2), shares((59, 18, 23), 2)
    ((4, 2, 2), (1, 1), (1, 1, 1))
    """
    if not costs or min(costs) < 0 or not sum(costs) > 0:
        raise UsageError(f"costs {tuple(costs)}; give one number of at least 0 a segment, not all 0.")
    given = [1] * len(costs)
    for _ in range(threads_or_all(threads) - len(costs)):
        given[max(range(len(costs)), key=lambda index: costs[index] / given[index])] += 1
    return tuple(given)


def stage_seconds(net: StagedNetwork, images: Sequence[Any]) -> tuple[float, ...]:
    """Measure the seconds of each stage: the median over ``images`` after the first; ``costs`` for ``running``.

    >>> from clockseg.clockwork.network import Stage
    >>> len(stage_seconds(StagedNetwork("two", (Stage("a", str.upper), Stage("b", str.lower))), "xyz"))
    2
    """
    if len(images) < 2:
        raise UsageError(f"{len(images)} images; the first compiles, so give at least 2.")
    session, rows = Session(net, frame_oracle), []
    for image in images:
        session(image)
        rows.append(session.record.seconds.stages)
    return tuple(median(column) for column in zip(*rows[1:], strict=True))


def _segment_costs(schedule: Schedule, costs: Sequence[float] | None) -> list[float]:
    each = [1.0] * len(schedule) if costs is None else list(costs)
    if len(each) != len(schedule):
        raise UsageError(f"{len(each)} costs for a network of {len(schedule)} stages; give one a stage.")
    return [sum(each[segment.start : segment.stop]) for segment in schedule.segments()]


def _shared_out(net: Threaded, whole: StagedNetwork, schedule: Schedule, given: Sequence[int]) -> StagedNetwork:
    """``whole`` with the stages of each segment compiled for as many threads as it is given."""
    pairs = zip(schedule.segments(), given, strict=True)
    return replace(whole, stages=tuple(net(count).stages[index] for segment, count in pairs for index in segment))


@dataclass
class _Remembered:
    """A part that, asked again for the very value it was asked for last, gives what it gave. Values are never overwritten."""

    part: Part
    last: tuple[Value, Value] | None = field(default=None, repr=False)

    def __call__(self, value: Value) -> Value:
        if self.last is None or self.last[0] is not value:
            self.last = value, self.part(value)
        return self.last[1]


def _remembering(net: StagedNetwork, schedule: Schedule) -> StagedNetwork:
    """``net`` with the stages after the first segment remembering what they gave last."""
    first = schedule.segments()[0].stop
    later = (replace(one, body=_Remembered(one.body), head=_Remembered(one.head)) for one in net.stages[first:])
    return replace(net, stages=(*net.stages[:first], *later))


def _go_ahead(session: Session) -> None:
    """Compute what the delayed segments give at the next frame, if their clocks fire: all they read is there already."""
    if session.memory is None:
        return
    for segment in session.schedule.segments()[1:]:
        trunk = session.memory.stages[segment.start - 1].trunk.value
        for stage in session.net.stages[segment.start : segment.stop]:
            trunk = stage.body(trunk)
            stage.head(trunk)
