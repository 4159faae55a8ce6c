"""One frame of a clockwork network (paper, section 4): look, decide, fire or hold, carry, fuse, one stage at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
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

    ``frame``: the frame from which they were computed; ``motion``: the motion since then, as the carry composed it.
    ``since``: frames since the last firing; ``fires``: firings since the fill. ``seen`` and ``previous``: the maps that the
    stage's clock watched at the last firing and at the previous frame; ``state``: the clock's.
    """

    trunk: Any
    held: Any
    frame: int
    motion: Any = None
    since: int = 0
    fires: int = 0
    seen: Mapping[Watch, Any] = {}
    previous: Mapping[Watch, Any] = {}
    state: Any = None


NEVER = Cell(None, None, 0, fires=-1)
"""The cell of a stage that has never fired."""


class Finished(NamedTuple):
    """The last fused ``value``, the ``output`` that ``finish`` made of it, and the ``motion`` since."""

    value: Any
    output: Any
    motion: Any = None


class Memory(NamedTuple):
    """Everything that is kept from one frame to the next. ``t`` counts frames from the last fill.

    ``stages``: one cell each. ``values``: the current values of stages and groups, by name. ``output``: the output at the
    frame's size. ``sight``: what the carry's ``see`` returned. Values are ``Lazy`` calls that have run: read their ``value``.
    """

    t: int
    shape: tuple[int, ...]
    stages: tuple[Cell, ...]
    finished: Finished
    values: Mapping[str, Any]
    output: Any
    sight: Any
    record: Record

    def emptied(self, stages: Iterable[Cell]) -> Memory:
        """Return a memory after which every stage fires, with the states of the clocks of these ``stages``."""
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
        before = frame.past[:i] if late else now
        views = frame.look(schedule.watched[i], before) if schedule.watched[i] else {}
        # Its clock decides. With nested firing, a stage fires only if the one before it does.
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
            # It computes from the stage before it, and reflects the frame that this one reflects.
            source = before[-1] if i else Cell(frame.prepared, None, frame.t)
            trunk = Lazy(i, stage.name + ".body", stage.body, (source.trunk,))
            held = Lazy(i, stage.name + ".head", stage.head, (trunk,))
            motion = frame.until_now(source.motion) if late else source.motion
            cell = Cell(trunk, held, source.frame, motion, 0, past.fires + 1, views, views, state)
        else:
            # It holds its values, which the carry moves to this frame where they are read.
            motion = frame.until_now(past.motion)
            cell = past._replace(motion=motion, since=past.since + 1, previous=views, state=state)
        now.append(cell)
        answers.append(answer)
    # Fresh and held values are fused, and everything that later frames may read is computed.
    after = frame.remember(now, answers, *frame.fuse(now, [answer.fire for answer in answers]))
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
    """The frame that is being run, with the lazy values that its stages share: each is made at most once.

    ``last``: the memory of the previous frame; None if every stage fires. ``t``: its number, counted from the last fill.
    ``past``: the cells of all stages as the previous frame left them. ``prepared``: the frame as the network reads it.
    ``sight``: what the carry sees of it, and ``motion``: since the previous frame (None if the carry estimates none).
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
        carry = schedule.carry
        self.prepared = Lazy(MOTION if carry.estimates_motion else 0, "prepare", net.prepare, (image,))
        self.sight: Any = None
        self.motion: Any = None
        self._shared: dict[tuple[str, Any, Any], Lazy] = {}
        if carry.estimates_motion:
            # A carry that has seen the frame already spares preparing one that no stage reads.
            prepared = self.prepared if getattr(carry, "reads_prepared", True) else None
            self.sight = self.by_carry("see", prepared, image, vectors)
            if self.last is not None:
                self.motion = self.by_carry("observe", self.last.sight, self.sight)

    def by_carry(self, method: str, *args: Any) -> Lazy:
        """Return the call of a method of the carry."""
        return Lazy(MOTION, method, partial(call_carry, self.schedule.carry, method, self.t), args)

    def _once(self, method: str, first: Any, then: Any) -> Lazy:
        """Return the call of a method of the carry: the same call for the same arguments, since stages share motions."""
        if (method, first, then) not in self._shared:
            self._shared[method, first, then] = self.by_carry(method, first, then)
        return self._shared[method, first, then]

    def until_now(self, motion: Any) -> Any:
        """Return ``motion``, which ends at the previous frame, extended to this frame."""
        return motion if self.motion is None else self._once("compose", motion, self.motion)

    def moved(self, cell: Cell) -> Any:
        """Return the value that a stage holds, moved along the motion since."""
        return self._once("move", cell.held, cell.motion)

    @cached_property
    def picture(self) -> Any:
        """The frame as clocks see it: a copy, since the caller may decode the next frame into the same memory."""
        return self.image.copy() if isinstance(self.image, np.ndarray) else self.image

    def look(self, watched: Iterable[Watch], before: Sequence[Cell]) -> dict[Watch, Any]:
        """Return the maps that a clock watches, from the cells of the stages ``before`` its own."""
        found: dict[Watch, Any] = {}
        for watch in watched:
            if watch == PICTURE:
                found[watch] = self.picture
                continue
            stage, cell = self.net.stages[watch.stage - 1], before[watch.stage - 1]
            if watch.of == "features":
                found[watch] = self.executor.read(Lazy(CLOCK, stage.name + ".features", stage.features, (cell.trunk,)))
            elif stage.scores is not None:
                held = cell.held if cell.motion is None else self.moved(cell)
                found[watch] = self.executor.read(Lazy(CLOCK, stage.name + ".scores", stage.scores, (held,)))
        return found

    def decide(self, i: int, views: Mapping[Watch, Any], last: Memory) -> tuple[Decision, Any]:
        """Return the answer of the clock of stage ``i``, and its state."""
        past = self.past[i]
        shown = {watch: View(now, past.seen[watch], past.previous[watch]) for watch, now in views.items()}
        watched = shown.get(Watch("scores", i) if i else PICTURE, NO_VIEW)
        tick = Tick(
            self.t,
            i + 1,
            self.image,
            *watched,
            since=past.since + 1,
            fires=past.fires,
            motion=self.executor.read(self.motion) if self.motion is not None else None,
            views=shown,
            travel=self.executor.read(self.until_now(past.motion)) if self.motion is not None else None,
            output=last.finished.output.value,
            classes=self.net.classes,
            last_seconds=last.record.seconds.network,
        )
        return self.executor.ask(self.schedule.clocks[i], tick, past.state)

    def fuse(self, now: Sequence[Cell], fired: Sequence[bool]) -> tuple[Mapping[str, Any], Finished, Lazy, str]:
        """Fuse fresh and held values: return the values by name, those of ``finish``, the output, and ``Record.propagated``.

        Groups run again if a value that they read has changed. If nothing fires, the carry may propagate the last output.
        """
        net, last, propagated = self.net, self.last, ""
        values = {} if last is None else dict(last.values)
        if last is not None and not any(fired) and self.schedule.carry.of != "held":
            finished = last.finished._replace(motion=self.until_now(last.finished.motion))
            propagated, shown = self.propagate(finished)
        else:
            changed = set()
            for stage, cell, fires in zip(net.stages, now, fired, strict=True):
                if fires or cell.motion is not None:
                    values[stage.name] = cell.held if cell.motion is None else self.moved(cell)
                    changed.add(stage.name)
            for group in net.groups:
                if changed.intersection(group.reads):
                    args = tuple([values[name] for name in group.reads])
                    values[group.name] = Lazy(FUSE, group.name, group.function, args)
                    changed.add(group.name)
            if last is not None and net.last not in changed:
                return values, last.finished, last.output, ""
            shown = Lazy(FINISH, "finish", net.finish, (values[net.last],))
            finished = Finished(values[net.last], shown)
        return values, finished, Lazy(FINISH, "restore", net.restore, (shown, self.image)), propagated

    def propagate(self, finished: Finished) -> tuple[str, Lazy]:
        """Return ``Record.propagated``, and what ``finish`` would give, from the last ``finished`` value and the motion since."""
        net, of = self.net, self.schedule.carry.of
        if of == "output" or (of == "auto" and net.correction is None):
            return "output", self.by_carry("move", finished.output, finished.motion)
        scores = Lazy(MOTION, "fused", net.fused, (finished.value,))
        moved = self.by_carry("move", scores, finished.motion)
        if net.correction is None:
            return "fused", Lazy(FINISH, "conclude", net.conclude or net.finish, (moved,))
        unexplained = self.by_carry("unexplained", moved, finished.motion)
        return "corrected", Lazy(FINISH, "correction", net.correction, (self.prepared, moved, unexplained))

    def remember(
        self,
        now: Sequence[Cell],
        answers: Sequence[Decision],
        values: Mapping[str, Any],
        finished: Finished,
        output: Lazy,
        propagated: str,
    ) -> Memory:
        """Compute the output and all values that are kept, and return the memory of this frame."""
        kept = [value for cell in now for value in (cell.motion, cell.trunk, cell.held)]
        self.executor.read(self.sight, *kept, *finished, *values.values(), output)
        spent, self.executor.spent = self.executor.spent, {}
        others = [spent.get(kind, 0.0) for kind in (CLOCK, MOTION, FUSE, FINISH)]
        fired = tuple([bool(answer.fire) for answer in answers])
        record = Record(
            self.last is None,
            fired,
            tuple([answer.signal for answer in answers]),
            tuple([cell.frame for cell in now]),
            Seconds(tuple([spent.get(i, 0.0) for i in range(len(now))]), *others),
            tuple([not (propagated or fires or cell.motion is None) for cell, fires in zip(now, fired, strict=True)]),
            propagated,
        )
        return Memory(self.t, np.shape(self.image), tuple(now), finished, values, output, self.sight, record)
