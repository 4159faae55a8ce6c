"""Running a staged network over a video: state in, state out.

``fill`` and ``step`` are pure functions on a ``Memory``; ``run`` and ``Session`` keep it for you.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clockseg.clockwork.carrying import Carried, Carrying, Fused, how
from clockseg.clockwork.firing import Fired, Firing, Frame, Refill, StageMemory, rerun
from clockseg.clockwork.network import StagedNetwork, Value
from clockseg.clockwork.schedule import Named, Schedule, schedule_for
from clockseg.clockwork.together import Keep, Made, Run
from clockseg.clockwork.trace import Record, Seconds, Tally
from clockseg.clockwork.watching import check, keep_picture, views
from clockseg.errors import UsageError
from clockseg.execution.keeping import everything, needed, pattern, settled

Map = Callable[..., Iterable[Any]]


@dataclass(frozen=True)
class Memory:
    """All that is kept between frames.

    ``t`` counts frames from the last fill; ``values``: what stages show and groups give, by name. That of a ``Session``
    may hold only what its schedule reads again; ``fill`` and ``step`` keep everything. ``sight``: what the carry keeps of
    the frame, ``fused``: what was fused last, which it may move.
    """

    t: int
    shape: tuple[int, ...]
    stages: tuple[StageMemory, ...]
    values: Mapping[str, Value]
    output: Any
    picture: Any
    record: Record
    sight: Any
    fused: Fused


class _Fused(NamedTuple):
    """Which stages show something else than before, what was made of the last of them, and whether that is an output."""

    changed: set[str]
    made: Made | None
    finish: bool
    carried: Carried | None = None


def fill(
    net: StagedNetwork, schedule: Schedule, image: Any, *, vectors: Any = None, states: Sequence[Any] | None = None
) -> tuple[Any, Memory]:
    """A full pass with no memory: every stage fires (the first frame, after a reset, after a change of size).

    Part by part, and everything is kept. ``vectors``: see ``step``; ``states``: those that the clocks start with.

    >>> from clockseg import Stage, skip_frame
    >>> fill(StagedNetwork("one", (Stage("a", str.upper),)), skip_frame(2)(1), "w")[0]
    'W'
    """
    groups = tuple(group.name for group in net.groups)
    start = time.perf_counter()
    prepared = net.prepare(image)
    waited = time.perf_counter() - start
    sight, _, moving = _seen(schedule, prepared, image, vectors, None)
    ahead = prepared if schedule.carry.looks else None
    frame = Frame(0, image, keep_picture(schedule, image), None, moving, ahead)
    made = net.apart(Run(range(len(net)), groups, True, everything(net)), prepared, {})
    done: list[Fired] = []
    for index, (trunk, held, spent) in enumerate(zip(made.trunks, made.held, made.took.stages, strict=True)):
        seen = views(net, schedule, index, frame.picture, [one.memory for one in done])
        spent += 0.0 if index else waited
        state = None if states is None else states[index]
        done.append(Fired(StageMemory(trunk, held, held, 0, None, 0, 0, seen, seen, state), True, seconds=spent))
    return _written(net, frame, done, _Fused({stage.name for stage in net.stages}, made, True), None, sight)


def step(
    net: StagedNetwork, schedule: Schedule, memory: Memory, image: Any, *, vectors: Any = None, map: Map = map
) -> tuple[Any, Memory]:
    """One frame: each clock decides, stages fire or hold, what is fresh and what is held are fused.

    ``vectors``: what the codec says of the frame's motion (``clockseg.video.Frame.vectors``), for a carry that reads it. The
    segments of a pipelined schedule read only what the frame before left, so ``map=executor.map`` runs them at once with
    the same result. A frame of another size than the memory's is a ``UsageError`` (``Session`` refills).

    >>> from clockseg import Stage, skip_frame
    >>> net, schedule = StagedNetwork("one", (Stage("a", str.upper),)), skip_frame(2)(1)
    >>> _, memory = fill(net, schedule, "w")
    >>> step(net, schedule, memory, "x")[0]
    'W'
    """
    return _step(net, schedule, everything(net), memory, image, vectors, map)


def _step(
    net: StagedNetwork, schedule: Schedule, keep: Keep, memory: Memory, image: Any, vectors: Any, map: Map
) -> tuple[Any, Memory]:
    """A step that keeps only ``keep`` where parts run as one."""
    if np.shape(image) != memory.shape:
        raise UsageError(f"a frame of shape {np.shape(image)} after frames of {memory.shape}; fill again.")
    start = time.perf_counter()
    prepared = net.prepare(image) if schedule.carry.looks else None
    waited = time.perf_counter() - start
    sight, motion, moving = _seen(schedule, prepared, image, vectors, memory.sight)
    picture = keep_picture(schedule, image)
    looking, moving = (0.0, waited + moving) if schedule.carry.looks else (waited, moving)
    took = memory.record.seconds.network
    frame = Frame(memory.t + 1, image, picture, motion, moving, prepared, memory.fused.output, [], looking, took)
    firing = Firing(net, schedule, keep, memory.stages, memory.values, frame)
    segments = schedule.segments()
    start = time.perf_counter()
    try:
        found = list(map(lambda segment: firing.segment(segment, conclude=len(segments) == 1), segments))
    except Refill as cut:
        states = [one.state for one in memory.stages]
        states[cut.stage] = cut.state
        return fill(net, schedule, image, vectors=vectors, states=states)
    wall = time.perf_counter() - start
    done = [one for stages, _ in found for one in stages]
    alone = sum(one.seconds + one.clock for one in done)
    overlap = max(0.0, alone - wall) if len(segments) > 1 else 0.0
    return _conclude(firing, done, found[-1][1], memory, sight, overlap)


def _seen(schedule: Schedule, prepared: Any, image: Any, vectors: Any, before: Any) -> tuple[Any, Any, float]:
    """What the carry keeps of a frame, the motion since what it kept of the one ``before``, and the seconds it took."""
    if not schedule.carry.looks:
        return None, None, 0.0
    start = time.perf_counter()
    sight = schedule.carry.see(prepared, image, vectors)
    motion = None if before is None else schedule.carry.observe(before, sight)
    return sight, motion, time.perf_counter() - start


def _conclude(
    firing: Firing, done: list[Fired], made: Made | None, memory: Memory, sight: Any, overlap: float
) -> tuple[Any, Memory]:
    """Fuse and finish what changed, unless that was ``made`` with the stages, or move what was fused last."""
    net, carry = firing.net, firing.schedule.carry
    way = how(net, carry, [one.fired for one in done])
    if way:
        fused = memory.fused._replace(motion=firing.frame.travel(carry, memory.fused.motion))
        carried = Carrying(net, carry, lambda: _read(firing, done)).output(fused, way)
        return _written(net, firing.frame, done, _Fused(set(), None, True, carried), memory, sight, overlap)
    if firing.lazy:
        done = [one if one.fired else one.moved(carry) for one in done]
    changed = {
        stage.name
        for stage, one in zip(net.stages, done, strict=True)
        if one.fired or one.memory.shown is not memory.values[stage.name]
    }
    groups, finish = rerun(net, changed)
    if made is None and (groups or finish):
        shown = {stage.name: one.memory.shown for stage, one in zip(net.stages, done, strict=True)}
        none = range(0)
        made = net.together(Run(none, groups, finish, firing.keep.of(none, groups)), None, {**memory.values, **shown})
    return _written(net, firing.frame, done, _Fused(changed, made, finish), memory, sight, overlap)


def _read(firing: Firing, done: Sequence[Fired]) -> Value:
    """What the network's correction reads of this frame."""
    names = [stage.name for stage in firing.net.stages]
    reads = None if firing.net.correction is None else firing.net.correction.reads
    return firing.frame.prepared if reads is None else done[names.index(reads)].memory.trunk


def _written(
    net: StagedNetwork,
    frame: Frame,
    done: list[Fired],
    fused: _Fused,
    memory: Memory | None,
    sight: Any,
    overlap: float = 0.0,
) -> tuple[Any, Memory]:
    """The output and the memory, with the record; what did not change is reused as it is."""
    stages, fired, signal, seconds, clocks = zip(*done, strict=True)
    values = {} if memory is None else dict(memory.values)
    values.update((stage.name, kept.shown) for stage, kept in zip(net.stages, stages, strict=True))
    output, fuse, finish, moving = (None if memory is None else memory.output), 0.0, 0.0, frame.moving
    last = Fused(None, None) if memory is None else memory.fused
    made: Value = None
    if fused.carried is not None:
        made, finish, moving = fused.carried.output, fused.carried.mending, moving + fused.carried.moving
        last = last._replace(motion=fused.carried.motion)
    elif fused.made is not None:
        values.update(fused.made.groups)
        made, fuse, finish = fused.made.output, fused.made.took.fuse, fused.made.took.finish
        whole = values.get(net.last) if net.groups else done[-1].memory.shown
        last = Fused(whole, made) if fused.finish else last
    if fused.finish and made is not None:
        start = time.perf_counter()
        output = net.restore(made, frame.image)
        finish += time.perf_counter() - start
    spent = Seconds(seconds, sum(clocks) + frame.looking, moving, fuse, finish, overlap)
    moved = tuple(stage.name in fused.changed and not fires for stage, fires in zip(net.stages, fired, strict=True))
    way = "" if fused.carried is None else fused.carried.how
    record = Record(memory is None, fired, signal, tuple(kept.reflects for kept in stages), spent, moved, way)
    return output, Memory(frame.t, np.shape(frame.image), stages, values, output, frame.picture, record, sight, last)


class Session:
    """A network running over one video, frame by frame: ``session(image) -> output``.

    ``schedule``: a ``Schedule`` or a function of the number of stages (``alternating``, ``adaptive(0.25)``). The output
    is the network's own (``street``: a label map, uint8 [h, w] at the frame's size, read-only). A change of the frames'
    size and ``reset()`` refill. ``record`` tells what happened at the last frame, ``tally`` sums up; ``map``: see ``step``.

    >>> from clockseg.clockwork.network import Stage
    >>> from clockseg.clockwork.schedule import skip_frame
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
        self._keep = needed(net, self.schedule)
        self.tally = Tally(tuple(stage.name for stage in net.stages))
        self._map = map

    def __call__(self, image: Any, *, vectors: Any = None) -> Any:
        """The output for this frame; ``vectors``: see ``step``."""
        first = self.memory is None
        if self.memory is None or self.memory.shape != np.shape(image):
            output, self.memory = fill(self.net, self.schedule, image, vectors=vectors)
            self._compile_ahead(self.memory, image, vectors)
        else:
            output, self.memory = _step(self.net, self.schedule, self._keep, self.memory, image, vectors, self._map)
        self.tally = self.tally.add(self.memory.record, first=first)
        return output

    def _compile_ahead(self, memory: Memory, image: Any, vectors: Any) -> None:
        """Run what frames may run that runs as one, so that later frames don't wait until it is compiled; not recorded."""
        joined = self.net.joined
        what = (np.shape(image), self._keep, pattern(self.schedule))
        if joined is None or not joined.stands_for(self.net) or not joined.is_new(what):
            return
        for schedule in settled(self.schedule):
            _step(self.net, schedule, self._keep, memory, image, vectors, map)

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

    >>> from clockseg.clockwork.network import Stage
    >>> from clockseg.clockwork.schedule import frame_oracle
    >>> [output for output, record in run(StagedNetwork("one", (Stage("a", str.upper),)), "ab", frame_oracle)]
    ['A', 'B']
    """
    session = Session(net, schedule, map=map)
    for image in images:
        yield session(image), session.record
