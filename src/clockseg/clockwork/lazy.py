"""Lazy values: calls stay pending until a value is read, so that an executor may run several calls as one model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from clockseg.clockwork.clock import Clock, Decision, Tick, ask

CLOCK, MOTION, FUSE, FINISH = "clock", "motion", "fuse", "finish"
Kind: TypeAlias = int | str
"""The purpose of a call: the index of the stage that it belongs to, or one of ``CLOCK``, ``MOTION``, ``FUSE``, ``FINISH``."""


@dataclass(slots=True, eq=False)
class Lazy:
    """A call of a network's part: pending, or run, with its ``value`` and ``seconds``. ``name``: that of the part."""

    kind: Kind
    name: str
    part: Callable[..., Any]
    args: tuple[Any, ...]
    value: Any = None
    seconds: float = 0.0
    pending: bool = True


class Executor(Protocol):
    """Runs pending calls in batches, which are ordered: a call comes after those whose values it takes."""

    def force(self, batch: Sequence[Lazy]) -> None:
        """Set the value of each call, and the seconds that it took."""
        ...

    def rehearse(self, memory: Any, image: Any, vectors: Any) -> None:
        """Prepare for the next frames, given a fill's ``memory`` and frame; an executor may compile models here."""
        ...


class Interpreter:
    """The simplest executor: it runs one call after another.

    >>> call = Lazy(0, "a.body", str.upper, ("x",))
    >>> Interpreter().force([call])
    >>> call.value
    'X'
    """

    def force(self, batch: Sequence[Lazy]) -> None:
        """Make each call."""
        for call in batch:
            start = time.perf_counter()
            call.value = call.part(*[one.value if type(one) is Lazy else one for one in call.args])
            call.seconds = time.perf_counter() - start

    def rehearse(self, memory: Any, image: Any, vectors: Any) -> None:
        """Do nothing: there is nothing to compile."""


class Calls(Protocol):
    """The calls of one frame: ``call(kind, name, part, args)`` returns the lazy value of ``part(*args)``."""

    @property
    def call(self) -> Callable[[Kind, str, Callable[..., Any], tuple[Any, ...]], Any]:
        """Return the lazy value of a call; its arguments may be lazy too."""
        ...

    @property
    def made(self) -> Sequence[Lazy]:
        """The calls that were run, with their seconds."""
        ...

    def read(self, lazy: Any) -> Any:
        """Return the value of a lazy value."""
        ...

    def ask(self, clock: Clock, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Return a clock's decision and its next state."""
        ...

    def settle(self, kept: Iterable[Any]) -> None:
        """End the frame: compute the values that are kept for later frames."""
        ...


class Executed:
    """Calls that an executor runs: a read runs the pending calls that the value depends on, as one batch.

    >>> calls = Executed(Interpreter())
    >>> trunk = calls.call(0, "a.body", str.upper, ("x",))
    >>> calls.read(calls.call(0, "a.head", str.__add__, (trunk, "!"))), len(calls.made)
    ('X!', 2)
    """

    call = Lazy

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.made: list[Lazy] = []

    def read(self, lazy: Lazy) -> Any:
        """Run the calls that a value depends on, and return it."""
        if lazy.pending:
            self.settle((lazy,))
        return lazy.value

    def settle(self, kept: Iterable[Any]) -> None:
        """Run the calls that these values depend on, and release the arguments of those calls."""
        batch: dict[int, Lazy] = {}
        waiting = [*kept][::-1]
        while waiting:
            call = waiting.pop()
            if type(call) is Lazy and call.pending and id(call) not in batch:
                needed = [one for one in call.args if type(one) is Lazy and one.pending and id(one) not in batch]
                if needed:
                    waiting += [call, *needed[::-1]]
                else:
                    batch[id(call)] = call
        if batch:
            calls = list(batch.values())
            self.executor.force(calls)
            self.made += calls
            for call in calls:
                call.args, call.pending = (), False

    def ask(self, clock: Clock, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Return a clock's decision and its next state."""
        start = time.perf_counter()
        answer = ask(clock, tick._replace(seconds=start), state)
        self.made.append(Lazy(CLOCK, "clock", clock, (), None, time.perf_counter() - start))
        return answer
