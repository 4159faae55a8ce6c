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
from clockseg._firing import Fired, Firing, Frame, StageMemory, rerun
from clockseg._keeping import everything, needed, pattern, settled
from clockseg._together import Keep, Made, Run
from clockseg._watching import check, keep_picture, views
from clockseg.carry import identity
from clockseg.schedule import Named, Schedule, schedule_for
from clockseg.stages import StagedNetwork, Value
from clockseg.trace import Record, Seconds, Tally

Map = Callable[..., Iterable[Any]]


@dataclass(frozen=True)
class Memory:
    """All that is kept between frames.

    ``t`` counts frames from the last fill; ``values``: what stages show and groups give, by name. That of a ``Session``
    may hold only what its schedule reads again; ``fill`` and ``step`` keep everything.
    """

    t: int
    shape: tuple[int, ...]
    stages: tuple[StageMemory, ...]
    values: Mapping[str, Value]
    output: Any
    picture: Any
    record: Record


class _Fused(NamedTuple):
    """Which stages show something else than before, what was made of the last of them, and whether that is an output."""

    changed: set[str]
    made: Made | None
    finish: bool


def fill(net: StagedNetwork, schedule: Schedule, image: Any) -> tuple[Any, Memory]:
    """A full pass with no memory: every stage fires (the first frame, after a reset, after a change of size).

    Part by part, and everything is kept.
    """
    frame = Frame(0, image, keep_picture(schedule, image))
    groups = tuple(group.name for group in net.groups)
    start = time.perf_counter()
    prepared = net.prepare(image)
    waited = time.perf_counter() - start
    made = net.apart(Run(range(len(net)), groups, True, everything(net)), prepared, {})
    done: list[Fired] = []
    for index, (trunk, held, spent) in enumerate(zip(made.trunks, made.held, made.took.stages, strict=True)):
        seen = views(net, schedule, index, frame.picture, [one.memory for one in done])
        spent += 0.0 if index else waited
        done.append(Fired(StageMemory(trunk, held, held, 0, None, 0, 0, seen, seen, None), True, seconds=spent))
    return _written(net, frame, done, _Fused({stage.name for stage in net.stages}, made, True), None)


def step(net: StagedNetwork, schedule: Schedule, memory: Memory, image: Any, *, map: Map = map) -> tuple[Any, Memory]:
    """One frame: each clock decides, stages fire or hold, what is fresh and what is held are fused.

    The segments of a pipelined schedule read only what the frame before left, so ``map=executor.map`` runs them at
    once with the same result. A frame of another size than the memory's is a ``UsageError`` (``Session`` refills).
    """
    return _step(net, schedule, everything(net), memory, image, map)


def _step(
    net: StagedNetwork, schedule: Schedule, keep: Keep, memory: Memory, image: Any, map: Map
) -> tuple[Any, Memory]:
    """A step that keeps only ``keep`` where parts run as one."""
    if np.shape(image) != memory.shape:
        raise UsageError(f"a frame of shape {np.shape(image)} after frames of {memory.shape}; fill again.")
    start = time.perf_counter()
    motion = schedule.carry.observe(memory.picture, image) if schedule.carry.looks else None
    moving = time.perf_counter() - start
    frame = Frame(memory.t + 1, image, keep_picture(schedule, image), motion, moving)
    firing = Firing(net, schedule, keep, memory.stages, memory.values, frame)
    segments = schedule.segments()
    conclude = len(segments) == 1 and schedule.carry == identity
    start = time.perf_counter()
    found = list(map(lambda segment: firing.segment(segment, conclude=conclude), segments))
    wall = time.perf_counter() - start
    done = [one for stages, _ in found for one in stages]
    alone = sum(one.seconds + one.clock for one in done)
    overlap = max(0.0, alone - wall) if len(segments) > 1 else 0.0
    return _conclude(firing, done, found[-1][1], memory, overlap)


def _conclude(
    firing: Firing, done: list[Fired], made: Made | None, memory: Memory, overlap: float
) -> tuple[Any, Memory]:
    """Fuse and finish what changed, unless that was ``made`` with the stages."""
    net = firing.net
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
    return _written(net, firing.frame, done, _Fused(changed, made, finish), memory, overlap)


def _written(
    net: StagedNetwork,
    frame: Frame,
    done: list[Fired],
    fused: _Fused,
    memory: Memory | None,
    overlap: float = 0.0,
) -> tuple[Any, Memory]:
    """The output and the memory, with the record; what did not change is reused as it is."""
    stages, fired, signal, seconds, clocks = zip(*done, strict=True)
    values = {} if memory is None else dict(memory.values)
    values.update((stage.name, kept.shown) for stage, kept in zip(net.stages, stages, strict=True))
    output, fuse, finish = (None if memory is None else memory.output), 0.0, 0.0
    if fused.made is not None:
        values.update(fused.made.groups)
        fuse, finish = fused.made.took.fuse, fused.made.took.finish
        if fused.finish:
            start = time.perf_counter()
            output = net.restore(fused.made.output, frame.image)
            finish += time.perf_counter() - start
    spent = Seconds(seconds, sum(clocks), frame.moving, fuse, finish, overlap)
    moved = tuple(stage.name in fused.changed and not fires for stage, fires in zip(net.stages, fired, strict=True))
    record = Record(memory is None, fired, signal, tuple(kept.reflects for kept in stages), spent, moved)
    return output, Memory(frame.t, np.shape(frame.image), stages, values, output, frame.picture, record)


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
        self._keep = needed(net, self.schedule)
        self.tally = Tally(tuple(stage.name for stage in net.stages))
        self._map = map

    def __call__(self, image: Any) -> Any:
        """The output for this frame."""
        first = self.memory is None
        if self.memory is None or self.memory.shape != np.shape(image):
            output, self.memory = fill(self.net, self.schedule, image)
            self._compile_ahead(self.memory, image)
        else:
            output, self.memory = _step(self.net, self.schedule, self._keep, self.memory, image, self._map)
        self.tally = self.tally.add(self.memory.record, first=first)
        return output

    def _compile_ahead(self, memory: Memory, image: Any) -> None:
        """Run what frames may run that runs as one, so that later frames don't wait until it is compiled; not recorded."""
        joined = self.net.joined
        what = (np.shape(image), self._keep, pattern(self.schedule))
        if joined is None or not joined.stands_for(self.net) or not joined.is_new(what):
            return
        for schedule in settled(self.schedule):
            _step(self.net, schedule, self._keep, memory, image, map)

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
