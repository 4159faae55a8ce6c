"""Pipelines: the segments of a schedule with delays, run one after another, at once, or ahead (paper, section 4.1).

A segment reads only what the frame before left, so all three give the same, bit for bit, and differ in when an output
leaves. With stages of seconds a, b, c and fusing f, ``pipelined(3)`` gives frame t's output

* serial       a + b + c + f after the frame came;
* concurrent   max(a, b, c) + f after, each stage on its share of the threads;
* ahead        a + f after, on all threads: b and c for frame t are computed when the output of frame t - 1 has left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from clockseg.clockwork.network import Part, StagedNetwork, Value
from clockseg.clockwork.schedule import Named, Schedule, frame_oracle, schedule_for
from clockseg.clockwork.session import Map, Session
from clockseg.engines.threads import threads_or_all
from clockseg.errors import UsageError

How: TypeAlias = Literal["serial", "concurrent", "ahead"]
Threaded: TypeAlias = Callable[[int], StagedNetwork]
"""A network by the number of threads that each of its parts is compiled for, such as ``lambda n: openvino(net, threads=n)``."""
AtOnce: TypeAlias = Callable[[Schedule], AbstractContextManager[Map]]
"""What gives a ``map`` that runs the segments of a schedule at once: ``concurrent``, or for GPUs ``cuda_streams``."""


def nothing() -> None:
    """What there is to do between frames unless a pipeline runs ahead."""


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
    at_once: AtOnce | None = None,
) -> Iterator[Runner]:
    """A runner for ``schedule``, with ``threads`` in all (None: as many as the process may use), its workers closed at the end.

    Serial and ahead, every part runs on all threads. Concurrent, each segment runs on its ``shares`` of them by the
    ``costs`` of its stages (any unit; None: equal), and fusing on all; or, where ``at_once`` runs them elsewhere than in
    threads of the CPU, as they are. A schedule of one segment always runs serially.

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
    elif at_once is not None:
        with at_once(made) as map:
            yield Runner(Session(whole, made, map=map), threads=(budget,) * len(segments))
    else:
        given = shares(_segment_costs(made, costs), budget)
        with concurrent(made, threads=budget) as map:
            yield Runner(Session(_shared_out(net, whole, made, given), made, map=map), threads=given)


@contextmanager
def concurrent(schedule: Schedule, *, threads: int | None = None) -> Iterator[Map]:
    """A ``map`` for ``step``, ``run`` and ``Session`` that runs the segments of ``schedule`` at once, each in a thread.

    For parts that release the GIL, as those of both engines do; ``threads`` bounds the workers (None: as many as the
    process may use). A step ends only when all of its segments have: then the error of the first that failed is raised,
    and the session's memory is that of the frame before. The workers end with the ``with`` block.

    >>> from clockseg.clockwork.schedule import pipelined
    >>> with concurrent(pipelined(2)(3)) as map:
    ...     map(len, ["ab", "c"])
    [2, 1]
    """
    count = len(schedule.segments())
    if count == 1:
        yield map
        return
    with ThreadPoolExecutor(min(count, threads_or_all(threads)), "clockseg-segment") as executor:

        def in_threads(function: Callable[[Any], Any], segments: Iterable[Any]) -> list[Any]:
            try:
                started = [executor.submit(function, segment) for segment in segments]
            except RuntimeError as error:
                raise UsageError("the pipeline's workers have ended; run it inside its with block.") from error
            wait(started)
            return [one.result() for one in started]

        yield in_threads


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
    """What each stage takes here, in seconds: the median over ``images`` after the first; ``costs`` for ``running``.

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
        trunk = session.memory.stages[segment.start - 1].trunk
        for stage in session.net.stages[segment.start : segment.stop]:
            trunk = stage.body(trunk)
            stage.head(trunk)
