"""A list of arrays, in memory up to a limit and in a temporary file beyond it."""

from __future__ import annotations

import tempfile
import weakref
from typing import Any, NamedTuple

import numpy as np

from clockseg.types import Array

MEMORY_BYTES = 64_000_000
"""Bytes that a store holds in memory before it moves to a temporary file."""


class Place(NamedTuple):
    """Location of a stored array."""

    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class Store:
    """Arrays in memory up to ``MEMORY_BYTES``, and in a temporary file beyond that, which is deleted with the store.

    >>> store = Store()
    >>> place = store.add(np.array([1, 2]))
    >>> store[place].tolist(), store.bytes
    ([1, 2], 16)
    """

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES)  # noqa: SIM115 - lives as long as the store
        self.bytes = 0
        weakref.finalize(self, self._file.close)

    def add(self, array: Array) -> Place:
        """Store a copy of an array, and return its place."""
        array = np.ascontiguousarray(array)
        place = Place(self.bytes, array.dtype, array.shape)
        self._file.seek(self.bytes)
        self.bytes += self._file.write(array.tobytes())
        return place

    def __getitem__(self, place: Place) -> Array:
        """Return the array at ``place``, read-only."""
        self._file.seek(place.offset)
        count = int(np.prod(place.shape, dtype=np.int64))
        return np.frombuffer(self._file.read(count * place.dtype.itemsize), place.dtype).reshape(place.shape)
