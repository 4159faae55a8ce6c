"""Contact sheet: rows of pictures of the same frames, and under them rasters of firings aligned in time, as a PNG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from clockseg.errors import UsageError
from clockseg.files import whole
from clockseg.paper.canvas import Raster, blank, framed, grid, legend, line
from clockseg.types import Image
from clockseg.video.overlay import Colour, fitted

WIDTH, NAMES = 1400, 220
"""Widths in pixels of a row of pictures, and of the column with the names of the rows at its left."""
CAPITAL, GAP = 13, 6
"""The height of a capital letter, and the distance between pictures, in pixels."""


class Pictures(NamedTuple):
    """Pictures of one kind, uint8 RGB, one per column (None: left white).

    ``notes``: a text under each picture, if any; ``about``: what the notes are.
    """

    name: str
    pictures: Sequence[Image | None]
    notes: Sequence[str] = ()
    about: str = ""


def contact_sheet(
    path: Path,
    rows: Sequence[Pictures],
    *,
    heads: Sequence[str],
    title: str = "",
    note: str = "",
    rasters: Sequence[tuple[str, Sequence[bool]]] = (),
    marks: Sequence[int] = (),
    entries: Sequence[tuple[str, Colour]] = (),
) -> None:
    """Write a PNG with a row of pictures for each of ``rows`` and a column for each of ``heads``.

    Above them stand ``title`` at the left and ``note`` at the right; under them, as wide as the pictures, the ``rasters``,
    each a name and the frames of the whole clip on which it fired, with ``marks``, the frames that are shown; last a legend of
    ``entries``. ``UsageError`` for rows without one picture per head.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     row = Pictures("input", [np.zeros((16, 24, 3), np.uint8)] * 2)
    ...     contact_sheet(Path(folder, "two.png"), [row], heads=["first", "last"], rasters=[("clock", [True, False])])
    ...     [file.name for file in Path(folder).iterdir()]
    ['two.png']
    """
    if not rows or not heads or any(len(row.pictures) != len(heads) for row in rows):
        raise UsageError(f"rows of {[len(row.pictures) for row in rows]} pictures, {len(heads)} heads; give one each.")
    cell = (WIDTH + GAP) // len(heads) - GAP
    width = len(heads) * (cell + GAP) - GAP
    bands = [line(NAMES + width, title, note, capital=CAPITAL, bold=True)] if title or note else []
    bands.append(_words("", heads, cell))
    for row in rows:
        bands += [_beside(row.name, _strip(row, cell)), blank(NAMES + width, GAP)]
        bands += [_words(row.about, row.notes, cell)] if row.notes else []
    for name, fired in rasters:
        raster = Raster(fired, width=width, height=3 * CAPITAL)
        bands += [_beside(_rate(name, fired), raster.marked(marks)), blank(NAMES + width, GAP)]
    bands.append(legend(entries, NAMES + width, capital=CAPITAL))
    _, data = cv2.imencode(".png", cv2.cvtColor(framed(bands, gap=GAP), cv2.COLOR_RGB2BGR))
    with whole(path) as part:
        part.write_bytes(data.tobytes())


def _strip(row: Pictures, cell: int) -> Image:
    """Return the pictures of a row side by side, each ``cell`` pixels wide."""
    shapes = [picture.shape for picture in row.pictures if picture is not None]
    if not shapes:
        raise UsageError(f"the row {row.name!r} has no picture; give it at least one, or leave the row out.")
    size = cell, max(1, round(cell * shapes[0][0] / shapes[0][1]))
    cells = [blank(*size) if picture is None else fitted(picture, size) for picture in row.pictures]
    return grid(cells, columns=len(cells), gap=GAP)


def _words(about: str, words: Sequence[str], cell: int) -> Image:
    cells = [line(cell, word, capital=CAPITAL) for word in words]
    return _beside(about, grid(cells, columns=len(cells), gap=GAP))


def _beside(name: str, content: Image) -> Image:
    """Return ``content`` with ``name`` at its left, in the middle of its height."""
    column = blank(NAMES, max(3 * CAPITAL, content.shape[0]))
    text = line(NAMES - GAP, name, capital=CAPITAL)
    top = (column.shape[0] - text.shape[0]) // 2
    column[top : top + text.shape[0], : text.shape[1]] = text
    below = column.shape[0] - content.shape[0]
    return np.concatenate([column, np.pad(content, ((0, below), (0, 0), (0, 0)), constant_values=255)], axis=1)


def _rate(name: str, fired: Sequence[bool]) -> str:
    later = fired[1:]
    return f"{name} fires {100 * sum(later) / len(later):.0f} %" if later else name
