"""Running a staged network over a video: state in, state out.

``fill`` and ``step`` are pure functions on a ``Memory``; ``run`` and ``Session`` keep it for you.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clockseg._errors import UsageError
from clockseg._watching import check, keep_picture, views
from clockseg.clocks import Tick, View, Watch
from clockseg.clocks.tick import watched_by_default
from clockseg.schedule import Named, Schedule, schedule_for
from clockseg.stages import StagedNetwork, Value
from clockseg.trace import Record, Seconds, Tally

Map = Callable[..., Iterable[Any]]


class StageMemory(NamedTuple):
    """What is kept of one stage.

    ``trunk`` and ``held`` as they were computed from frame ``reflects``; ``motion`` composed since; ``shown``: ``held``
    carried to this frame. ``seen`` and ``before``: what its clock looked at, at its last firing and at the frame before.
    """

    trunk: Value
    held: Value
    shown: Value
    reflects: int
    motion: Any
    since: int
    fires: int
    seen: Mapping[Watch, Any]
    before: Mapping[Watch, Any]
    state: Any


@dataclass(frozen=True)
class Memory:
    """All that a session keeps between frames.

    ``t`` counts frames from the last fill; ``values``: what stages show and groups give, by name.
    """

    t: int
    shape: tuple[int, ...]
    stages: tuple[StageMemory, ...]
    values: Mapping[str, Value]
    output: Any
    picture: Any
    record: Record


class _Frame(NamedTuple):
    """One frame to be run: what its stages share."""

    t: int
    image: Any
    picture: Any
    motion: Any = None
    moving: float = 0.0


class _Fired(NamedTuple):
    memory: StageMemory
    fired: bool = False
    signal: float | None = None
    seconds: float = 0.0
    clock: float = 0.0


def fill(net: StagedNetwork, schedule: Schedule, image: Any) -> tuple[Any, Memory]:
    """A full pass with no memory: every stage fires (the first frame, after a reset, after a change of size)."""
    frame = _Frame(0, image, keep_picture(schedule, image))
    done: list[_Fired] = []
    for index in range(len(net)):
        start = time.perf_counter()
        trunk, held = _fire(net, index, image, done)
        spent = time.perf_counter() - start
        seen = views(net, schedule, index, frame.picture, [one.memory for one in done])
        done.append(_Fired(StageMemory(trunk, held, held, 0, None, 0, 0, seen, seen, None), True, seconds=spent))
    return _conclude(net, frame, done, None)


def step(net: StagedNetwork, schedule: Schedule, memory: Memory, image: Any, *, map: Map = map) -> tuple[Any, Memory]:
    """One frame: each clock decides, stages fire or hold, what is fresh and what is held are fused.

    The segments of a pipelined schedule read only what the frame before left, so ``map=executor.map`` runs them at
    once with the same result. A frame of another size than the memory's is a ``UsageError`` (``Session`` refills).
    """
    if np.shape(image) != memory.shape:
        raise UsageError(f"a frame of shape {np.shape(image)} after frames of {memory.shape}; fill again.")
    start = time.perf_counter()
    motion = schedule.carry.observe(memory.picture, image) if schedule.carry.looks else None
    moving = time.perf_counter() - start
    frame = _Frame(memory.t + 1, image, keep_picture(schedule, image), motion, moving)
    start = time.perf_counter()
    segments = map(lambda segment: _run_segment(net, schedule, memory, segment, frame), schedule.segments())
    done = [one for segment in segments for one in segment]
    alone = sum(one.seconds + one.clock for one in done)
    return _conclude(net, frame, done, memory, overlap=max(0.0, alone - (time.perf_counter() - start)))


def _run_segment(net: StagedNetwork, schedule: Schedule, memory: Memory, segment: range, frame: _Frame) -> list[_Fired]:
    """The stages of one segment; those before it are seen as the frame before left them."""
    done = [_Fired(kept) for kept in memory.stages[: segment.start]]
    for index in segment:
        done.append(_run_stage(net, schedule, memory.stages[index], frame, done))
    return done[segment.start :]


def _run_stage(net: StagedNetwork, schedule: Schedule, past: StageMemory, frame: _Frame, done: list[_Fired]) -> _Fired:
    """One stage of one frame; ``done``: the stages before it, as this one sees them."""
    start, index, carry = time.perf_counter(), len(done), schedule.carry
    delayed = schedule.delays[index] == 1
    seen = views(net, schedule, index, frame.picture, [one.memory for one in done])
    state, fires, signal = past.state, False, None
    if delayed or not schedule.nested or index == 0 or done[-1].fired:
        decision, state = schedule.clocks[index](_tick(frame, index, past, seen, start), past.state)
        fires, signal = decision.fires, decision.signal
    if not fires:
        motion = carry.compose(past.motion, frame.motion)
        shown = carry.move(past.held, motion)
        kept = past._replace(shown=shown, motion=motion, since=past.since + 1, before=seen, state=state)
        return _Fired(kept, False, signal, clock=time.perf_counter() - start)
    clocked = time.perf_counter()
    trunk, held = _fire(net, index, frame.image, done)
    spent = time.perf_counter() - clocked
    # What fires reflects the frame that its input reflects, and is behind by the same motion.
    reflects, motion = (done[-1].memory.reflects, done[-1].memory.motion) if index else (frame.t, None)
    motion = carry.compose(motion, frame.motion) if delayed else motion
    shown = carry.move(held, motion)
    kept = StageMemory(trunk, held, shown, reflects, motion, 0, past.fires + 1, seen, seen, state)
    return _Fired(kept, True, signal, spent, clocked - start)


def _fire(net: StagedNetwork, index: int, image: Any, done: list[_Fired]) -> tuple[Value, Value]:
    stage = net.stages[index]
    trunk = stage.body(done[-1].memory.trunk if index else net.prepare(image))
    return trunk, stage.head(trunk)


def _tick(frame: _Frame, index: int, past: StageMemory, seen: Mapping[Watch, Any], seconds: float) -> Tick:
    shown = {watch: View(now, past.seen[watch], past.before[watch]) for watch, now in seen.items()}
    view = shown.get(watched_by_default(index + 1), View(None, None, None))
    return Tick(frame.t, index + 1, frame.image, *view, past.since + 1, past.fires, frame.motion, seconds, shown)


def _conclude(
    net: StagedNetwork, frame: _Frame, done: list[_Fired], memory: Memory | None, *, overlap: float = 0.0
) -> tuple[Any, Memory]:
    """Fuse and finish what changed, and write the record; what did not change is reused as it is."""
    start = time.perf_counter()
    values, changed = _fuse(net, done, memory)
    fused = time.perf_counter()
    if memory is None or net.last in changed:
        output = net.restore(net.finish(values[net.last]), frame.image)
    else:
        output = memory.output
    finished = time.perf_counter()
    stages, fired, signal, seconds, clocks = zip(*done, strict=True)
    spent = Seconds(seconds, sum(clocks), frame.moving, fused - start, finished - fused, overlap)
    record = Record(memory is None, fired, signal, tuple(kept.reflects for kept in stages), spent)
    return output, Memory(frame.t, np.shape(frame.image), stages, values, output, frame.picture, record)


def _fuse(net: StagedNetwork, done: list[_Fired], memory: Memory | None) -> tuple[dict[str, Value], set[str]]:
    """What stages show and groups give now, by name; and the names of those that are not as they were."""
    values: dict[str, Value] = {}
    changed: set[str] = set()
    for stage, one in zip(net.stages, done, strict=True):
        values[stage.name] = one.memory.shown
        if memory is None or one.fired or one.memory.shown is not memory.values[stage.name]:
            changed.add(stage.name)
    for group in net.groups:
        if memory is None or changed.intersection(group.reads):
            values[group.name] = group.function(*(values[name] for name in group.reads))
            changed.add(group.name)
        else:
            values[group.name] = memory.values[group.name]
    return values, changed


class Session:
    """A network running over one video, frame by frame: ``session(image) -> output``.

    ``schedule``: a ``Schedule`` or a function of the number of stages (``alternating``, ``adaptive(0.25)``). The output
    is the network's own (``street``: a label map, uint8 [h, w] at the frame's size, read-only). A change of the frames'
    size and ``reset()`` refill. ``record`` tells what happened at the last frame, ``tally`` sums up; ``map``: see ``step``.

    >>> from clockseg.stages import Stage
    >>> from clockseg.schedule import skip_frame
    >>> session = Session(StagedNetwork("one", (Stage("a", str.upper),)), skip_frame(2))
    >>> [session(frame) for frame in "abcd"]
    ['A', 'A', 'C', 'C']
    >>> session.tally.network_rate
    0.3333333333333333
    """

    def __init__(self, net: StagedNetwork, schedule: Schedule | Named, *, map: Map = map) -> None:
        self.net = net
        self.schedule = schedule_for(schedule, len(net))
        check(net, self.schedule)
        self.memory: Memory | None = None
        self.tally = Tally(tuple(stage.name for stage in net.stages))
        self._map = map

    def __call__(self, image: Any) -> Any:
        """The output for this frame."""
        first = self.memory is None
        if self.memory is None or self.memory.shape != np.shape(image):
            output, self.memory = fill(self.net, self.schedule, image)
        else:
            output, self.memory = step(self.net, self.schedule, self.memory, image, map=self._map)
        self.tally = self.tally.add(self.memory.record, first=first)
        return output

    def reset(self) -> None:
        """Forget what is held: the next frame refills, and counts as the first of a clip."""
        self.memory = None

    @property
    def record(self) -> Record:
        """What happened at the last frame."""
        if self.memory is None:
            raise UsageError("nothing has run since the start or the reset; give the session a frame first.")
        return self.memory.record


def run(
    net: StagedNetwork, images: Iterable[Any], schedule: Schedule | Named, *, map: Map = map
) -> Iterator[tuple[Any, Record]]:
    """The output and the record of each frame of one clip.

    >>> from clockseg.stages import Stage
    >>> from clockseg.schedule import frame_oracle
    >>> [output for output, record in run(StagedNetwork("one", (Stage("a", str.upper),)), "ab", frame_oracle)]
    ['A', 'B']
    """
    session = Session(net, schedule, map=map)
    for image in images:
        yield session(image), session.record
