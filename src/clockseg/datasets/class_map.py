"""Class maps: from the class names of a network to those of a data set, many to one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clockseg.errors import DataError, nearest

REST = "*"
"""The name that stands for all classes of the network that are not listed."""
FORMS = (
    'It has a line "NETWORK CLASS = DATA SET CLASS" for each class with another name, or the same as a JSON object; '
    "* stands for all other classes."
)


@dataclass(frozen=True)
class ClassMap:
    """Map from classes of a network to classes of a data set. A class not in ``names`` keeps its name if the data set has it.

    No class can be left out: a pixel of a class that the data set does not have is wrong, and dropping it would
    overstate the network's score. ``source``: the name of the map in errors.

    >>> ClassMap({"rider": "person", "bus": "car"}).renamed(("car", "bus", "rider"), ("car", "person"))
    ('car', 'car', 'person')
    """

    names: Mapping[str, str]
    source: str = "the class map"

    def renamed(self, network: Sequence[str], known: Sequence[str], *, rest: str | None = None) -> tuple[str, ...]:
        """Return the data set's class for each class of the ``network``; ``known``: those of the data set.

        ``rest``: the class for all that are not listed. ``DataError`` names the classes without a class in the data set, and the
        names in the map that are unknown to the network or the data set.
        """
        self._check(network, known)
        rest = self.names.get(REST, rest)
        found = [self.names.get(name, name if name in known else rest) for name in network]
        missing = [name for name, mapped in zip(network, found, strict=True) if mapped is None]
        if missing:
            raise DataError(
                f"{self.source} does not map the network's {', '.join(missing)}; the data set has "
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
    """Read a class map from a file (``FORMS``; # begins a comment, empty lines are skipped); ``DataError`` for another file.

    >>> read_class_map(Path("nowhere.txt"))
    Traceback (most recent call last):
        ...
    clockseg.errors.DataError: nowhere.txt can't be read (No such file or directory). It has a line "NETWORK CLASS = DATA
    SET CLASS" for each class with another name, or the same as a JSON object; * stands for all other classes.
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
            raise DataError(f"{path}: {ours!r} is mapped twice, to {found[ours]!r} and to {theirs!r}.")
    return ClassMap(found, str(path))


def _pairs(found: object, path: Path) -> list[tuple[str, str]]:
    items = list(found.items()) if isinstance(found, dict) else []
    wrong = [pair for pair in items if not (isinstance(pair[1], str) and all(pair))]
    if wrong or not items:
        raise DataError(f"{path}: {wrong[0] if wrong else found!r} is not a pair of class names. {FORMS}")
    return items


def _lines(text: str, path: Path) -> list[tuple[str, str]]:
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.partition("#")[0].strip()
        ours, equals, theirs = (part.strip() for part in line.partition("="))
        if line and not (ours and equals and theirs):
            raise DataError(f"{path}, line {number}: {line!r} is not NAME = NAME. {FORMS}")
        if line:
            found.append((ours, theirs))
    return found
