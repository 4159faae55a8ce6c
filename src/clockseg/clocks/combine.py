"""Clocks made of clocks, and clocks that count frames, such as the cap on staleness that is combined with others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from clockseg.clockwork.clock import Clock, Decision, Every, Tick, Watch, as_clock, ask
from clockseg.clockwork.facts import Facts, declared_gate, facts
from clockseg.clockwork.schedule import Schedule, gated
from clockseg.errors import UsageError, whole_number

P = ParamSpec("P")
Made = TypeVar("Made", bound=Clock)


@dataclass(frozen=True)
class _Combined:
    """Asks all of its clocks on every frame; its signal is the first that one of them gives."""

    parts: tuple[Clock, ...]

    def __post_init__(self) -> None:
        name = type(self).__name__.lower()
        if not self.parts:
            raise UsageError(
                f"{name} of no clocks; give at least one, such as {name}(adaptive(0.25), at_least_every(8))."
            )
        object.__setattr__(self, "parts", tuple(part_of(name, part) for part in self.parts))
        declared_gate(self)

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        past = state or (None,) * len(self.parts)
        decisions, states = zip(
            *(ask(part, tick, one) for part, one in zip(self.parts, past, strict=True)), strict=True
        )
        signal = next((decision.signal for decision in decisions if decision.signal is not None), None)
        return self.decided(decisions)._replace(signal=signal), states

    def decided(self, decisions: tuple[Decision, ...]) -> Decision:
        """Return the decision that follows from those of the clocks."""
        raise NotImplementedError

    @property
    def threshold(self) -> float | None:
        """The threshold of the first clock that has one."""
        return self._compared.threshold

    @property
    def below(self) -> bool:
        """True if that clock fires where its signal is below the threshold."""
        return self._compared.below

    @property
    def _compared(self) -> Facts:
        return next((one for one in map(facts, self.parts) if one.threshold is not None), Facts())


class Either(_Combined):
    """Fires when any of its clocks does."""

    def decided(self, decisions: tuple[Decision, ...]) -> Decision:
        return Decision(any(one.fire for one in decisions), refill=any(one.refill for one in decisions))


class Both(_Combined):
    """Fires when all of its clocks do."""

    def decided(self, decisions: tuple[Decision, ...]) -> Decision:
        fires = all(one.fire for one in decisions)
        return Decision(fires, refill=fires and any(one.refill for one in decisions))


@dataclass(frozen=True)
class Invert:
    """Fires when its clock does not."""

    clock: Clock

    def __post_init__(self) -> None:
        object.__setattr__(self, "clock", part_of("invert", self.clock))

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        decision, state = ask(self.clock, tick, state)
        return Decision(not decision.fire, decision.signal), state

    @property
    def parts(self) -> tuple[Clock, ...]:
        return (self.clock,)

    @property
    def threshold(self) -> float | None:
        """Its clock's threshold."""
        return facts(self.clock).threshold

    @property
    def below(self) -> bool:
        """True if its clock fires where the signal is at or above the threshold."""
        return not facts(self.clock).below


@dataclass(frozen=True)
class PerStage:
    """A schedule with one clock for each of the last stages, as of ``adaptive(t2, t3)``; the stages before always fire."""

    clocks: tuple[Clock, ...]

    def __call__(self, stages: int) -> Schedule:
        return gated(self.clocks, stages)


def per_stage(combine: Callable[P, Made]) -> Callable[P, Made | PerStage]:
    """Let a function that makes a clock of clocks take ``PerStage`` for them too; it then makes one for each of these stages."""

    @wraps(combine)
    def combined(*args: Any, **options: Any) -> Made | PerStage:
        counts = sorted({len(one.clocks) for one in (*args, *options.values()) if isinstance(one, PerStage)})
        if not counts:
            return combine(*args, **options)
        if len(counts) > 1:
            name = combine.__name__
            raise UsageError(f"{name} of {counts[0]} and of {counts[-1]} clocks; give equal numbers, or one.")

        def made(index: int) -> Made:
            def own(given: Any) -> Any:
                return given.clocks[index] if isinstance(given, PerStage) else given

            return combine(*map(own, args), **{name: own(given) for name, given in options.items()})

        return PerStage(tuple(map(made, range(counts[0]))))

    return combined


def part_of(name: str, given: Any) -> Clock:
    """Return ``as_clock(given)``; the error names the combinator, which takes clocks."""
    try:
        return as_clock(given)
    except UsageError as error:
        kinds = "adaptive, difference, confidence, every or at_least_every, and combinations of them"
        raise UsageError(f"{name} takes clocks, such as {kinds}. {error}") from error


@per_stage
def either(*clocks: Any) -> Either:
    """Return a clock that fires when any of these does.

    >>> len(either(lambda tick: tick.t % 5 == 0, lambda tick: tick.since >= 8).parts)
    2
    """
    return Either(clocks)


@per_stage
def both(*clocks: Any) -> Both:
    """Return a clock that fires when all of these do.

    >>> len(both(lambda tick: tick.t % 5 == 0, lambda tick: tick.since >= 8).parts)
    2
    """
    return Both(clocks)


@per_stage
def invert(clock: Any) -> Invert:
    """Return a clock that fires when this one does not; the stages before the one that it gates still always fire.

    >>> invert(every(2))
    Invert(clock=Every(period=2))
    """
    return Invert(clock)


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
