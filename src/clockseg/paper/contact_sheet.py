"""Contact sheets, as PNG: rows of pictures of the same frames, and under them rasters of firings aligned in time.

A filmstrip is the sheet of a screening: labels, output and firings of a schedule at frames spread over a clip.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from clockseg.datasets.clips import ClipFrame
from clockseg.errors import UsageError
from clockseg.files import whole
from clockseg.paper.canvas import Raster, blank, differing, framed, grid, legend, line, masked
from clockseg.paper.report import ORACLE
from clockseg.paper.screening import Screening
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


def schedule_filmstrip(screening: Screening, path: Path, schedules: Sequence[str], *, pictures: int = 6) -> None:
    """Write a PNG with labels and output at some frames, and when the last stage fired (paper, figure of the adaptive clock).

    The first row shows the human labels, or the frame oracle's for a clip without any. ``pictures`` frames at equal distances
    stand above a raster that marks them; if only some frames are labelled, the nearest of those. The output is that of the first
    of ``schedules``; there is a raster for each.
    """
    shown = spread(len(screening), pictures, among=screening.labelled)
    _, *rows = picture_rows(screening, shown, [*([] if screening.labelled else [ORACLE]), schedules[0]])
    contact_sheet(
        path,
        rows,
        heads=frame_heads(screening, shown),
        rasters=[(name, screening.of(name).fired) for name in schedules],
        marks=shown,
        entries=screening.legend(shown),
    )


def picture_rows(
    screening: Screening, positions: Sequence[int], schedules: Sequence[str], *, differences: bool = False
) -> list[Pictures]:
    """Return rows for the input, the labels (if any of these frames has some) and each schedule at ``positions``.

    Under each picture of a schedule stands the share of pixels on which it agrees with the oracle; with ``differences`` a
    row that shows the other pixels follows.
    """
    taken = {at: frame for at, frame in enumerate(screening.frames()) if at in positions}
    frames = [taken[at] for at in positions]
    truths = [None if one.labels is None else masked(one.image, one.labels, screening.colours) for one in frames]
    found = [Pictures("input", [frame.image for frame in frames])]
    found += [Pictures("truth", truths)] * any(frame.labels is not None for frame in frames)
    for name in schedules:
        found += _schedule_rows(screening, name, dict(zip(positions, frames, strict=True)), differences)
    return found


def _schedule_rows(screening: Screening, name: str, frames: dict[int, ClipFrame], differences: bool) -> list[Pictures]:
    given = {at: screening.of(name).labels(at) for at in frames}
    tinted = [masked(frame.image, given[at], screening.colours) for at, frame in frames.items()]
    if name == ORACLE:
        return [Pictures(name, tinted)]
    notes = [f"{100 * screening.same(name, at):.1f} %" for at in frames]
    if not differences:
        return [Pictures(name, tinted, notes, "agreement")]
    oracle = {at: screening.of(ORACLE).labels(at) for at in frames}
    wrong = [differing(frame.image, given[at], oracle[at], screening.colours) for at, frame in frames.items()]
    return [Pictures(name, tinted), Pictures("unlike the oracle", wrong, notes, "agreement")]


def frame_heads(screening: Screening, positions: Sequence[int]) -> list[str]:
    """Return the headings of the pictures: the frame's number in its clip, and its time."""
    seconds = [screening.times[at] for at in positions]
    times = ["" if one is None else f", {one:.2f} s" for one in seconds]
    return [f"frame {screening.indices[at]}{time}" for at, time in zip(positions, times, strict=True)]


def spread(count: int, pictures: int, *, among: Sequence[int] = ()) -> list[int]:
    """Return the middles of ``pictures`` equal parts of 0..count-1, or the values of ``among`` nearest to them."""
    if pictures < 1:
        raise UsageError(f"pictures={pictures}; give how many frames to show, 1 or more.")
    middles = [(2 * part + 1) * count // (2 * pictures) for part in range(pictures)]
    nearest = [min(among or range(count), key=lambda at: abs(at - middle)) for middle in middles]
    return sorted(set(nearest))
