"""What stands for a network, its frames, its carry and its clocks while a tape is played: everything is a promise.

A promise's key says of which frames it is made and how, so that what two schedules would make alike is known to be alike.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

from clockseg.carry import Carry, Estimator, Motion, Warp
from clockseg.clocks import Clock, Decision, Tick, View, Watch
from clockseg.clockwork.carry import Of
from clockseg.clockwork.clock import ask, facts
from clockseg.clockwork.network import Correction, Group, Part, Stage, StagedNetwork, Value
from clockseg.clockwork.schedule import Schedule
from clockseg.errors import UsageError
from clockseg.execution.promise import Key, Promise, kept


class Frames(Protocol):
    """What was recorded: see ``clockseg.execution.tape.Tape``."""

    def look(self, name: Any, index: int) -> Value: ...

    def motion(self, estimator: Estimator, index: int) -> Motion: ...

    def shape(self, index: int) -> tuple[int, ...]: ...


class Shot(Promise):
    """Stands for a frame: its picture, if that was kept, and its ``shape`` in any case."""

    __slots__ = ("index", "shape")

    def __init__(self, frames: Frames, index: int) -> None:
        super().__init__(("picture", index), lambda: frames.look("picture", index))
        self.index, self.shape = index, frames.shape(index)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.value.__array__(dtype)


def stand_in(net: StagedNetwork, frames: Frames) -> StagedNetwork:
    """``net`` with bodies and heads that look up what they gave, and all that comes after them as it is."""
    correction = net.correction
    return replace(
        net,
        stages=tuple(_stage(stage, index, frames) for index, stage in enumerate(net.stages)),
        groups=tuple(replace(group, function=_Group(group)) for group in net.groups),
        finish=_finish(net, frames),
        prepare=_looked_up("prepared", frames),
        restore=_restore(net),
        whole=None,
        joined=None,
        fused=_fused(net, frames),
        conclude=None if net.conclude is None else _applied("concluded", net.conclude),
        correction=None if correction is None else Correction(_applied("corrected", correction.part), correction.reads),
    )


def _index(value: Any) -> int:
    """The frame that a value, not moved, belongs to."""
    return int(value.key[-1])


def _looked_up(name: Any, frames: Frames) -> Callable[[Any], Promise]:
    def found(value: Any) -> Promise:
        index = _index(value)
        return Promise((name, index), lambda: frames.look(name, index))

    return found


def _stage(stage: Stage, index: int, frames: Frames) -> Stage:
    scores, features = stage.scores, stage.features
    return Stage(
        stage.name,
        _looked_up(("trunk", index), frames),
        _looked_up(("held", index), frames),
        None if scores is None else (lambda held: scores(held.value)),
        lambda trunk: features(trunk.value),
    )


def _applied(name: str, part: Part) -> Part:
    """``part`` on what is promised."""

    def call(*values: Any) -> Promise:
        keys = (value.key for value in values)
        return Promise((name, *keys), lambda: part(*(value.value for value in values)))

    return call


def _made_at(values: tuple[Any, ...]) -> int | None:
    """The frame of which all of these are, as the oracle has them; None if they are of several, or were moved."""
    own = all(isinstance(value.key[0], tuple) or value.key[0] == "whole" for value in values)
    frames = {value.key[-1] for value in values}
    return int(frames.pop()) if own and len(frames) == 1 else None


@dataclass(frozen=True)
class _Group:
    """A group; of values of one frame it gives what the oracle has at that frame."""

    group: Group

    def __call__(self, *values: Any) -> Promise:
        index = _made_at(values)
        key = (
            (self.group.name, *(value.key for value in values)) if index is None else ("whole", self.group.name, index)
        )
        return Promise(key, lambda: self.group.function(*(value.value for value in values)))


def _finish(net: StagedNetwork, frames: Frames) -> Part:
    otherwise = _applied("finished", net.finish)

    def call(value: Any) -> Promise:
        index = _made_at((value,))
        return otherwise(value) if index is None else Promise(("output", index), lambda: frames.look("output", index))

    return call


def _fused(net: StagedNetwork, frames: Frames) -> Part:
    otherwise = _applied("fused", net.fused)

    def call(value: Any) -> Promise:
        index = _made_at((value,))
        return otherwise(value) if index is None else Promise(("fused", index), lambda: frames.look("fused", index))

    return call


def _restore(net: StagedNetwork) -> Callable[[Value, Any], Promise]:
    return lambda value, shot: Promise(("restored", value.key), lambda: net.restore(value.value, shot))


def standing_in(schedule: Schedule, frames: Frames) -> Schedule:
    """``schedule`` with a carry and clocks that take promises."""
    carry = _Playing(schedule.carry, frames) if isinstance(schedule.carry, Warp) else schedule.carry
    return replace(schedule, clocks=tuple(map(shown, schedule.clocks)), carry=carry)


def shown(clock: Clock) -> Clock:
    """Return a clock for a replay: it gets values instead of promises, and is refused what can't be replayed."""
    return clock if facts(clock).period is not None else _Shown(clock)


@dataclass(frozen=True)
class _Playing:
    """A warp whose sights are frame numbers and whose motions are promises."""

    carry: Warp
    frames: Frames
    looks: bool = field(default=True, init=False)
    reads_vectors: bool = field(default=False, init=False)

    @property
    def of(self) -> Of:
        return self.carry.of

    def see(self, prepared: Any, image: Any, vectors: Any) -> int:
        return int(image.index)

    def observe(self, before: int, now: int) -> Promise:
        key: Key = ("motion", cast(Hashable, self.carry.motion), before, now)
        return Promise(key, lambda: self.frames.motion(self.carry.motion, now))

    def compose(self, first: Promise | None, then: Promise | None) -> Promise | None:
        if first is None or then is None:
            return first or then
        key: Key = ("motion", cast(Hashable, self.carry.motion), first.key[2], then.key[3])
        return Promise(key, lambda: self.carry.compose(first.value, then.value), after=first)

    def move(self, value: Promise, motion: Promise | None) -> Promise:
        if motion is None:
            return value
        return Promise(("moved", value.key, motion.key), lambda: self.carry.move(value.value, motion.value))

    def unexplained(self, value: Promise, motion: Promise) -> Promise:
        key = ("unexplained", value.key, motion.key)
        return Promise(key, lambda: self.carry.unexplained(value.value, motion.value))

    def __str__(self) -> str:
        return str(self.carry)


@dataclass(frozen=True)
class _Shown:
    """A clock that is shown what is promised, as soon as it looks."""

    clock: Clock

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        return ask(self.clock, _Tick(*tick), state)

    @property
    def parts(self) -> tuple[Clock, ...]:
        return (self.clock,)


class _Tick(Tick):
    """A tick on promises; it has no time: a replay takes other seconds than the run."""

    @property
    def seconds(self) -> float:  # type: ignore[override]
        raise UsageError(
            "a clock that reads tick.seconds can't be replayed; it must declare not_replayable, the reason."
        )

    @property
    def took(self) -> float:  # type: ignore[override]
        raise UsageError("a clock that reads tick.took can't be replayed; it must declare not_replayable, the reason.")

    @property
    def image(self) -> Any:  # type: ignore[override]
        return kept(self[2])

    @property
    def watched(self) -> Any:  # type: ignore[override]
        return kept(self[3])

    @property
    def reference(self) -> Any:  # type: ignore[override]
        return kept(self[4])

    @property
    def previous(self) -> Any:  # type: ignore[override]
        return kept(self[5])

    @property
    def views(self) -> Mapping[Watch, View]:  # type: ignore[override]
        return {watch: View(*map(kept, view)) for watch, view in self[10].items()}

    @property
    def motion(self) -> Any:  # type: ignore[override]
        return kept(self[8])

    @property
    def travel(self) -> Any:  # type: ignore[override]
        return kept(self[11])

    @property
    def output(self) -> Any:  # type: ignore[override]
        return kept(self[12])


_: type[Carry] = _Playing
