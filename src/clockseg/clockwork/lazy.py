"""Lazy values: calls stay pending until a value is read, so that an executor may run several calls as one model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

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


class Executor:
    """Runs pending calls. This one makes one call after another; others look values up, or run several calls as one model.

    >>> call = Lazy(0, "a.body", str.upper, ("x",))
    >>> Executor().force([call])
    >>> call.value
    'X'
    """

    def force(self, batch: Sequence[Lazy]) -> None:
        """Set the value of each call, and the seconds that it took. A call comes after those whose values it takes."""
        for call in batch:
            start = time.perf_counter()
            call.value = call.part(*[one.value if type(one) is Lazy else one for one in call.args])
            call.seconds = time.perf_counter() - start

    def rehearse(self, memory: Any, image: Any, vectors: Any) -> None:
        """Prepare for the next frames, given a fill's ``memory`` and frame; an executor may compile models here."""


def force(executor: Executor, wanted: Iterable[Any]) -> list[Lazy]:
    """Run the pending calls that these values depend on as one batch, release their arguments, and return them.

    >>> trunk = Lazy(0, "a.body", str.upper, ("x",))
    >>> head = Lazy(0, "a.head", str.__add__, (trunk, "!"))
    >>> [call.value for call in force(Executor(), [head])]
    ['X', 'X!']
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
    calls = list(batch.values())
    if calls:
        executor.force(calls)
        for call in calls:
            call.args, call.pending = (), False
    return calls
