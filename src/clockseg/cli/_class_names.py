"""Reading class names and colours from the file that ``clockseg cut --classes`` or ``--palette`` names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clockseg.datasets.classes import read_classes
from clockseg.errors import DataError
from clockseg.networks.class_names import FORMS, ClassNames, checked, names_of
from clockseg.video.overlay import Colour


def read_class_names(path: Path) -> ClassNames:
    """The classes in a file of any of ``FORMS``; ``DataError`` says what is wrong with it.

    >>> read_class_names(Path("nowhere.txt"))
    Traceback (most recent call last):
        ...
    clockseg.errors.DataError: nowhere.txt can't be read (No such file or directory). Give a name a line in the order of
    the ids, a JSON list of names, a JSON object of id: name (as a transformers config.json holds under "id2label"), or
    the classes.json of a folder of clips.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise DataError(f"{path} can't be read ({reason}). {FORMS}") from None
    if path.suffix.lower() != ".json":
        return ClassNames(checked(_lines(text, path), str(path)))
    found = _json(text, path)
    if isinstance(found, dict) and "classes" in found:
        told = read_classes(path)
        return ClassNames(told.names, told.palette, told.ignore)
    return ClassNames(names_of(found, str(path)))


def _lines(text: str, path: Path) -> list[str]:
    lines = [line.strip() for line in text.strip().splitlines()]
    if "" in lines:
        raise DataError(f"{path}: line {lines.index('') + 1} is empty; which id is its class? {FORMS}")
    return lines


def _json(text: str, path: Path) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is no JSON ({error}). {FORMS}") from None


def read_palette(path: Path, classes: int) -> tuple[Colour, ...]:
    """``classes`` RGB colours from a JSON list of [r, g, b], or from lines ``r g b`` or ``#rrggbb``.

    >>> read_palette(Path("nowhere.txt"), 2)
    Traceback (most recent call last):
        ...
    clockseg.errors.DataError: nowhere.txt can't be read. Give 2 colours: a JSON list of [r, g, b], 0 to 255, or one a line
    as "r g b" or "#rrggbb".
    """
    forms = f'Give {classes} colours: a JSON list of [r, g, b], 0 to 255, or one a line as "r g b" or "#rrggbb".'
    try:
        text = path.read_text(encoding="utf-8-sig").strip()
        rows = json.loads(text) if text.startswith(("[", "{")) else [_colour(line) for line in text.splitlines()]
        rows = rows["palette"] if isinstance(rows, dict) else rows
        colours = [tuple(row) for row in rows]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        raise DataError(f"{path} can't be read. {forms}") from None
    fits = all(len(row) == 3 and all(type(c) is int and 0 <= c <= 255 for c in row) for row in colours)
    if not fits or len(colours) != classes:
        raise DataError(
            f"{path} holds {len(colours)} {'colours' if fits else 'rows, not all of them colours'}. {forms}"
        )
    return tuple((red, green, blue) for red, green, blue in colours)


def _colour(line: str) -> list[int]:
    """One line as a colour.

    >>> _colour("#ff8000"), _colour("1, 2, 3")
    ([255, 128, 0], [1, 2, 3])
    """
    line = line.strip()
    if line.startswith("#") and len(line) == 7:
        return list(bytes.fromhex(line[1:]))
    return [int(part) for part in line.replace(",", " ").split()]
