"""One frame of a clockwork network (paper, section 4): look, decide, fire or hold, carry, fuse, one stage at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from clockseg.clockwork.carry import call_carry
from clockseg.clockwork.clock import PICTURE, Decision, Every, Tick, View, Watch
from clockseg.clockwork.lazy import CLOCK, FINISH, FUSE, MOTION, Executor, Lazy
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule
from clockseg.clockwork.trace import Record, Seconds
from clockseg.errors import UsageError

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


def advance(
    net: StagedNetwork,
    schedule: Schedule,
    memory: Memory | None,
    image: Any,
    vectors: Any,
    executor: Executor,
    states: Sequence[Any] | None = None,
) -> Memory:
    """Run one frame, and return the memory for the next.

    Without a memory, after a change of the frames' size, and if a clock asks for a refill, every stage fires: a fill. ``states``:
    those that clocks had before a refill.
    """
    if memory is not None and memory.shape != np.shape(image):
        memory = None
    frame = CurrentFrame(net, schedule, memory, image, vectors, executor, states)
    now: list[Cell] = []
    answers: list[Decision] = []
    for i, stage in enumerate(net.stages):
        past = frame.past[i]
        # A stage with a delay reads the stages before it as the previous frame left them.
        late = memory is not None and schedule.delays[i] == 1
        before = frame.past[:i] if late else now
        views = frame.look(schedule.watched[i], before) if schedule.watched[i] else {}
        # Its clock decides. With nested firing, a stage fires only if the one before it does.
        if memory is None:
            answer, state = FIRE, past.state
        elif i and not late and schedule.nested and not answers[-1].fire:
            answer, state = HOLD, past.state
        elif type(clock := schedule.clocks[i]) is Every:
            answer, state = HOLD if frame.t % clock.period else FIRE, past.state
        else:
            answer, state = frame.decide(i, views, memory)
            if answer.refill:
                states = [state if j == i else cell.state for j, cell in enumerate(frame.past)]
                return advance(net, schedule, None, image, vectors, executor, states)
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
    fired = tuple([bool(answer.fire) for answer in answers])
    if memory is not None and not any(fired) and schedule.carry.of != "held":
        # Nothing fired, and the carry propagates the last output.
        finished = memory.finished._replace(motion=frame.until_now(memory.finished.motion))
        values, (how, shown) = memory.values, frame.propagate(finished)
    else:
        # Fresh and held values are fused.
        values, finished = frame.fuse(now, fired)
        how, shown = "", finished.output
    return frame.remember(now, answers, values, finished, shown, how)


@dataclass
class CurrentFrame:
    """The frame that is being run, with the lazy values that its stages share: each is made at most once.

    ``t``: its number, counted from the last fill. ``past``: the cells of all stages as the previous frame left them.
    ``prepared``: the frame as the network reads it. ``sight``: what the carry sees of it, and ``motion``: since the previous
    frame, as the carry estimates it (None: it estimates none).
    """

    net: StagedNetwork
    schedule: Schedule
    memory: Memory | None
    image: Any
    vectors: Any
    executor: Executor
    states: Sequence[Any] | None

    def __post_init__(self) -> None:
        carry, last = self.schedule.carry, self.memory
        if self.states is None:
            self.executor.spent = {}
        if last is None:
            self.t, self.past = 0, tuple([NEVER._replace(state=one) for one in self.states or (None,) * len(self.net)])
        else:
            self.t, self.past = last.t + 1, last.stages
        self.prepared = Lazy(MOTION if carry.estimates_motion else 0, "prepare", self.net.prepare, (self.image,))
        self.sight: Any = None
        self.motion: Any = None
        self._shared: dict[tuple[str, Any, Any], Lazy] = {}
        if carry.estimates_motion:
            # A carry that has seen the frame already spares preparing one that no stage reads.
            prepared = self.prepared if getattr(carry, "reads_prepared", True) else None
            self.sight = self.by_carry("see", prepared, self.image, self.vectors)
            if last is not None:
                self.motion = self.by_carry("observe", last.sight, self.sight)

    def by_carry(self, method: str, *args: Any) -> Lazy:
        """Return the call of a method of the carry."""
        return Lazy(MOTION, method, partial(call_carry, self.schedule.carry, method, self.t), args)

    @cached_property
    def picture(self) -> Any:
        """The frame as clocks see it: a copy, since the caller may decode the next frame into the same memory."""
        return self.image.copy() if isinstance(self.image, np.ndarray) else self.image

    def until_now(self, motion: Any) -> Any:
        """Return ``motion``, which ends at the previous frame, extended to this frame."""
        return motion if self.motion is None else self._once("compose", motion, self.motion)

    def carry(self, cell: Cell) -> Any:
        """Return the value that a stage holds, moved to this frame."""
        return cell.held if cell.motion is None else self._once("move", cell.held, cell.motion)

    def _once(self, method: str, first: Any, then: Any) -> Lazy:
        """Return the call of a method of the carry: the same call for the same arguments, since stages share motions."""
        if (method, first, then) not in self._shared:
            self._shared[method, first, then] = self.by_carry(method, first, then)
        return self._shared[method, first, then]

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
                held = cell.held if cell.motion is None else self.carry(cell)
                found[watch] = self.executor.read(Lazy(CLOCK, stage.name + ".scores", stage.scores, (held,)))
        return found

    def decide(self, i: int, views: Mapping[Watch, Any], memory: Memory) -> tuple[Decision, Any]:
        """Return the answer of the clock of stage ``i``, and its state."""
        past, clock = self.past[i], self.schedule.clocks[i]
        shown = {watch: View(now, past.seen[watch], past.previous[watch]) for watch, now in views.items()}
        watched = shown.get(Watch("scores", i) if i else PICTURE, NO_VIEW)
        moved = self.motion is not None
        tick = Tick(
            self.t,
            i + 1,
            self.image,
            *watched,
            since=past.since + 1,
            fires=past.fires,
            motion=self.executor.read(self.motion) if moved else None,
            views=shown,
            travel=self.executor.read(self.until_now(past.motion)) if moved else None,
            output=memory.finished.output.value,
            classes=self.net.classes,
            last_seconds=memory.record.seconds.network,
        )
        return self.executor.ask(clock, tick, past.state)

    def fuse(self, now: Sequence[Cell], fired: Sequence[bool]) -> tuple[dict[str, Any], Finished]:
        """Return the values of stages and groups by name, and the output; groups run again if a value that they read changed."""
        values = {} if self.memory is None else dict(self.memory.values)
        changed = set()
        for stage, cell, fires in zip(self.net.stages, now, fired, strict=True):
            if fires or cell.motion is not None:
                values[stage.name] = cell.held if cell.motion is None else self.carry(cell)
                changed.add(stage.name)
        for group in self.net.groups:
            if changed.intersection(group.reads):
                args = tuple([values[name] for name in group.reads])
                values[group.name] = Lazy(FUSE, group.name, group.function, args)
                changed.add(group.name)
        if self.memory is not None and self.net.last not in changed:
            return values, self.memory.finished
        value = values[self.net.last]
        return values, Finished(value, Lazy(FINISH, "finish", self.net.finish, (value,)))

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
        shown: Lazy,
        propagated: str,
    ) -> Memory:
        """Compute the output ``shown`` and all values that are kept, and return the memory of this frame."""
        last = self.memory
        if last is not None and shown is last.finished.output:
            output = last.output
        else:
            output = Lazy(FINISH, "restore", self.net.restore, (shown, self.image))
        kept = [value for cell in now for value in (cell.motion, cell.trunk, cell.held)]
        self.executor.read(self.sight, *kept, *finished, *values.values(), output)
        fired = tuple([bool(answer.fire) for answer in answers])
        moved = [
            not propagated and not fires and cell.motion is not None for cell, fires in zip(now, fired, strict=True)
        ]
        record = Record(
            last is None,
            fired,
            tuple([answer.signal for answer in answers]),
            tuple([cell.frame for cell in now]),
            Seconds.of(len(now), self.executor.spent),
            tuple(moved),
            propagated,
        )
        return Memory(self.t, np.shape(self.image), tuple(now), finished, values, output, self.sight, record)


def fill(
    net: StagedNetwork, schedule: Schedule, image: Any, *, vectors: Any = None, executor: Executor | None = None
) -> tuple[Any, Memory]:
    """Run a frame without memory, so that every stage fires: the first frame, or after a reset or a change of size.

    >>> from clockseg import Stage, skip_frame
    >>> fill(StagedNetwork("one", (Stage("a", str.upper),)), skip_frame(2)(1), "w")[0]
    'W'
    """
    memory = advance(net, schedule, None, image, vectors, executor or Executor())
    return memory.output.value, memory


def step(
    net: StagedNetwork,
    schedule: Schedule,
    memory: Memory,
    image: Any,
    *,
    vectors: Any = None,
    executor: Executor | None = None,
) -> tuple[Any, Memory]:
    """Run the next frame: each clock decides, stages fire or hold, and fresh and held values are fused.

    ``vectors``: the codec's motion vectors (``clockseg.video.Frame.vectors``), for a carry that reads them. ``executor``: by
    default parts run one at a time. ``UsageError`` if the frame's shape differs from the memory's; ``Session`` refills instead.

    >>> from clockseg import Stage, skip_frame
    >>> net, schedule = StagedNetwork("one", (Stage("a", str.upper),)), skip_frame(2)(1)
    >>> _, memory = fill(net, schedule, "w")
    >>> step(net, schedule, memory, "x")[0]
    'W'
    """
    if np.shape(image) != memory.shape:
        raise UsageError(f"a frame of shape {np.shape(image)} after frames of {memory.shape}; call fill for it.")
    after = advance(net, schedule, memory, image, vectors, executor or Executor())
    return after.output.value, after
