"""Clocks made of clocks, and clocks that count frames, such as the cap on staleness that is combined with others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from clockseg.clocks.expressions import Written, text_of
from clockseg.clockwork.clock import Clock, ClockLike, Decision, Tick, Watch, as_clock, ask
from clockseg.clockwork.facts import Facts, declared_gate, facts
from clockseg.errors import UsageError, whole_number


def part_of(name: str, given: Any) -> Clock:
    """Return ``as_clock(given)``; the error names the combinator, which takes clocks."""
    try:
        return as_clock(given)
    except UsageError as error:
        kinds = "adaptive, difference, confidence, every or at_least_every, and combinations of them"
        raise UsageError(f"{name} takes clocks, such as {kinds}. {error}") from error


RULES: dict[str, Callable[[list[bool]], bool]] = {"either": any, "both": all, "invert": lambda fired: not any(fired)}
"""For each combinator, whether it fires, given which of its clocks do."""


@dataclass(frozen=True)
class Combined:
    """A clock that asks all of its clocks on every frame; its signal is the first that one of them gives.

    ``rule``: one of ``RULES``. ``threshold``, ``below``: those of the first clock that has a threshold.
    """

    rule: str
    parts: tuple[Clock, ...]
    threshold: float | None = field(init=False, repr=False, compare=False)
    below: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.parts:
            raise UsageError(
                f"{self.rule} of no clocks; give at least one, such as {self.rule}(adaptive(0.25), at_least_every(8))."
            )
        object.__setattr__(self, "parts", tuple(part_of(self.rule, clock) for clock in self.parts))
        compared = next((one for one in map(facts, self.parts) if one.threshold is not None), Facts())
        object.__setattr__(self, "threshold", compared.threshold)
        object.__setattr__(self, "below", compared.below != (self.rule == "invert"))
        declared_gate(self)

    def __str__(self) -> str:
        return f"{self.rule}({', '.join(map(text_of, self.parts))})"

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        past = state or (None,) * len(self.parts)
        asked = [ask(part, tick, one) for part, one in zip(self.parts, past, strict=True)]
        decisions = [decision for decision, _ in asked]
        # A refill runs every stage, so it counts as a firing.
        fire = RULES[self.rule]([one.fire or one.refill for one in decisions])
        signal = next((one.signal for one in decisions if one.signal is not None), None)
        refill = fire and any(one.refill for one in decisions)
        return Decision(fire, signal, refill), tuple(state for _, state in asked)


def either(*clocks: ClockLike) -> Combined:
    """Return a clock that fires when any of these clocks does.

    >>> print(either(AtLeastEvery(8), AtLeastEvery(5)))
    either(at_least_every(8), at_least_every(5))
    """
    return Combined("either", clocks)  # type: ignore[arg-type]  # makes clocks of functions


def both(*clocks: ClockLike) -> Combined:
    """Return a clock that fires when all of these clocks do."""
    return Combined("both", clocks)  # type: ignore[arg-type]


def invert(clock: ClockLike) -> Combined:
    """Return a clock that fires when this clock does not; the stages before the one that it gates still always fire."""
    return Combined("invert", (clock,))  # type: ignore[arg-type]


@dataclass(frozen=True)
class AtLeastEvery(Written):
    """Fires after ``frames`` frames without a firing: a cap on staleness, as in ``either(adaptive(0.25), at_least_every(8))``.

    >>> AtLeastEvery(8)(Tick(9, 3, None, None, None, None, 8, 0), None)[0].fire
    True
    """

    frames: int
    watches: ClassVar[frozenset[Watch]] = frozenset()

    def __post_init__(self) -> None:
        whole_number(self.frames, "at_least_every's number of frames")

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        return Decision(tick.since >= self.frames), None
