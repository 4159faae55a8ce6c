"""Classes: the meaning of the ids in label maps, ``classes.json``, which states it, and maps from a network's classes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clockseg.errors import DataError, nearest
from clockseg.graph.sidecar import MOST_CLASSES
from clockseg.types import Labels

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


@dataclass(frozen=True)
class Classes:
    """The classes of a data set, in the order of their ids.

    ``palette``: RGB 0..255, one per class, or empty. ``ignore``: the id of unlabelled pixels. ``fps``: frames per second of
    the clips, None if unknown. ``others``: the id for every class that a network has and this data set does not
    (0, the background, in YouTube-Objects); None if the network's classes must be these. ``renames``: the names here of
    network classes that have another name.

    >>> Classes(("sky", "road")).ignore
    255
    """

    names: tuple[str, ...]
    palette: tuple[tuple[int, int, int], ...] = ()
    ignore: int = 255
    fps: float | None = None
    others: int | None = None
    renames: ClassMap | None = None

    def lookup(self, names: Sequence[str]) -> Labels:
        """Return the table that maps ids of a network with classes ``names`` to ids of this data set: uint8 [256].

        The names must be these in this order. With ``others``, the network may have more, in any order, which become
        ``others``. With ``renames``, several classes of the network may become one of these, and some of these may have none.
        Ids that the network does not have become ``ignore``. Map before anything is counted, because the same id may
        mean another class here. ``DataError`` if the classes cannot be mapped.

        >>> animals = Classes(("background", "bird", "cat"), others=0)
        >>> animals.lookup(("background", "cat", "person", "bird"))[:5].tolist()
        [0, 2, 0, 1, 255]
        """
        if self.renames is not None:
            rest = None if self.others is None else self.names[self.others]
            names = self.renames.renamed(names, self.names, rest=rest)
        elif self.others is None and tuple(names) != self.names:
            raise DataError("scores need the same class names in the same order; map them with --map FILE.")
        others = self.ignore if self.others is None else self.others
        unknown = [name for name in self.names if name not in names]
        if unknown and self.renames is None:
            raise DataError(f"the network has no class {', '.join(unknown)}; map its names with --map FILE.")
        table = np.full(256, self.ignore, np.uint8)
        ids = {name: id for id, name in enumerate(self.names)}
        table[: len(names)] = [ids.get(name, others) for name in names]
        return table


def read_classes(path: Path) -> Classes:
    """Read a JSON file ``{"classes": [..], "palette": [[r, g, b], ..], "ignore": 255, "fps": 15}``; only ``classes`` is required.

    ``DataError`` if the file is missing or has another content.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path} is missing; it states the meaning of label ids. {EXAMPLE}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} can't be read ({error}). {EXAMPLE}") from None
    if not isinstance(found, dict):
        raise DataError(f"{path} contains a {type(found).__name__}, not an object. {EXAMPLE}")
    names, palette = found.get("classes"), found.get("palette", [])
    ignore, fps = found.get("ignore", 255), found.get("fps")
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise DataError(f"{path}: classes is {names!r}; give a list of names. {EXAMPLE}")
    if not 1 <= len(names) <= MOST_CLASSES or len(set(names)) != len(names):
        raise DataError(
            f"{path}: {len(names)} classes, {len(set(names))} of them different; give 1 to {MOST_CLASSES} different names."
        )
    if not isinstance(palette, list) or not all(_is_colour(colour) for colour in palette):
        raise DataError(f"{path}: the palette has a colour that is not [red, green, blue] of 0 to 255. {EXAMPLE}")
    if palette and len(palette) != len(names):
        raise DataError(f"{path}: {len(palette)} colours for {len(names)} classes; give one per class.")
    if type(ignore) is not int or not len(names) <= ignore <= 255:
        raise DataError(f"{path}: ignore is {ignore!r}; give an id that is not a class, {len(names)} to 255.")
    if fps is not None and (type(fps) not in (int, float) or not 0 < fps < 1e6):
        raise DataError(f"{path}: fps is {fps!r}; give frames per second, or leave it out.")
    colours = tuple((red, green, blue) for red, green, blue in palette)
    return Classes(tuple(names), colours, ignore, None if fps is None else float(fps))


EXAMPLE = 'It has {"classes": ["sky", "road"], "palette": [[128, 128, 128], [128, 64, 128]], "ignore": 255, "fps": 15}.'


def _is_colour(colour: Any) -> bool:
    return isinstance(colour, list) and len(colour) == 3 and all(type(c) is int and 0 <= c <= 255 for c in colour)


def read_class_map(path: Path) -> ClassMap:
    """Read a class map from a file (``FORMS``; # begins a comment, empty lines are skipped); ``DataError`` for another file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        given = json.loads(text) if text.lstrip().startswith("{") else None
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"{path} can't be read ({reason}). {FORMS}") from None
    if given is None:
        lines = (line.partition("#")[0].strip() for line in text.splitlines())
        pairs = [tuple(part.strip() for part in line.split("=", 1)) for line in lines if line]
    else:
        pairs = list(given.items())
    found: dict[str, str] = {}
    for pair in pairs:
        if len(pair) != 2 or not all(isinstance(name, str) and name for name in pair):
            raise DataError(f"{path}: {' = '.join(map(str, pair))!r} is not NAME = NAME. {FORMS}")
        if found.setdefault(pair[0], pair[1]) != pair[1]:
            raise DataError(f"{path}: {pair[0]!r} is mapped twice, to {found[pair[0]]!r} and to {pair[1]!r}.")
    if not found and given is not None:
        raise DataError(f"{path}: {given!r} has no pair of class names. {FORMS}")
    return ClassMap(found, str(path))
