"""Lazy values: a call of a part stays pending until somebody reads its value."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from clockseg.clockwork.clock import Clock, Decision, Tick, ask

CLOCK, MOTION, FUSE, FINISH = "clock", "motion", "fuse", "finish"
Kind: TypeAlias = int | str
"""The purpose of a call: the index of the stage that it belongs to, or one of ``CLOCK``, ``MOTION``, ``FUSE``, ``FINISH``."""
Pattern: TypeAlias = tuple[bool, ...]
"""The stages that fire on a frame."""


@dataclass(slots=True, eq=False)
class Lazy:
    """A call of a part, and its value once it has been made. ``name`` names the part within its network."""

    kind: Kind
    name: str
    part: Callable[..., Any]
    args: tuple[Any, ...]
    value: Any = None
    seconds: float = 0.0


class Executor(Protocol):
    """Runs pending calls in batches, in which each call comes after those whose values it takes."""

    def force(self, batch: Sequence[Lazy]) -> None:
        """Set the value of each call, and the seconds that it took."""
        ...

    def rehearse(self, shape: tuple[int, ...], again: Callable[[Pattern], Any]) -> None:
        """Prepare for the frames to come after a fill with a frame of this shape.

        ``again`` runs that frame once more, with the stages firing that it is given; its result is dropped.
        """
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

    def rehearse(self, shape: tuple[int, ...], again: Callable[[Pattern], Any]) -> None:
        """Do nothing: no frame runs faster for it."""


class Recorder(Protocol):
    """Collects the calls of a frame and returns their values."""

    @property
    def made(self) -> Sequence[Lazy]:
        """The calls that were run, with their seconds."""
        ...

    def __call__(self, kind: Kind, name: str, part: Callable[..., Any], *args: Any) -> Any:
        """Add a pending call and return its lazy value."""
        ...

    def read(self, given: Any) -> Any:
        """Return the value of a lazy value."""
        ...

    def ask(self, clock: Clock, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Return the answer of a clock, and its state."""
        ...

    def settle(self) -> None:
        """End the frame: run what is still pending."""
        ...


class Calls:
    """The calls of one frame. Reading a value runs the calls it depends on as one batch; the rest run at the end of the frame.

    ``pattern``: the stages that fire, in place of the answers of clocks.
    """

    def __init__(self, executor: Executor, pattern: Pattern | None = None) -> None:
        self.executor, self.pattern = executor, pattern
        self.pending: list[Lazy] = []
        self.made: list[Lazy] = []

    def __call__(self, kind: Kind, name: str, part: Callable[..., Any], *args: Any) -> Lazy:
        """Add a pending call, whose arguments may be pending too."""
        call = Lazy(kind, name, part, args)
        self.pending.append(call)
        return call

    def read(self, given: Any) -> Any:
        """Run the calls that a value depends on and return it."""
        if type(given) is not Lazy:
            return given
        needed, batch, others = {id(given)}, [], []
        for call in reversed(self.pending):
            if id(call) in needed:
                batch.append(call)
                needed.update(map(id, call.args))
            else:
                others.append(call)
        self.pending = others[::-1]
        if batch:
            self.executor.force(batch[::-1])
            self.made += batch
        return given.value

    def ask(self, clock: Clock, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Return the answer of a clock, and its state."""
        if self.pattern is not None:
            return Decision(self.pattern[tick.stage - 1]), None
        start = time.perf_counter()
        answer = ask(clock, tick, state)
        self.made.append(Lazy(CLOCK, "clock", clock, (), None, time.perf_counter() - start))
        return answer

    def settle(self) -> None:
        """Run all calls that are still pending, and release the arguments of this frame's calls."""
        if self.pending:
            self.executor.force(self.pending)
            self.made += self.pending
            self.pending = []
        for call in self.made:
            call.args = ()
