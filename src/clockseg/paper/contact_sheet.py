"""Contact sheets, as PNG: rows of pictures of the same frames, and under them rasters of firings aligned in time.

A filmstrip is the sheet of a screening: labels, output and firings of a schedule at frames spread over a clip.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np

from clockseg.datasets.clips import ClipFrame
from clockseg.paper.report import ORACLE
from clockseg.paper.screening import Screening
from clockseg.report.style import FIRED, NOW, PAGE, figure
from clockseg.types import Image, Labels
from clockseg.video.overlay import Colour, overlay

_WHITE = 255
_OPACITY = 0.55
# The share of its contrast that a picture in pale grey keeps.
_PALE = 0.45
# Inches beside the pictures for names, and above and below each row for words.
_NAMES, _WORDS = 1.2, 0.3
_BESIDE: dict[str, Any] = {"rotation": 0, "ha": "right", "va": "center"}


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
    rasters: Sequence[tuple[str, Sequence[bool]]] = (),
    marks: Sequence[int] = (),
    entries: Sequence[tuple[str, Colour]] = (),
) -> None:
    """Write a PNG with a row of pictures for each of ``rows`` and a column for each of ``heads``.

    Under them, as wide as the pictures, stand the ``rasters``, each a name and the frames of the whole clip on which it fired,
    with ``marks``, the frames that are shown; last a legend of ``entries``.
    """
    heights = [*(_height(row, (PAGE - _NAMES) / len(heads)) + _WORDS for row in rows), *[2 * _WORDS] * len(rasters)]
    with figure(path, size=(PAGE, sum(heights) + (3 + len(entries) // 6) * _WORDS)) as drawn:
        places = drawn.add_gridspec(len(heights), len(heads), height_ratios=heights)
        for place, row in enumerate(rows):
            axes = [drawn.add_subplot(places[place, column]) for column in range(len(heads))]
            for one, picture, note in zip(axes, row.pictures, row.notes or [""] * len(heads), strict=True):
                one.imshow(np.full((1, 1, 3), _WHITE, np.uint8) if picture is None else picture)
                one.set(xticks=[], yticks=[], frame_on=False, xlabel=note)
            axes[0].set_ylabel(f"{row.name}\n{row.about}".strip(), **_BESIDE)
            if place == 0:
                for one, head in zip(axes, heads, strict=True):
                    one.set_title(head, fontsize=8, fontweight="normal")
        for place, (name, fired) in enumerate(rasters, start=len(rows)):
            raster = drawn.add_subplot(places[place, :])
            raster.bar(np.flatnonzero(fired), 1, width=0.8, color=FIRED)
            raster.plot(marks, [1.15] * len(marks), "v", color=NOW)
            raster.set(xlim=(-0.5, len(fired) - 0.5), yticks=[])
            raster.set_ylabel(_rate(name, fired), **_BESIDE)
        drawn.suptitle(title, x=0.01, ha="left", fontsize=10, fontweight="bold")
        for name, colour in entries:
            drawn.axes[0].scatter([], [], marker="s", color=[np.divide(colour, _WHITE)], label=name)
        if entries:
            drawn.legend(loc="outside lower left", ncols=6)


def _height(row: Pictures, width: float) -> float:
    """Return the height of pictures ``width`` inches wide."""
    height, across, _ = next(picture.shape for picture in row.pictures if picture is not None)
    return float(width * height / across)


def _rate(name: str, fired: Sequence[bool]) -> str:
    later = fired[1:]
    return f"{name}\nfires {100 * sum(later) / len(later):.0f} %" if later else name


def masked(image: Image, labels: Labels, colours: Sequence[Colour]) -> Image:
    """Return a picture tinted by class, with a white line one pixel wide between classes; both have the same size.

    Pixels without a class (255, or an id beyond the colours) and their borders are left as they are.
    """
    drawn = overlay(image, labels, colours, opacity=_OPACITY)
    known = labels < len(colours)
    right = (labels[:, 1:] != labels[:, :-1]) & known[:, 1:] & known[:, :-1]
    below = (labels[1:] != labels[:-1]) & known[1:] & known[:-1]
    drawn[:, :-1][right] = drawn[:-1][below] = _WHITE
    return drawn


def differing(image: Image, labels: Labels, truth: Labels, colours: Sequence[Colour]) -> Image:
    """Return a picture in pale grey, with the class colour on each pixel whose label differs from ``truth``."""
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    pale = np.repeat((grey * _PALE + (_WHITE - _WHITE * _PALE)).astype(np.uint8)[..., None], 3, axis=2)
    wrong = np.where(labels == truth, _WHITE, labels).astype(np.uint8)
    return overlay(pale, wrong, colours, opacity=1)


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
    middles = [(2 * part + 1) * count // (2 * pictures) for part in range(pictures)]
    nearest = [min(among or range(count), key=lambda at: abs(at - middle)) for middle in middles]
    return sorted(set(nearest))
