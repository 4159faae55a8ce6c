"""Pipelines: the segments of a schedule with delays, run serially, concurrently, or ahead (paper, section 4.1).

A segment reads only values of the previous frame, so all three compute the same bits, and differ in when an output is
ready. With stages of seconds a, b, c and fusing f, ``pipelined(3)`` gives frame t's output

* serial       a + b + c + f seconds after the frame;
* concurrent   max(a, b, c) + f after, each stage on its share of the threads;
* ahead        a + f after, on all threads: b and c for frame t are computed after the output of frame t - 1.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from clockseg.clockwork.lazy import Executor, Interpreter, Lazy
from clockseg.clockwork.network import Part, StagedNetwork, Value
from clockseg.clockwork.schedule import Named, Schedule, frame_oracle, schedule_for
from clockseg.clockwork.session import Session
from clockseg.errors import UsageError
from clockseg.execution.machine import threads_or_all

How: TypeAlias = Literal["serial", "concurrent", "ahead"]
Threaded: TypeAlias = Callable[[int], StagedNetwork]
"""A network by the number of threads that each of its parts is compiled for, such as ``lambda n: openvino(net, threads=n)``."""


def nothing() -> None:
    """Do nothing between frames."""


class Runner(NamedTuple):
    """A session and the work between its frames: call ``session(image)`` for the output, then ``between()``.

    ``threads``: the number of threads of each segment.
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
    """Yield a runner for ``schedule`` with ``threads`` in all (None: all cores); its workers end with the block.

    Serial and ahead, every part runs on all threads. Concurrent, each segment has a thread of its own, its parts run on its
    ``shares`` of the threads by the ``costs`` of its stages (any unit; None: equal), and fusing runs on all. That pays for
    parts that release the GIL, as those of the engines do. A frame ends when all of its segments have: if one fails, the
    session's memory is that of the frame before. A schedule of one segment always runs serially.

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
        own: Executor = Interpreter() if shared.executor is None else shared.executor(shared, made)
        with ThreadPoolExecutor(min(len(segments), budget), "clockseg-segment") as pool:
            yield Runner(Session(shared, made, executor=Concurrent(pool, own)), threads=given)


@dataclass(frozen=True)
class Concurrent:
    """Runs the chains of stages in a batch concurrently, each through ``executor``, and the rest after them.

    The seconds of concurrent calls are scaled to the time that passed.
    """

    pool: ThreadPoolExecutor
    executor: Executor = field(default_factory=Interpreter)

    def force(self, batch: Sequence[Lazy]) -> None:
        """Make the calls; if chains fail, raise the error of the first when all have ended."""
        chains, rest = divided(batch)
        if len(chains) < 2:
            self.executor.force(batch)
            return
        begun = time.perf_counter()
        try:
            started = [self.pool.submit(self.executor.force, chain) for chain in chains]
        except RuntimeError as error:
            raise UsageError("the pipeline's workers have ended; run it inside its with block.") from error
        wait(started)
        for one in started:
            one.result()
        wall, calls = time.perf_counter() - begun, [call for chain in chains for call in chain]
        alone = sum(call.seconds for call in calls)
        for call in calls:
            call.seconds *= min(1.0, wall / alone) if alone else 1.0
        if rest:
            self.executor.force(rest)

    def rehearse(self, memory: Any, image: Any, vectors: Any) -> None:
        """Prepare what it runs the chains through."""
        self.executor.rehearse(memory, image, vectors)


def divided(batch: Sequence[Lazy]) -> tuple[list[list[Lazy]], list[Lazy]]:
    """Return the chains of stages in a batch, each with what it depends on, and the calls that no stage depends on.

    >>> a = Lazy(0, "a.body", str, ())
    >>> calls = [a, Lazy(0, "a.head", str, (a,)), Lazy(1, "b.body", str, ()), Lazy("fuse", "sum", str, ())]
    >>> [len(chain) for chain in divided(calls)[0]], len(divided(calls)[1])
    ([2, 1], 1)
    """
    chain: dict[int, int] = {}
    index = {id(call): i for i, call in enumerate(batch)}
    for i, call in enumerate(batch):
        takes = [index[id(one)] for one in call.args if id(one) in index]
        if isinstance(call.kind, int):
            known = {chain[j] for j in takes if j in chain}
            joined = {i, *known}
            chain = {j: i if at in joined else at for j, at in chain.items()} | {i: i}
            chain |= dict.fromkeys(takes, i)
    heads = dict.fromkeys(chain[i] for i in sorted(chain))
    chains = [[call for i, call in enumerate(batch) if chain.get(i) == head] for head in heads]
    return chains, [call for i, call in enumerate(batch) if i not in chain]


def shares(costs: Sequence[float], threads: int) -> tuple[int, ...]:
    """Divide ``threads`` among segments of these costs: one each, and every further one to the slowest segment.

    With more segments than threads each gets one, and no more segments run at once than there are threads.

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
    """Return ``whole`` with the stages of each segment compiled for its number of threads."""
    pairs = zip(schedule.segments(), given, strict=True)
    return replace(whole, stages=tuple(net(count).stages[index] for segment, count in pairs for index in segment))


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
    first = schedule.segments()[0].stop
    later = (replace(one, body=_Remembered(one.body), head=_Remembered(one.head)) for one in net.stages[first:])
    return replace(net, stages=(*net.stages[:first], *later))


def _go_ahead(session: Session) -> None:
    """Compute the delayed segments of the next frame, in case their clocks fire: everything that they read is known."""
    if session.memory is None:
        return
    for segment in session.schedule.segments()[1:]:
        trunk = session.memory.stages[segment.start - 1].trunk.value
        for stage in session.net.stages[segment.start : segment.stop]:
            trunk = stage.body(trunk)
            stage.head(trunk)
