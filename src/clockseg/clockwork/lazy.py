"""Lazy values: a call of a part stays pending until somebody reads its value."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

CLOCK, MOTION, FUSE, FINISH = "clock", "motion", "fuse", "finish"
Kind: TypeAlias = int | str
"""The purpose of a call: the index of the stage that it belongs to, or one of ``CLOCK``, ``MOTION``, ``FUSE``, ``FINISH``."""


class Lazy:
    """A call of a part, and its value once it has been made. ``name`` names the part within its network."""

    __slots__ = ("args", "kind", "name", "part", "seconds", "value")

    def __init__(self, kind: Kind, name: str, part: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.kind, self.name, self.part, self.args = kind, name, part, args
        self.value: Any = None
        self.seconds = 0.0


def value_of(given: Any) -> Any:
    """Return the value of a call that has been made; anything else as it is."""
    return given.value if type(given) is Lazy else given


class Executor(Protocol):
    """Makes calls: of one batch at a time, in which each call comes after those whose values it takes."""

    def force(self, batch: Sequence[Lazy]) -> None:
        """Set the value of each call, and the seconds that it took."""
        ...

    def rehearse(self, shape: tuple[int, ...], again: Callable[[Executor], Any]) -> None:
        """Prepare for the frames to come after a fill with a frame of this shape.

        ``again`` runs that frame once more through an executor; what it gives is dropped.
        """
        ...


class Interpreter:
    """The plainest executor: one call after the other.

    >>> call = Lazy(0, "a.body", str.upper, ("x",))
    >>> Interpreter().force([call])
    >>> call.value
    'X'
    """

    def force(self, batch: Sequence[Lazy]) -> None:
        """Make each call."""
        for call in batch:
            start = time.perf_counter()
            call.value = call.part(*[value_of(one) for one in call.args])
            call.seconds = time.perf_counter() - start

    def rehearse(self, shape: tuple[int, ...], again: Callable[[Executor], Any]) -> None:
        """Do nothing: no frame runs faster for it."""


class Recorder(Protocol):
    """Takes the calls of a frame, and gives their values."""

    @property
    def made(self) -> Sequence[Lazy]:
        """The calls that were made, with their seconds."""
        ...

    def __call__(self, kind: Kind, name: str, part: Callable[..., Any], *args: Any) -> Any:
        """Note a call, and return what stands for its value."""
        ...

    def read(self, given: Any) -> Any:
        """Return the value that something stands for."""
        ...

    def settle(self) -> None:
        """End the frame."""
        ...


class Calls:
    """The calls of one frame. Those that a value depends on are made, as one batch, when it is read; the others at the end."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.pending: list[Lazy] = []
        self.made: list[Lazy] = []

    def __call__(self, kind: Kind, name: str, part: Callable[..., Any], *args: Any) -> Lazy:
        """Note a call; what it takes may be pending."""
        call = Lazy(kind, name, part, args)
        self.pending.append(call)
        return call

    def read(self, given: Any) -> Any:
        """Return a value, after the calls that it depends on."""
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
        self._make(batch[::-1])
        return given.value

    def settle(self) -> None:
        """Make all calls that are still pending."""
        batch, self.pending = self.pending, []
        self._make(batch)

    def _make(self, batch: list[Lazy]) -> None:
        if batch:
            self.executor.force(batch)
            for call in batch:
                call.args = ()
            self.made += batch
