"""Class maps: from a network's class names to a data set's, many to one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clockseg.errors import DataError, nearest

REST = "*"
"""The name that stands for all classes of the network that aren't named."""
FORMS = (
    'It holds a line "NETWORK CLASS = DATA SET CLASS" for each class that is called otherwise, or a JSON object of the same; '
    "* stands for all the others."
)


@dataclass(frozen=True)
class ClassMap:
    """Network's class -> data set's class. A class that isn't in ``names`` keeps its own, if the data set has it.

    There is no way to leave a class out: a pixel that the network gives to a class which the data set doesn't have is
    wrong there, and to drop it would flatter the network. ``source`` names it in errors.

    >>> ClassMap({"rider": "person", "bus": "car"}).renamed(("car", "bus", "rider"), ("car", "person"))
    ('car', 'car', 'person')
    """

    names: Mapping[str, str]
    source: str = "the map of classes"

    def renamed(self, network: Sequence[str], known: Sequence[str], *, rest: str | None = None) -> tuple[str, ...]:
        """The data set's class for each of the ``network``'s; ``known``: the data set's; ``rest``: of those unnamed.

        ``DataError`` lists the classes that the data set doesn't have and nothing is said of, and the names in the map
        that neither has.
        """
        self._check(network, known)
        rest = self.names.get(REST, rest)
        found = [self.names.get(name, name if name in known else rest) for name in network]
        missing = [name for name, mapped in zip(network, found, strict=True) if mapped is None]
        if missing:
            raise DataError(
                f"{self.source} doesn't say what the network's {', '.join(missing)} become; the data set has "
                f"{', '.join(known)}. {FORMS}"
            )
        return tuple(name for name in found if name is not None)

    def _check(self, network: Sequence[str], known: Sequence[str]) -> None:
        for ours, theirs in self.names.items():
            if ours != REST and ours not in network:
                raise DataError(f"{self.source}: the network has no class {ours!r}. {nearest(ours, network)}")
            if theirs not in known:
                raise DataError(f"{self.source}: the data set has no class {theirs!r}. {nearest(theirs, known)}")


def read_class_map(path: Path) -> ClassMap:
    """The map in a file (``FORMS``; # begins a comment, and empty lines are passed over); ``DataError`` if it isn't one.

    >>> read_class_map(Path("nowhere.txt"))
    Traceback (most recent call last):
        ...
    clockseg.errors.DataError: nowhere.txt can't be read (No such file or directory). It holds a line "NETWORK CLASS = DATA
    SET CLASS" for each class that is called otherwise, or a JSON object of the same; * stands for all the others.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        pairs = _pairs(json.loads(text), path) if text.lstrip().startswith("{") else _lines(text, path)
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        reason = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"{path} can't be read ({reason}). {FORMS}") from None
    found: dict[str, str] = {}
    for ours, theirs in pairs:
        if found.setdefault(ours, theirs) != theirs:
            raise DataError(f"{path}: {ours!r} stands there twice, as {found[ours]!r} and as {theirs!r}.")
    return ClassMap(found, str(path))


def _pairs(found: object, path: Path) -> list[tuple[str, str]]:
    items = list(found.items()) if isinstance(found, dict) else []
    wrong = [pair for pair in items if not (isinstance(pair[1], str) and all(pair))]
    if wrong or not items:
        raise DataError(f"{path}: {wrong[0] if wrong else found!r} is no class and what it becomes. {FORMS}")
    return items


def _lines(text: str, path: Path) -> list[tuple[str, str]]:
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.partition("#")[0].strip()
        ours, equals, theirs = (part.strip() for part in line.partition("="))
        if line and not (ours and equals and theirs):
            raise DataError(f"{path}, line {number}: {line!r} is no NAME = NAME. {FORMS}")
        if line:
            found.append((ours, theirs))
    return found
