"""Clocks made of clocks, and clocks that count frames, such as the cap on staleness that is combined with others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from clockseg.clockwork.clock import Clock, Decision, Every, Tick, Watch, as_clock, ask, name_of
from clockseg.clockwork.facts import Facts, declared_gate, facts
from clockseg.clockwork.schedule import Schedule, gated
from clockseg.errors import UsageError, whole_number

Made = TypeVar("Made", bound=Clock)


@dataclass(frozen=True)
class _Combined:
    """Asks all of its clocks on every frame; its signal is the first that one of them gives."""

    parts: tuple[Clock, ...]
    threshold: float | None = field(init=False, repr=False, compare=False)
    """The threshold of the first clock that has one; ``below`` is that clock's too."""
    below: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.parts:
            name = name_of(self).lower()
            raise UsageError(
                f"{name} of no clocks; give at least one, such as {name}(adaptive(0.25), at_least_every(8))."
            )
        object.__setattr__(self, "parts", tuple(as_clock(part) for part in self.parts))
        declared_gate(self)
        compared = next((one for one in map(facts, self.parts) if one.threshold is not None), Facts())
        object.__setattr__(self, "threshold", compared.threshold)
        object.__setattr__(self, "below", compared.below)

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        past = state or (None,) * len(self.parts)
        decisions, states = zip(
            *(ask(part, tick, one) for part, one in zip(self.parts, past, strict=True)), strict=True
        )
        fires, refill = self._of(decisions)
        signal = next((decision.signal for decision in decisions if decision.signal is not None), None)
        return Decision(fires, signal, refill), states

    def _of(self, decisions: tuple[Decision, ...]) -> tuple[bool, bool]:
        raise NotImplementedError


class Either(_Combined):
    """Fires when any of its clocks does."""

    def _of(self, decisions: tuple[Decision, ...]) -> tuple[bool, bool]:
        return any(one.fire for one in decisions), any(one.refill for one in decisions)


class Both(_Combined):
    """Fires when all of its clocks do."""

    def _of(self, decisions: tuple[Decision, ...]) -> tuple[bool, bool]:
        fires = all(one.fire for one in decisions)
        return fires, fires and any(one.refill for one in decisions)


@dataclass(frozen=True)
class Invert:
    """Fires when its clock does not."""

    clock: Clock
    threshold: float | None = field(init=False, repr=False, compare=False)
    below: bool = field(init=False, repr=False, compare=False)
    """True if the clock fires where its signal is at or above the threshold."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "clock", as_clock(self.clock))
        declared = facts(self.clock)
        object.__setattr__(self, "threshold", declared.threshold)
        object.__setattr__(self, "below", not declared.below)

    @property
    def parts(self) -> tuple[Clock, ...]:
        return (self.clock,)

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        decision, state = ask(self.clock, tick, state)
        return Decision(not decision.fire, decision.signal), state


@dataclass(frozen=True)
class PerStage:
    """A schedule with one clock for each of the last stages, as of ``adaptive(t2, t3)``; the stages before always fire."""

    clocks: tuple[Clock, ...]

    def __call__(self, stages: int) -> Schedule:
        return gated(self.clocks, stages)


def per_stage(name: str, make: Callable[[tuple[Clock, ...]], Made], given: tuple[Any, ...]) -> Made | PerStage:
    """Return ``make(clocks)``, or one for each of the last stages if one of ``given`` is a ``PerStage``."""
    counts = sorted({len(one.clocks) for one in given if isinstance(one, PerStage)})
    if len(counts) > 1:
        raise UsageError(f"{name} of {counts[0]} and of {counts[-1]} clocks; give equal numbers, or one.")
    if not counts:
        return make(tuple(_clock(one, name) for one in given))
    rows = (one.clocks if isinstance(one, PerStage) else (_clock(one, name),) * counts[0] for one in given)
    return PerStage(tuple(map(make, zip(*rows, strict=True))))


def _clock(given: Any, name: str) -> Clock:
    try:
        return as_clock(given)
    except UsageError as error:
        kinds = "adaptive, difference, confidence, every or at_least_every, and combinations of them"
        raise UsageError(f"{name} takes clocks, such as {kinds}. {error}") from error


def either(*clocks: Any) -> Either | PerStage:
    """Return a clock that fires when any of these does.

    >>> len(either(lambda tick: tick.t % 5 == 0, lambda tick: tick.since >= 8).parts)
    2
    """
    return per_stage("either", Either, clocks)


def both(*clocks: Any) -> Both | PerStage:
    """Return a clock that fires when all of these do.

    >>> len(both(lambda tick: tick.t % 5 == 0, lambda tick: tick.since >= 8).parts)
    2
    """
    return per_stage("both", Both, clocks)


def invert(clock: Any) -> Invert | PerStage:
    """Return a clock that fires when this one does not; the stages before the one that it gates still always fire.

    >>> invert(every(2))
    Invert(clock=Every(period=2))
    """
    return per_stage("invert", lambda row: Invert(row[0]), (clock,))


@dataclass(frozen=True)
class AtLeastEvery:
    """Fires after ``frames`` frames without a firing: a cap on staleness, as in ``either(adaptive(0.25), at_least_every(8))``.

    >>> AtLeastEvery(8)(Tick(9, 3, None, None, None, None, 8, 0), None)[0].fire
    True
    """

    frames: int

    def __post_init__(self) -> None:
        whole_number(self.frames, "at_least_every's number of frames")

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        return Decision(tick.since >= self.frames), None

    def watches(self, stage: int) -> frozenset[Watch]:
        """Return nothing: it counts frames."""
        return frozenset()


every = Every
at_least_every = AtLeastEvery
