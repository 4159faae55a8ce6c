"""Clocks made of clocks, and clocks that count frames, such as the cap on staleness that is combined with others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from clockseg.clocks.expressions import Written, text_of
from clockseg.clockwork.clock import Clock, Decision, Tick, Watch, as_clock, ask
from clockseg.clockwork.facts import Facts, declared_gate, facts
from clockseg.errors import UsageError, whole_number


def part_of(name: str, given: Any) -> Clock:
    """Return ``as_clock(given)``; the error names the combinator, which takes clocks."""
    try:
        return as_clock(given)
    except UsageError as error:
        kinds = "adaptive, difference, confidence, every or at_least_every, and combinations of them"
        raise UsageError(f"{name} takes clocks, such as {kinds}. {error}") from error


@dataclass(frozen=True, init=False)
class _Combined(Written):
    """Asks all of its clocks on every frame; its signal is the first that one of them gives."""

    parts: tuple[Clock, ...]
    _compared: Facts = field(repr=False, compare=False)
    """The facts of the first clock that has a threshold."""

    def __init__(self, *clocks: Any) -> None:
        name = self.written
        if not clocks:
            raise UsageError(
                f"{name} of no clocks; give at least one, such as {name}(adaptive(0.25), at_least_every(8))."
            )
        object.__setattr__(self, "parts", tuple(part_of(name, clock) for clock in clocks))
        compared = next((one for one in map(facts, self.parts) if one.threshold is not None), Facts())
        object.__setattr__(self, "_compared", compared)
        declared_gate(self)

    def __str__(self) -> str:
        return f"{self.written}({', '.join(map(text_of, self.parts))})"

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        past = state or (None,) * len(self.parts)
        asked = [ask(part, tick, one) for part, one in zip(self.parts, past, strict=True)]
        decisions = [decision for decision, _ in asked]
        # A refill runs every stage, so it counts as a firing.
        fire = self.fires([one.fire or one.refill for one in decisions])
        signal = next((one.signal for one in decisions if one.signal is not None), None)
        refill = fire and any(one.refill for one in decisions)
        return Decision(fire, signal, refill), tuple(state for _, state in asked)

    def fires(self, fired: Sequence[bool]) -> bool:
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


class Either(_Combined):
    """A clock that fires when any of its clocks does.

    >>> len(Either(lambda tick: tick.t % 5 == 0, lambda tick: tick.since >= 8).parts)
    2
    """

    def fires(self, fired: Sequence[bool]) -> bool:
        return any(fired)


class Both(_Combined):
    """A clock that fires when all of its clocks do.

    >>> len(Both(lambda tick: tick.t % 5 == 0, lambda tick: tick.since >= 8).parts)
    2
    """

    def fires(self, fired: Sequence[bool]) -> bool:
        return all(fired)


class Invert(_Combined):
    """A clock that fires when its clock does not; the stages before the one that it gates still always fire.

    >>> print(Invert(AtLeastEvery(2)))
    invert(at_least_every(2))
    """

    def __init__(self, clock: Any) -> None:
        super().__init__(clock)

    def fires(self, fired: Sequence[bool]) -> bool:
        return not fired[0]

    @property
    def below(self) -> bool:
        return not super().below


@dataclass(frozen=True)
class AtLeastEvery(Written):
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
