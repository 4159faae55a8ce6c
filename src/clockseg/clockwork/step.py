"""One frame of a clockwork network (paper, section 4): look, decide, fire or hold, carry, fuse, one stage at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache, cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from clockseg.clockwork.carry import call_carry
from clockseg.clockwork.clock import PICTURE, Decision, Every, Tick, View, Watch
from clockseg.clockwork.lazy import CLOCK, FINISH, FUSE, MOTION, Executor, Lazy
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule
from clockseg.clockwork.trace import Record, Seconds

NO_VIEW = View(None, None, None)
FIRE, HOLD = Decision(True), Decision(False)


class Cell(NamedTuple):
    """The cached values of one stage: ``trunk``, the value of its body, and ``held``, that of its head.

    ``frame``: the frame from which they were computed. ``since``: frames since the last firing; ``fires``: firings since the
    fill. ``seen`` and ``previous``: the maps that the stage's clock watched at the last firing and at the previous frame;
    ``state``: the clock's.
    """

    trunk: Any
    held: Any
    frame: int
    since: int = 0
    fires: int = 0
    seen: Mapping[Watch, Any] = {}
    previous: Mapping[Watch, Any] = {}
    state: Any = None


NEVER = Cell(None, None, 0, fires=-1)
"""The cell of a stage that has never fired."""


class Finished(NamedTuple):
    """The last fused ``value``, the ``output`` that ``finish`` made of it, and the ``frame`` on which it did."""

    value: Any
    output: Any
    frame: int


class Memory(NamedTuple):
    """Everything that is kept from one frame to the next. ``t`` counts frames from the last fill.

    ``stages``: one cell each. ``values``: the current values of stages and groups, by name. ``output``: the output at the
    frame's size. ``sight``: what the carry's ``see`` returned. ``motions``: the motion since each frame that a cell or
    ``finished`` is of, composed by the carry. Values are ``Lazy`` calls that have run: read their ``value``.
    """

    t: int
    shape: tuple[int, ...]
    stages: tuple[Cell, ...]
    finished: Finished
    values: Mapping[str, Any]
    output: Any
    sight: Any
    motions: Mapping[int, Any]
    record: Record

    def emptied(self, stages: Sequence[Cell]) -> Memory:
        """Return a memory after which every stage fires (``t`` is -1), with the states of the clocks of these ``stages``."""
        return self._replace(t=-1, stages=tuple([NEVER._replace(state=cell.state) for cell in stages]))


def step(
    net: StagedNetwork,
    schedule: Schedule,
    memory: Memory | None,
    image: Any,
    *,
    vectors: Any = None,
    executor: Executor | None = None,
) -> tuple[Any, Memory]:
    """Run one frame; return its output, and the memory for the next frame.

    Every stage fires without a memory, after a change of the frames' size, and if a clock asks for a refill. ``vectors``: the
    codec's motion vectors, for a carry that reads them. ``executor``: runs the parts; by default one at a time.

    >>> from clockseg import Stage, skip_frame
    >>> net, schedule = StagedNetwork("one", (Stage("a", str.upper),)), skip_frame(2)(1)
    >>> step(net, schedule, step(net, schedule, None, "w")[1], "x")[0]
    'W'
    """
    frame = CurrentFrame(net, schedule, memory, image, vectors, executor or Executor())
    now: list[Cell] = []
    answers: list[Decision] = []
    for i, stage in enumerate(net.stages):
        past = frame.past[i]
        # A stage with a delay reads the stages before it as the previous frame left them.
        late = frame.last is not None and schedule.delays[i] == 1
        before = frame.past if late else now
        views = frame.look(i, before, late) if schedule.watched[i] else {}
        # Its clock decides; one that counts frames needs no tick. With nested firing, a stage fires only if the one before it does.
        if frame.last is None:
            answer, state = FIRE, past.state
        elif i and not late and schedule.nested and not answers[-1].fire:
            answer, state = HOLD, past.state
        elif type(clock := schedule.clocks[i]) is Every:
            answer, state = HOLD if frame.t % clock.period else FIRE, past.state
        else:
            answer, state = frame.decide(i, views, frame.last)
            if answer.refill:
                frame.past[i] = past._replace(state=state)
                emptied = frame.last.emptied(frame.past)
                return step(net, schedule, emptied, image, vectors=vectors, executor=frame.executor)
        if answer.fire:
            # It computes from the stage before it; with a delay, that one's value is of an earlier frame.
            source = before[i - 1] if i else Cell(frame.prepared, None, frame.t)
            trunk = Lazy(i, stage.name + ".body", stage.body, (source.trunk,))
            held = Lazy(i, stage.name + ".head", stage.head, (trunk,))
            cell = Cell(trunk, held, source.frame, 0, past.fires + 1, views, views, state)
        else:
            # It holds its values, which the carry moves to this frame where they are read.
            cell = past._replace(since=past.since + 1, previous=views, state=state)
        now.append(cell)
        answers.append(answer)
    # Fresh and held values are fused, and everything that later frames may read is computed.
    after = frame.remember(now, answers)
    return after.output.value, after


def fill(
    net: StagedNetwork, schedule: Schedule, image: Any, *, vectors: Any = None, executor: Executor | None = None
) -> tuple[Any, Memory]:
    """Run a first frame, on which every stage fires: ``step`` without a memory.

    >>> from clockseg import Stage, skip_frame
    >>> fill(StagedNetwork("one", (Stage("a", str.upper),)), skip_frame(2)(1), "w")[0]
    'W'
    """
    return step(net, schedule, None, image, vectors=vectors, executor=executor)


class CurrentFrame:
    """The frame that is being run, with the lazy values that its stages share.

    ``last``: the memory of the previous frame; None if every stage fires. ``t``: its number, counted from the last fill.
    ``past``: the cells of all stages as the previous frame left them. ``prepared``: the frame as the network reads it.
    ``sight``: what the carry sees of it, ``motion``: since the previous frame, and ``motions``: since each frame that values are
    of; None if the carry estimates none, or for values of this very frame.
    """

    def __init__(
        self,
        net: StagedNetwork,
        schedule: Schedule,
        memory: Memory | None,
        image: Any,
        vectors: Any,
        executor: Executor,
    ) -> None:
        self.net, self.schedule, self.image, self.executor = net, schedule, image, executor
        if memory is not None and memory.t >= 0 and memory.shape != np.shape(image):
            memory = None
        self.t = 0 if memory is None else memory.t + 1
        self.past = [NEVER] * len(net) if memory is None else list(memory.stages)
        self.last = memory if self.t else None
        self.prepared = Lazy(0, "prepare", net.prepare, (image,))
        self.sight: Any = None
        self.motion: Any = None
        self.motions: dict[int, Any] = {}
        self._moved: dict[tuple[Lazy, Lazy], Lazy] = {}
        if schedule.carry.estimates_motion:
            # The carry may read the prepared frame before the network does, which then does not prepare it again.
            prepare = cache(partial(net.prepare, image))
            self.prepared = Lazy(0, "prepare", lambda image: prepare(), (image,))
            self.sight = self.by_carry("see", prepare, image, vectors)
            if self.last is not None:
                self.motion = self.by_carry("observe", self.last.sight, self.sight)
                earlier = self.last.motions.items()
                self.motions = {frame: self.by_carry("compose", since, self.motion) for frame, since in earlier}
            self.motions[self.t] = None

    def by_carry(self, method: str, *args: Any) -> Lazy:
        """Return the call of a method of the carry."""
        return Lazy(MOTION, method, partial(call_carry, self.schedule.carry, method, self.t), args)

    def moved(self, held: Lazy, motion: Lazy) -> Lazy:
        """Return a held value moved along a motion: the same call for all who read it."""
        if (held, motion) not in self._moved:
            self._moved[held, motion] = self.by_carry("move", held, motion)
        return self._moved[held, motion]

    @cached_property
    def picture(self) -> Any:
        """The frame as clocks see it: a copy, since the caller may decode the next frame into the same memory."""
        return self.image.copy() if isinstance(self.image, np.ndarray) else self.image

    def look(self, i: int, before: Sequence[Cell], late: bool) -> dict[Watch, Any]:
        """Return the maps that the clock of stage ``i`` watches, from the cells of the stages ``before`` it."""
        found: dict[Watch, Any] = {}
        # With a delay, the stages before it are seen as the previous frame left them, and moved to that frame.
        motions = self.last.motions if late and self.last is not None else self.motions
        for watch in self.schedule.watched[i]:
            if watch == PICTURE:
                found[watch] = self.picture
                continue
            stage, cell = self.net.stages[watch.stage - 1], before[watch.stage - 1]
            if watch.of == "features":
                found[watch] = self.executor.read(Lazy(CLOCK, stage.name + ".features", stage.features, (cell.trunk,)))
            elif stage.scores is not None:
                motion = motions.get(cell.frame)
                held = cell.held if motion is None else self.moved(cell.held, motion)
                found[watch] = self.executor.read(Lazy(CLOCK, stage.name + ".scores", stage.scores, (held,)))
        return found

    def decide(self, i: int, views: Mapping[Watch, Any], last: Memory) -> tuple[Decision, Any]:
        """Return the answer of the clock of stage ``i``, and its state."""
        past, read = self.past[i], self.executor.read
        shown = {watch: View(now, past.seen[watch], past.previous[watch]) for watch, now in views.items()}
        watched = shown.get(Watch("scores", i) if i else PICTURE, NO_VIEW)
        tick = Tick(
            self.t,
            i + 1,
            self.image,
            *watched,
            since=past.since + 1,
            fires=past.fires,
            motion=None if self.motion is None else read(self.motion),
            views=shown,
            travel=None if self.motion is None else read(self.motions[past.frame]),
            output=last.finished.output.value,
            classes=self.net.classes,
            last_seconds=last.record.seconds.network,
        )
        return self.executor.ask(self.schedule.clocks[i], tick, past.state)

    def fuse(self, now: Sequence[Cell], fired: Sequence[bool]) -> tuple[Mapping[str, Any], Finished]:
        """Fuse fresh and held values: return the current values by name, and the last that ``finish`` read.

        Groups run again if a value that they read has changed.
        """
        net, last = self.net, self.last
        values, changed = {} if last is None else dict(last.values), set()
        for name, cell, fires in zip(net.names, now, fired, strict=True):
            motion = self.motions.get(cell.frame)
            if fires or motion is not None:
                values[name] = cell.held if motion is None else self.moved(cell.held, motion)
                changed.add(name)
        for group in net.groups:
            if changed.intersection(group.reads):
                args = tuple([values[name] for name in group.reads])
                values[group.name] = Lazy(FUSE, group.name, group.function, args)
                changed.add(group.name)
        if last is not None and net.last not in changed:
            return values, last.finished
        value = values[net.last]
        return values, Finished(value, Lazy(FINISH, "finish", net.finish, (value,)), self.t)

    def remember(self, now: Sequence[Cell], answers: Sequence[Decision]) -> Memory:
        """Fuse the values of all stages, compute the output and everything that is kept, and return the memory of this frame.

        If nothing fires, the carry may propagate the last output instead.
        """
        net, last, propagated = self.net, self.last, ""
        fired = tuple([bool(answer.fire) for answer in answers])
        if last is not None and not any(fired) and self.schedule.carry.of == "output":
            values, finished, propagated = last.values, last.finished, "output"
            shown = self.by_carry("move", finished.output, self.motions.get(finished.frame))
        else:
            values, finished = self.fuse(now, fired)
            shown = finished.output
        if last is not None and shown is last.finished.output:
            output = last.output
        else:
            output = Lazy(FINISH, "restore", net.restore, (shown, self.image))
        frames = tuple([cell.frame for cell in now])
        motions = {frame: self.motions[frame] for frame in (finished.frame, *frames)} if self.motions else {}
        cached = [value for cell in now for value in (cell.trunk, cell.held)]
        self.executor.read(self.sight, *motions.values(), *cached, *finished, *values.values(), output)
        spent, self.executor.spent = self.executor.spent, defaultdict(float)
        others = [spent[kind] for kind in (CLOCK, MOTION, FUSE, FINISH)]
        seconds = Seconds(tuple([spent[i] for i in range(len(now))]), *others)
        signals = tuple([answer.signal for answer in answers])
        kept = [not (fires or propagated) for fires in fired]
        moved = tuple([one and motions.get(frame) is not None for one, frame in zip(kept, frames, strict=True)])
        record = Record(last is None, fired, signals, frames, seconds, moved, propagated)
        return Memory(self.t, np.shape(self.image), tuple(now), finished, values, output, self.sight, motions, record)
