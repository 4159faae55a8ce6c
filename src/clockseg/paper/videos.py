"""The paper's two videos: panels side by side, and the output of a schedule above the raster of its firings."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from clockseg.paper.canvas import Raster, capital_height, framed, grid, legend, line, masked
from clockseg.paper.report import ORACLE
from clockseg.paper.screening import Screening
from clockseg.types import Image, Size
from clockseg.video.overlay import OverlayWriter, fitted

PANEL_WIDTHS = (320, 640)
"""The smallest and largest width of a panel in pixels."""
PICTURE_WIDTHS = (480, 960)
"""The same for the single picture of the adaptive video."""
COLUMNS = 2
"""Panels in a row."""


def pipeline_video(screening: Screening, path: str | os.PathLike[str]) -> None:
    """Write the input and the output of each schedule of ``screening`` as panels, at the times of the clip.

    A screening of a pipeline and of skip-frame gives the paper's four: input, frame oracle, pipeline, skip-frame. Above
    each panel stand its name and the share of the frame's pixels that agree with the oracle; below them all a legend.
    ``VideoError`` if the file cannot be written; it is renamed into place when complete.
    """
    size = _size(screening, PANEL_WIDTHS)
    capital = capital_height(size[0])
    classes = legend(screening.legend(), COLUMNS * (size[0] + capital) - capital, capital=capital)

    def draw(position: int, image: Image) -> Image:
        drawn = {name: _tinted(screening, name, position, image) for name in screening.shown}
        notes = {"input": _time(screening, position)} | {name: _agrees(screening, name, position) for name in drawn}
        panels = [
            np.concatenate([line(size[0], name, notes[name], capital=capital, bold=True), fitted(picture, size)])
            for name, picture in ({"input": image} | drawn).items()
        ]
        return framed([grid(panels, columns=COLUMNS, gap=capital), classes], gap=capital)

    _write(screening, path, draw)


def adaptive_video(screening: Screening, path: str | os.PathLike[str], schedules: Sequence[str]) -> None:
    """Write the output of the first of ``schedules`` over the picture, and below it the raster of each one's firings.

    As in the paper's supplement, the raster spans the whole clip, with a black bar at each firing of the last stage and a blue
    bar at the current frame. ``VideoError`` if the file cannot be written; it is renamed into place when complete.
    """
    size = _size(screening, PICTURE_WIDTHS)
    capital = capital_height(size[0])
    rasters = {name: Raster(screening.of(name).fired, width=size[0], height=3 * capital) for name in schedules}
    classes = legend(screening.legend(), size[0], capital=capital)

    def draw(position: int, image: Image) -> Image:
        bands = [fitted(_tinted(screening, schedules[0], position, image), size)]
        for name, raster in rasters.items():
            state = "fires" if screening.of(name).fired[position] else "holds"
            bands += [line(size[0], _rate(screening, name), state, capital=capital), raster.draw(position)]
        return framed([*bands, classes], gap=capital)

    _write(screening, path, draw)


def _write(screening: Screening, path: str | os.PathLike[str], draw: Callable[[int, Image], Image]) -> None:
    with suppress(OSError):  # the writer says what is wrong with the folder
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    with OverlayWriter(path, fps=screening.fps) as writer:
        for position, frame in enumerate(screening.frames()):
            writer.append(draw(position, frame.image), screening.times[position])


def _size(screening: Screening, widths: tuple[int, int]) -> Size:
    """Return the size at which pictures are shown: that of the first frame, scaled to a width between ``widths``."""
    height, own = screening.of(ORACLE).labels(0).shape
    wide = min(max(own, widths[0]), widths[1])
    return wide, max(1, round(height * wide / own))


def _tinted(screening: Screening, schedule: str, position: int, image: Image) -> Image:
    return masked(image, screening.of(schedule).labels(position), screening.colours)


def _time(screening: Screening, position: int) -> str:
    seconds = screening.times[position]
    return f"frame {screening.indices[position]}" + ("" if seconds is None else f", {seconds:.2f} s")


def _agrees(screening: Screening, schedule: str, position: int) -> str:
    return "" if schedule == ORACLE else f"agrees {100 * screening.same(schedule, position):.1f} %"


def _rate(screening: Screening, schedule: str) -> str:
    rate = screening.of(schedule).fire_rate
    return schedule if rate is None else f"{schedule} fires on {100 * rate:.0f} % of frames"
