"""Contact sheet: rows of pictures of the same frames, and under them rasters of firings aligned in time."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from clockseg.errors import UsageError
from clockseg.paper.canvas import blank
from clockseg.report.plots.style import FIRED, MUTED, NOW, PAGE, RULE, figure
from clockseg.types import Image
from clockseg.video.overlay import Colour, fitted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# All in inches: the column of names at the left, and what a line of each kind is high.
_NAMES, _TITLE, _HEADS, _NOTES, _RASTER, _LEGEND, _EDGE = 0.98, 0.24, 0.17, 0.18, 0.32, 0.18, 0.06
_DOTS = 150
"""Pixels an inch of the pictures."""
_GAP = 5
"""Pixels between pictures."""
_NAME_LETTERS = 15
# Where a name ends, as a share of the pictures' width before them.
_BEFORE = -0.012
_LEGEND_COLUMNS = 6


class Pictures(NamedTuple):
    """Pictures of one kind, uint8 RGB, one a column (None: left white).

    ``notes``: what stands under each, if anything; ``about``: what these notes are.
    """

    name: str
    pictures: Sequence[Image | None]
    notes: Sequence[str] = ()
    about: str = ""


class _Band(NamedTuple):
    """A part of the page over its whole width: how high it is, and what draws it into axes of the pictures' width."""

    inches: float
    draw: Callable[[Axes], object]


Legend: TypeAlias = Sequence[tuple[str, Colour]]
"""Names of classes with their RGB colours."""


def contact_sheet(
    stem: str | os.PathLike[str],
    rows: Sequence[Pictures],
    *,
    heads: Sequence[str],
    title: str = "",
    note: str = "",
    rasters: Sequence[tuple[str, Sequence[bool]]] = (),
    marks: Sequence[int] = (),
    legend: Legend = (),
) -> None:
    """Writes ``stem``.svg and ``stem``.png: a row of pictures for each of ``rows``, a column a frame under its head.

    Above them stand ``title`` at the left and ``note`` at the right; under them, as wide as the pictures, the ``rasters``:
    a name and on which frames of the whole clip it fired, a black bar at each firing and a blue one over each of
    ``marks``, the frames that are shown; last the legend. UsageError for rows that don't have a picture a head.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     row = Pictures("input", [np.zeros((16, 24, 3), np.uint8)] * 2)
    ...     contact_sheet(f"{folder}/two", [row], heads=["first", "last"], rasters=[("clock", [True, False])], marks=[0, 1])
    ...     sorted(os.listdir(folder))
    ['two.png', 'two.svg']
    """
    if not rows or not heads or any(len(row.pictures) != len(heads) for row in rows):
        raise UsageError(f"rows of {[len(row.pictures) for row in rows]} pictures, {len(heads)} heads; give one each.")
    bands = [_Band(_TITLE, lambda axes: _headline(axes, title, note))] if title or note else []
    bands.append(_Band(_HEADS, lambda axes: _words(axes, heads)))
    bands += [band for row in rows for band in _row(row)]
    bands += [_Band(_RASTER, _raster_drawer(name, fired, marks)) for name, fired in rasters]
    lines = -(-len(legend) // _LEGEND_COLUMNS)
    bands += [_Band(lines * _LEGEND, lambda axes: _draw_legend(axes, legend))] if legend else []
    height = sum(band.inches for band in bands) + 2 * _EDGE
    with figure(stem, size=(PAGE, height), dots=_DOTS) as page:
        page.set_layout_engine("none")
        top = height - _EDGE
        for band in bands:
            top -= band.inches
            band.draw(_axes(page, top / height, band.inches / height))


def _axes(page: Figure, bottom: float, height: float) -> Axes:
    axes = page.add_axes((_NAMES / PAGE, bottom, 1 - (_NAMES + _EDGE) / PAGE, height))
    axes.set_axis_off()
    axes.set(xlim=(0, 1), ylim=(0, 1))
    return axes


def _row(row: Pictures) -> list[_Band]:
    """The pictures as one image, and their notes."""
    width = (round((PAGE - _NAMES - _EDGE) * _DOTS) + _GAP) // len(row.pictures) - _GAP
    shapes = [picture.shape for picture in row.pictures if picture is not None]
    if not shapes:
        raise UsageError(f"the row {row.name!r} has no picture; give it one at least, or leave the row out.")
    size = width, max(1, round(width * shapes[0][0] / shapes[0][1]))
    cells = [blank(*size) if picture is None else fitted(picture, size) for picture in row.pictures]
    gap = blank(_GAP, size[1])
    strip = np.concatenate([part for cell in cells for part in (cell, gap)][:-1], axis=1)
    bands = [_Band((size[1] + _GAP) / _DOTS, lambda axes: _draw_pictures(axes, row.name, strip))]
    if row.notes:
        bands.append(_Band(_NOTES, lambda axes: _words(axes, row.notes, about=row.about)))
    return bands


def _draw_pictures(axes: Axes, name: str, strip: Image) -> None:
    _name(axes, name)
    below = _GAP / (strip.shape[0] + _GAP)
    axes.imshow(strip, extent=(0, 1, below, 1), aspect="auto", interpolation="antialiased")


def _words(axes: Axes, words: Sequence[str], *, about: str = "", y: float = 0.5) -> None:
    """Small print: a word in the middle of each column, and at the left what it is about."""
    for column, word in enumerate(words):
        axes.text((column + 0.5) / len(words), y, word, ha="center", va="center", fontsize=7.5, color=MUTED)
    axes.text(_BEFORE, y, about, transform=axes.transAxes, ha="right", va="center", fontsize=7.5, color=MUTED)


def _headline(axes: Axes, title: str, note: str) -> None:
    outside = (_NAMES - _EDGE) / (PAGE - _NAMES - _EDGE)
    axes.text(-outside, 0.5, title, ha="left", va="center", fontsize=9.5, fontweight="bold")
    axes.text(1, 0.5, note, ha="right", va="center", fontsize=8, color=MUTED)


def _name(axes: Axes, name: str, *, y: float = 0.5) -> None:
    words = textwrap.fill(name, _NAME_LETTERS)
    axes.text(_BEFORE, y, words, transform=axes.transAxes, ha="right", va="center", fontsize=8.5)


def _raster_drawer(name: str, fired: Sequence[bool], marks: Sequence[int]) -> Callable[[Axes], object]:
    """Return the function that draws one raster."""

    def draw(axes: Axes) -> None:
        count, later = len(fired), fired[1:]
        _name(axes, name, y=0.72)
        if later:
            _words(axes, (), about=f"fires {100 * sum(later) / len(later):.0f} %", y=0.26)
        axes.set(xlim=(0, count))
        axes.axhspan(0.15, 0.7, color=RULE, linewidth=0)
        spans = [(frame + 0.08, 0.84) for frame in range(count) if fired[frame]]
        axes.broken_barh(spans, (0.15, 0.55), color=FIRED, linewidth=0)
        width = max(1.0, count / 200)  # of a clip however long it can be seen
        axes.broken_barh([(frame + 0.5 - width / 2, width) for frame in marks], (0.76, 0.16), color=NOW, linewidth=0)

    return draw


def _draw_legend(axes: Axes, legend: Legend) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color="#" + bytes(colour).hex(), label=name) for name, colour in legend]
    axes.legend(
        handles=handles,
        ncols=_LEGEND_COLUMNS,
        loc="center left",
        fontsize=8,
        borderpad=0,
        handlelength=1.0,
        handleheight=1.0,
    )
