"""The stages of one frame: each clock decides, what fires together runs together, what holds is carried along."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from clockseg.clockwork.carry import Carry, identity
from clockseg.clockwork.carrying import moves_whole
from clockseg.clockwork.clock import Tick, View, Watch, ask, watched_by_default
from clockseg.clockwork.network import StagedNetwork, Value
from clockseg.clockwork.schedule import Schedule
from clockseg.clockwork.together import Keep, Made, Run
from clockseg.clockwork.watching import views, watches


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


class Frame(NamedTuple):
    """One frame to be run: what its stages share. ``prepared``: where something looked at it already, else None.

    ``output``: the last there was. ``travels``: motions composed with this frame's, since stages share what they share.
    ``looking``: seconds that preparing took, where a clock looks at that; ``took``: those of the frame before.
    """

    t: int
    image: Any
    picture: Any
    motion: Any = None
    moving: float = 0.0
    prepared: Any = None
    output: Any = None
    travels: Any = None
    looking: float = 0.0
    took: float = 0.0

    def travel(self, carry: Carry, motion: Any) -> Any:
        """``motion`` up to the frame before, and up to this one."""
        travels: list[tuple[Any, Any]] = self.travels
        for known, found in travels:
            if known is motion:
                return found
        travels.append((motion, carry.compose(motion, self.motion)))
        return travels[-1][1]


class Fired(NamedTuple):
    """What became of one stage."""

    memory: StageMemory
    fired: bool = False
    signal: float | None = None
    seconds: float = 0.0
    clock: float = 0.0

    def moved(self, carry: Carry) -> Fired:
        """With what it holds moved, where that was put off."""
        start = time.perf_counter()
        shown = carry.move(self.memory.held, self.memory.motion)
        return self._replace(memory=self.memory._replace(shown=shown), clock=self.clock + time.perf_counter() - start)


class Refill(Exception):
    """A clock's answer that nothing held is worth anything: its stage (0 is the first), and its new state."""

    def __init__(self, stage: int, state: Any) -> None:
        super().__init__(stage)
        self.stage, self.state = stage, state


class _Asked(NamedTuple):
    """What the clock of one stage said, and what it was shown; ``seconds`` it took."""

    fires: bool
    signal: float | None
    state: Any
    seen: Mapping[Watch, Any]
    seconds: float


def rerun(net: StagedNetwork, changed: Iterable[str]) -> tuple[tuple[str, ...], bool]:
    """The groups that run again when the values of these stages changed, in order, and whether the output is another."""
    others, found = set(changed), []
    for group in net.groups:
        if others.intersection(group.reads):
            others.add(group.name)
            found.append(group.name)
    return tuple(found), net.last in others


@dataclass(frozen=True)
class Firing:
    """One frame of ``net`` under ``schedule``, after one that left ``stages`` and ``values``; ``keep``: what to keep of it."""

    net: StagedNetwork
    schedule: Schedule
    keep: Keep
    stages: tuple[StageMemory, ...]
    values: Mapping[str, Value]
    frame: Frame

    @property
    def lazy(self) -> bool:
        """Whether what stages hold is moved only where it is fused anew: no clock looks at it."""
        schedule = self.schedule
        looks = any(watch.of == "scores" for index in range(len(schedule)) for watch in watches(schedule, index))
        return moves_whole(schedule) and schedule.nested and len(schedule.segments()) == 1 and not looks

    def segment(self, segment: range, *, conclude: bool) -> tuple[list[Fired], Made | None]:
        """The stages of one segment; those before it are seen as the frame before left them.

        A clock that looks at no map of the stages that are to fire is asked before they do, so that its stage can run
        together with them. ``conclude``: with the last of them, groups and output are made too, if what fires is settled
        by then; what was made of these is returned (else None).
        """
        done = [Fired(kept) for kept in self.stages[: segment.start]]
        concluded = None
        while len(done) < segment.stop:
            asked = self._ask(segment, done)
            firing = [one for one in asked if one.fires]
            over = len(done) + len(asked) == segment.stop or (self.schedule.nested and not asked[-1].fires)
            if firing:
                here = conclude and over and (self.schedule.carry == identity or self._whole(done, firing))
                made = self._fire(done, firing, conclude=here)
                concluded = made if here else None
            if len(firing) < len(asked):
                done.append(self._hold(len(done), asked[-1]))
        return done[segment.start :], concluded

    def _whole(self, done: Sequence[Fired], firing: Sequence[_Asked]) -> bool:
        """Whether every stage fires on this frame."""
        return len(done) + len(firing) == len(self.stages) and all(one.fired for one in done)

    def _ask(self, segment: range, done: Sequence[Fired]) -> list[_Asked]:
        """The clocks from the next stage on, up to one that says hold or has to wait for a map."""
        first, asked = len(done), list[_Asked]()
        for index in range(first, segment.stop):
            if asked and any(w.stage > first for w in watches(self.schedule, index)):
                break
            before = bool(asked) or index == 0 or done[-1].fired
            asked.append(self._decide(index, done, before=before))
            if not asked[-1].fires:
                break
        return asked

    def _decide(self, index: int, done: Sequence[Fired], *, before: bool) -> _Asked:
        """What the clock of stage ``index`` says; ``before``: whether the stage before it fires."""
        start, past = time.perf_counter(), self.stages[index]
        frame = self.frame
        seen = views(self.net, self.schedule, index, frame.picture, [one.memory for one in done])
        if not (before or not self.schedule.nested or self.schedule.delays[index] == 1):
            return _Asked(False, None, past.state, seen, time.perf_counter() - start)
        travel = self.frame.travel(self.schedule.carry, past.motion)
        tick = _tick(frame, index, past, seen, start)._replace(
            travel=travel, output=frame.output, classes=self.net.classes, took=frame.took
        )
        decision, state = ask(self.schedule.clocks[index], tick, past.state)
        if decision.refill:
            raise Refill(index, state)
        return _Asked(decision.fires, decision.signal, state, seen, time.perf_counter() - start)

    def _hold(self, index: int, asked: _Asked) -> Fired:
        start, past, carry = time.perf_counter(), self.stages[index], self.schedule.carry
        motion = self.frame.travel(carry, past.motion)
        shown = past.shown if self.lazy else carry.move(past.held, motion)
        kept = past._replace(shown=shown, motion=motion, since=past.since + 1, before=asked.seen, state=asked.state)
        return Fired(kept, False, asked.signal, clock=asked.seconds + time.perf_counter() - start)

    def _fire(self, done: list[Fired], firing: Sequence[_Asked], *, conclude: bool) -> Made:
        """Run the next stages, and append what became of them to ``done``."""
        start, stages = time.perf_counter(), range(len(done), len(done) + len(firing))
        trunk = done[-1].memory.trunk if done else self.frame.prepared
        trunk = self.net.prepare(self.frame.image) if trunk is None else trunk
        prepared = time.perf_counter() - start
        shown = self._shown(done) if conclude else {}
        fired = {stage.name for stage, one in zip(self.net.stages, done, strict=False) if one.fired}
        fired.update(self.net.stages[index].name for index in stages)
        groups, finish = rerun(self.net, fired) if conclude else ((), False)
        run = Run(stages, groups, finish, self.keep.of(stages, groups))
        made = self.net.together(run, trunk, shown)
        for index, asked, new, held, spent in zip(
            stages, firing, made.trunks, made.held, made.took.stages, strict=True
        ):
            spent += prepared if index == 0 else 0.0
            fresh = self._fresh(done, asked, new, held)
            done.append(Fired(fresh, True, asked.signal, spent, asked.seconds))
        return made

    def _shown(self, done: Sequence[Fired]) -> dict[str, Value]:
        """What stages show and groups gave, as far as it is known: of this frame those that are done."""
        kept = [*(one.memory for one in done), *self.stages[len(done) :]]
        stages = {stage.name: one.shown for stage, one in zip(self.net.stages, kept, strict=True)}
        return {**self.values, **stages}

    def _fresh(self, done: Sequence[Fired], asked: _Asked, trunk: Value, held: Value) -> StageMemory:
        """What is kept of the next stage, which fires."""
        index, carry = len(done), self.schedule.carry
        # What fires reflects the frame that its input reflects, and is behind by the same motion.
        reflects, motion = (done[-1].memory.reflects, done[-1].memory.motion) if done else (self.frame.t, None)
        motion = carry.compose(motion, self.frame.motion) if self.schedule.delays[index] == 1 else motion
        fires = self.stages[index].fires + 1
        shown = held if self.lazy else carry.move(held, motion)
        return StageMemory(trunk, held, shown, reflects, motion, 0, fires, asked.seen, asked.seen, asked.state)


def _tick(frame: Frame, index: int, past: StageMemory, seen: Mapping[Watch, Any], seconds: float) -> Tick:
    shown = {watch: View(now, past.seen[watch], past.before[watch]) for watch, now in seen.items()}
    view = shown.get(watched_by_default(index + 1), View(None, None, None))
    return Tick(frame.t, index + 1, frame.image, *view, past.since + 1, past.fires, frame.motion, seconds, shown)
