"""Output buffers that are reused only when no result refers to them any more.

A result may be held for many frames, so a later run must never overwrite it, and fresh memory for every frame costs page
faults. So a pool lends an array, and lends it again once nothing else refers to it or to a view of it, which CPython's
reference counts show.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clockseg.types import Array

MOST_KEPT = 64
"""Number of buffers that a pool keeps; one that is dropped while it is held lives on with its holder."""


@dataclass(eq=False, slots=True)
class Slot:
    """One array to lend, and what ``wrap`` makes around it: an engine's own tensor over the same memory.

    ``idle``: the references to the array while nobody but its pool has it.
    """

    array: Array
    wrapped: Any
    idle: int = 0


class Pool:
    """Buffers of one shape and type, [*shape]."""

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], wrap: Callable[[Array], Any] = lambda array: None
    ) -> None:
        self.shape, self.dtype, self.wrap = shape, dtype, wrap
        self.slots: list[Slot] = []


def lend(pools: Sequence[Pool]) -> list[Slot]:
    """Return a buffer of each pool that no result refers to; its contents are arbitrary.

    >>> pool = Pool((2, 3), np.dtype("float32"))
    >>> [first], [second] = lend([pool]), lend([pool])
    >>> first is second
    True
    >>> held = first.array
    >>> lend([pool])[0] is first
    False
    """
    lent = []
    for pool in pools:
        for slot in pool.slots:
            if sys.getrefcount(slot.array) <= slot.idle:
                break
        else:
            array = np.empty(pool.shape, pool.dtype)
            slot = Slot(array, pool.wrap(array))
            del array
            # Counted while nobody else can have it, and in the same way as above.
            slot.idle = sys.getrefcount(slot.array)
            pool.slots = [*pool.slots[-(MOST_KEPT - 1) :], slot]
        lent.append(slot)
    return lent
