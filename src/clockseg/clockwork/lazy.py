"""Lazy values: a call of a part stays pending until its value is read; an executor makes the calls that are pending then."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

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


@dataclass
class Executor:
    """Makes the pending calls of a network's parts, asks its clocks, and takes the time of both.

    This one makes one call after another; others override ``force`` or ``ask`` (clockseg.execution). ``spent``: the seconds of
    the current frame so far, by kind.
    """

    spent: dict[Kind, float] = field(default_factory=lambda: defaultdict(float), init=False, repr=False)

    def read(self, *wanted: Any) -> Any:
        """Run the pending calls that these values depend on as one batch, and return the value of the last one.

        >>> trunk = Lazy(0, "a.body", str.upper, ("x",))
        >>> Executor().read(Lazy(0, "a.head", str.__add__, (trunk, "!"))), trunk.value
        ('X!', 'X')
        """
        batch: dict[int, Lazy] = {}
        waiting = [*wanted][::-1]
        while waiting:
            call = waiting.pop()
            if type(call) is Lazy and call.pending and id(call) not in batch:
                needed = [one for one in call.args if type(one) is Lazy and one.pending and id(one) not in batch]
                if needed:
                    waiting += [call, *needed[::-1]]
                else:
                    batch[id(call)] = call
        if batch:
            self.force(calls := list(batch.values()))
            for call in calls:
                # Arguments are released: what nobody else keeps is freed.
                call.args, call.pending = (), False
                self.spent[call.kind] += call.seconds
        return wanted[-1].value

    def force(self, batch: Sequence[Lazy]) -> None:
        """Set the value of each call, and the seconds that it took. A call comes after those whose values it takes."""
        for call in batch:
            start = time.perf_counter()
            call.value = call.part(*[one.value if type(one) is Lazy else one for one in call.args])
            call.seconds = time.perf_counter() - start

    def ask(self, clock: Clock, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Return the decision of a clock, and its next state."""
        start = time.perf_counter()
        answer = ask(clock, tick, state)
        self.spent[CLOCK] += time.perf_counter() - start
        return answer

    def rehearse(self, memory: Any, image: Any, vectors: Any) -> None:
        """Prepare for the next frames, given the memory after a fill and its frame."""
