"""Output buffers that are reused only when no result refers to them any more.

What a part returns may be held for many frames, so a later run must never overwrite it; and fresh memory for every
frame costs its page faults. So a pool lends an array, and lends it again once nothing else refers to it or to a view
of it, which CPython's reference counts tell.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from clockseg.types import Array

MOST_KEPT = 64
"""Buffers that a pool keeps; one that is still held when it is forgotten lives on with its holder."""


class Slot:
    """One array to lend, [*shape], and what ``wrap`` makes around it: an engine's own tensor over the same memory."""

    __slots__ = ("array", "idle", "wrapped")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], wrap: Callable[[Array], Any] | None) -> None:
        self.array: Array = np.empty(shape, dtype)
        self.wrapped = wrap(self.array) if wrap else None
        # Counted while nobody else can have it, and in the same way as in `free`.
        self.idle = sys.getrefcount(self.array)

    def free(self) -> bool:
        """Return True if only the pool refers to the array."""
        return sys.getrefcount(self.array) <= self.idle


class Pool:
    """Buffers of one shape and type, [*shape].

    >>> pool = Pool((2, 3), np.dtype("float32"))
    >>> held = pool.take().array
    >>> pool.take().array is held
    False
    >>> where = id(held)
    >>> del held
    >>> id(pool.take().array) == where
    True
    """

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], wrap: Callable[[Array], Any] | None = None
    ) -> None:
        self.shape, self.dtype, self.wrap = shape, dtype, wrap
        self.slots: list[Slot] = []

    def take(self) -> Slot:
        """Return a buffer that no result refers to; its contents are arbitrary."""
        for slot in self.slots:
            if slot.free():
                return slot
        slot = Slot(self.shape, self.dtype, self.wrap)
        self.slots = [*self.slots[-(MOST_KEPT - 1) :], slot]
        return slot
