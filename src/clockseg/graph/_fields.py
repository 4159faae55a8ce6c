"""Taking typed fields out of a JSON object, with errors that say what was given and what is allowed."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any

from clockseg.errors import NetworkError, nearest

_MISSING = object()
_WORDS = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    dict: "an object",
    list: "a list",
    type(None): "null",
}
Kinds = type | tuple[type, ...]


@dataclass
class Fields:
    """The fields of one JSON object; ``end`` refuses those that nobody took."""

    data: dict[str, Any]
    source: str
    prefix: str
    taken: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, data: object, source: str, prefix: str) -> Fields:
        """The fields of ``data``, which must be a JSON object."""
        if not isinstance(data, dict):
            raise NetworkError(
                f"{source}: {prefix.rstrip('.') or 'the file'} is {_show(data)}; it must be an object, {{..}}."
            )
        return cls(data, source, prefix)

    def wrong(self, name: str, allowed: str) -> NetworkError:
        """The error to raise about field ``name``: what it is, and what is allowed."""
        return NetworkError(f"{self.source}: {self.prefix}{name} is {_show(self.data.get(name))}; {allowed}.")

    def take(self, name: str, kinds: Kinds, *, default: Any = _MISSING) -> Any:
        """Field ``name``, of one of ``kinds``; its default where it is absent."""
        self.taken.append(name)
        if name not in self.data:
            if default is _MISSING:
                raise NetworkError(f"{self.source} has no {self.prefix}{name}; it needs one: {_words(kinds)}.")
            return default
        if not _is(self.data[name], kinds):
            raise self.wrong(name, f"it must be {_words(kinds)}")
        return self.data[name]

    def list(
        self, name: str, kinds: Kinds, *, default: Any = _MISSING, length: int | None = None, why: str = ""
    ) -> tuple[Any, ...]:
        """Field ``name``: a list of items of ``kinds``, ``length`` of them where that is given."""
        items = self.take(name, list, default=default)
        if items is default:
            return tuple(items)
        if not all(_is(item, kinds) for item in items):
            raise self.wrong(name, f"its items must each be {_words(kinds)}")
        if length is not None and len(items) != length:
            raise self.wrong(name, f"it has {len(items)} items and must have {length}, {why}")
        return tuple(items)

    def lists(self, name: str, kind: type) -> tuple[tuple[Any, ...], ...]:
        """Field ``name``: a list of lists; a single item stands for a list of one."""
        items = [item if isinstance(item, list) else [item] for item in self.take(name, list)]
        if not all(_is(entry, kind) for item in items for entry in item):
            raise self.wrong(name, f"it must be a list of lists, each item {_words(kind)}")
        return tuple(tuple(item) for item in items)

    def count(self, name: str, *, default: Any = _MISSING) -> int:
        """Field ``name``: a whole number of at least 1 and at most 65535."""
        value: int = self.take(name, int, default=default)
        if not 1 <= value <= 65535:
            raise self.wrong(name, "it must be 1 to 65535")
        return value

    def number(self, name: str, *, default: float) -> float:
        """Field ``name``: a finite number."""
        value = _finite(self.take(name, float, default=default))
        if value is None:
            raise self.wrong(name, "it must be finite")
        return value

    def numbers(self, name: str, *, default: tuple[float, float, float]) -> tuple[float, float, float]:
        """Field ``name``: three finite numbers, one per channel."""
        values = [_finite(value) for value in self.list(name, float, default=default)]
        finite = [value for value in values if value is not None]
        if len(values) != 3 or len(finite) != 3:
            raise self.wrong(name, "it must be three finite numbers, one per channel")
        return finite[0], finite[1], finite[2]

    def colour(self, name: str, *, default: tuple[int, int, int]) -> tuple[int, int, int]:
        """Field ``name``: one RGB colour, each channel 0..255."""
        return _colour(self.list(name, int, default=default)) or self._bad_colour(name)

    def colours(self, name: str, *, length: int) -> tuple[tuple[int, int, int], ...]:
        """Field ``name``: ``length`` RGB colours, or absent."""
        items = self.take(name, list, default=[])
        if items and len(items) != length:
            raise NetworkError(
                f"{self.source}: {self.prefix}{name} has {len(items)} colours for {length} classes; one each."
            )
        return tuple(_colour(item) or self._bad_colour(name) for item in items)

    def _bad_colour(self, name: str) -> tuple[int, int, int]:
        raise self.wrong(name, "a colour is three whole numbers, 0 to 255: red, green, blue")

    def end(self) -> None:
        """Refuse fields that nobody took."""
        for name in self.data:
            if name not in self.taken:
                raise NetworkError(f"{self.source}: unknown field {self.prefix}{name}. {nearest(name, self.taken)}")


def _colour(item: Any) -> tuple[int, int, int] | None:
    fits = isinstance(item, (list, tuple)) and len(item) == 3 and all(_is(c, int) and 0 <= c <= 255 for c in item)
    return (item[0], item[1], item[2]) if fits else None


def _finite(value: float) -> float | None:
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _is(value: object, kinds: Kinds) -> bool:
    allowed = kinds if isinstance(kinds, tuple) else (kinds,)
    if isinstance(value, bool):
        return bool in allowed
    return isinstance(value, allowed) or (float in allowed and isinstance(value, int))


def _words(kinds: Kinds) -> str:
    return " or ".join(_WORDS[kind] for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))


def _show(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
