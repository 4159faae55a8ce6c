"""Classes: the meaning of the ids in label maps, ``classes.json``, which states it, and maps from a network's classes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clockseg.datasets.folders import read_lines
from clockseg.errors import DataError, nearest
from clockseg.graph.sidecar import MOST_CLASSES
from clockseg.types import Labels

REST = "*"
"""The name that stands for all classes of the network that are not listed."""
FORM = (
    'It has a line "NETWORK CLASS = DATA SET CLASS" for each class with another name; * stands for all other classes.'
)


@dataclass(frozen=True)
class Classes:
    """The classes of a data set, in the order of their ids.

    ``palette``: RGB 0..255, one per class, or empty. ``ignore``: the id of unlabelled pixels. ``fps``: frames per second of
    the clips, None if unknown. ``others``: the id for every class that a network has and this data set does not
    (0, the background, in YouTube-Objects); None if the network's classes must be these. ``renames``: the names here of
    network classes that have another name, and of all that are not listed under ``REST``; None if none has.

    >>> Classes(("sky", "road")).ignore
    255
    """

    names: tuple[str, ...]
    palette: tuple[tuple[int, int, int], ...] = ()
    ignore: int = 255
    fps: float | None = None
    others: int | None = None
    renames: Mapping[str, str] | None = None

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
            names = self._renamed(names, self.renames)
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

    def _renamed(self, network: Sequence[str], renames: Mapping[str, str]) -> list[str]:
        """Return the class here for each class of the network; one that is not in ``renames`` keeps its name if it is here.

        None can be left out: a pixel of a class that is not here is wrong, and dropping it would overstate the score.
        """
        for ours, theirs in renames.items():
            if ours != REST and ours not in network:
                raise DataError(f"--map: the network has no class {ours!r}. {nearest(ours, network)}")
            if theirs not in self.names:
                raise DataError(f"--map: the data set has no class {theirs!r}. {nearest(theirs, self.names)}")
        rest = renames.get(REST, "" if self.others is None else self.names[self.others])
        found = [renames.get(name, name if name in self.names else rest) for name in network]
        missing = [name for name, mapped in zip(network, found, strict=True) if not mapped]
        if missing:
            raise DataError(
                f"--map FILE does not map the network's {', '.join(missing)}; the data set has {', '.join(self.names)}. {FORM}"
            )
        return found


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
    if not isinstance(names, list):
        raise DataError(f"{path}: classes is {names!r}; give a list of names. {EXAMPLE}")
    checked_names(names, str(path), EXAMPLE)
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


def checked_names(names: Sequence[Any], source: str, forms: str = "") -> tuple[str, ...]:
    """Return ``names`` if they can be classes: 1 to 255 texts, no two alike; else ``DataError``, with the ``forms`` to give."""
    bad = [name for name in names if not isinstance(name, str) or not name]
    if bad:
        raise DataError(f"{source}: {bad[0]!r} is not the name of a class. {forms}")
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise DataError(f"{source}: {', '.join(twice[:3])} is there twice; each class needs a different name.")
    if not 1 <= len(names) <= MOST_CLASSES:
        raise DataError(f"{source}: {len(names)} classes; label maps are bytes, so there are 1 to {MOST_CLASSES}.")
    return tuple(names)


def _is_colour(colour: Any) -> bool:
    return isinstance(colour, list) and len(colour) == 3 and all(type(c) is int and 0 <= c <= 255 for c in colour)


def read_class_map(path: Path) -> dict[str, str]:
    """Read lines of ``NETWORK CLASS = DATA SET CLASS`` (# begins a comment); ``DataError`` for another file."""
    found: dict[str, str] = {}
    for line in read_lines(path):
        ours, _, theirs = (part.strip() for part in line.partition("="))
        if not (ours and theirs):
            raise DataError(f"{path}: {line!r} is not NAME = NAME. {FORM}")
        if found.setdefault(ours, theirs) != theirs:
            raise DataError(f"{path}: {ours!r} is mapped twice, to {found[ours]!r} and to {theirs!r}.")
    return found
