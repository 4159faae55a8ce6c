"""The names of a network's classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from clockseg.errors import DataError
from clockseg.graph.sidecar import MOST_CLASSES
from clockseg.video.overlay import Colour

FORMS = (
    "Give a name a line in the order of the ids, a JSON list of names, a JSON object of id: name "
    '(as a transformers config.json holds under "id2label"), or the classes.json of a folder of clips.'
)


class ClassNames(NamedTuple):
    """Names in the order of their ids; ``palette``: an RGB colour each, or none; ``ignore``: of pixels without a class."""

    names: tuple[str, ...]
    palette: tuple[Colour, ...] = ()
    ignore: int | None = None


def numbered(count: int) -> ClassNames:
    """Make up names for classes that have none.

    >>> numbered(2).names
    ('class 0', 'class 1')
    """
    return ClassNames(tuple(f"class {number}" for number in range(count)))


def names_of(found: Any, source: str) -> tuple[str, ...]:
    """Read names from a list of names, or from an object of id: name, which may lie under "id2label".

    >>> names_of({"id2label": {"1": "sky", "0": "road"}}, "config.json")
    ('road', 'sky')
    """
    if isinstance(found, dict):
        labels = found.get("id2label", found)
        found = _by_id(labels, source) if isinstance(labels, dict) else labels
    if not isinstance(found, list):
        raise DataError(f"{source} holds {type(found).__name__}, no names of classes. {FORMS}")
    return checked(found, source)


def checked(names: Sequence[Any], source: str) -> tuple[str, ...]:
    """Return ``names`` if a sidecar can hold them: 1 to 255 texts, no two alike."""
    bad = [name for name in names if not isinstance(name, str) or not name]
    if bad:
        raise DataError(f"{source}: {bad[0]!r} is no name of a class. {FORMS}")
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise DataError(f"{source}: {', '.join(twice[:3])} stands there twice; each class needs a name of its own.")
    if not 1 <= len(names) <= MOST_CLASSES:
        raise DataError(f"{source}: {len(names)} classes; label maps are bytes, so there are 1 to {MOST_CLASSES}.")
    return tuple(names)


def _by_id(labels: dict[str, Any], source: str) -> list[Any]:
    """Sort names by their ids, which must be 0, 1, .. without a gap."""
    try:
        found = {int(key): value for key, value in labels.items()}
    except ValueError:
        raise DataError(f"{source}: {next(iter(labels))!r} is no id of a class. {FORMS}") from None
    missing = next((number for number in range(len(found)) if number not in found), None)
    if missing is not None:
        raise DataError(
            f"{source}: {len(found)} classes, and none has the id {missing}; ids are 0 to {len(found) - 1}, one each."
        )
    return [found[number] for number in range(len(found))]
