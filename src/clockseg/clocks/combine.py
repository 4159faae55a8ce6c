"""Clocks made of clocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from clockseg.clockwork.clock import Clock, Decision, Tick, Watch, as_clock
from clockseg.errors import UsageError


def _ask(clocks: tuple[Clock, ...], tick: Tick, state: Any) -> tuple[list[Decision], Any]:
    answers = [clock(tick, past) for clock, past in zip(clocks, state or (None,) * len(clocks), strict=True)]
    return [decision for decision, _ in answers], tuple(after for _, after in answers)


def _first(decisions: list[Decision]) -> float | None:
    return next((decision.signal for decision in decisions if decision.signal is not None), None)


def _looks(clocks: tuple[Clock, ...], stage: int) -> frozenset[Watch]:
    return frozenset().union(*(clock.looks(stage) for clock in clocks))


def _clocks(clocks: tuple[Clock, ...], name: str) -> tuple[Clock, ...]:
    if not clocks:
        raise UsageError(f"{name} of no clocks; give at least one, such as {name}(adaptive(0.25), at_least_every(8)).")
    return tuple(as_clock(clock) for clock in clocks)


@dataclass(frozen=True)
class Either:
    """Fires when any of its clocks does; all are asked, and the trace shows the first signal."""

    clocks: tuple[Clock, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "clocks", _clocks(self.clocks, "either"))

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Or."""
        decisions, state = _ask(self.clocks, tick, state)
        return Decision(any(d.fires for d in decisions), _first(decisions), any(d.refill for d in decisions)), state

    def looks(self, stage: int) -> frozenset[Watch]:
        """At what they look at."""
        return _looks(self.clocks, stage)


@dataclass(frozen=True)
class Both:
    """Fires when all of its clocks do; all are asked, and the trace shows the first signal."""

    clocks: tuple[Clock, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "clocks", _clocks(self.clocks, "both"))

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """And."""
        decisions, state = _ask(self.clocks, tick, state)
        fires = all(d.fires for d in decisions)
        return Decision(fires, _first(decisions), fires and any(d.refill for d in decisions)), state

    def looks(self, stage: int) -> frozenset[Watch]:
        """At what they look at."""
        return _looks(self.clocks, stage)


@dataclass(frozen=True)
class Invert:
    """Fires when its clock does not."""

    clock: Clock

    def __post_init__(self) -> None:
        object.__setattr__(self, "clock", as_clock(self.clock))

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Not."""
        decision, state = self.clock(tick, state)
        return Decision(not decision.fires, decision.signal), state

    def looks(self, stage: int) -> frozenset[Watch]:
        """At what it looks at."""
        return self.clock.looks(stage)
