"""A value that is made when it is asked for, with a key that tells it from all others."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

Key: TypeAlias = tuple[Hashable, ...]
DEEPEST = 64
"""Promises made of one another, none of them kept yet: beyond it the next is kept at once, so that no stack overflows."""


class Promise:
    """What ``make`` gives, made once and only if ``value`` is read. Equal keys: equal values.

    ``after``: the promise that ``make`` reads first, if any.

    >>> made = []
    >>> promise = Promise(("sum", 1, 2), lambda: made.append("once") or 3)
    >>> made, promise.value, promise.value, made
    (['once'], 3, 3, ['once'])
    """

    __slots__ = ("_depth", "_made", "_make", "key")

    def __init__(self, key: Key, make: Callable[[], Any], after: Promise | None = None) -> None:
        self.key = key
        self._make: Callable[[], Any] | None = make
        self._made: Any = None
        self._depth: int = 1 if after is None or after._make is None else after._depth + 1
        if self._depth > DEEPEST:
            self._keep()

    @property
    def value(self) -> Any:
        """The value itself."""
        self._keep()
        return self._made

    def _keep(self) -> None:
        if self._make is not None:
            self._made = self._make()
            # What it was made of may go now.
            self._make = None


def kept(value: Any) -> Any:
    """What is promised; a value that is there already as it is.

    >>> kept(Promise(("one",), lambda: 1)), kept(2)
    (1, 2)
    """
    return value.value if isinstance(value, Promise) else value
