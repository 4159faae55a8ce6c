"""Parts of a figure around its pictures: text, rasters of firings, a legend. uint8 RGB on white."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from clockseg.errors import UsageError
from clockseg.report.style import FIRED, INK, MUTED, NOW, RULE
from clockseg.types import Image, Labels
from clockseg.video.bands import text_width
from clockseg.video.overlay import Colour, overlay

_REGULAR, _BOLD = cv2.FONT_HERSHEY_SIMPLEX, cv2.FONT_HERSHEY_DUPLEX
# Height in pixels of a capital letter of these fonts at scale 1.
_CAPITAL = 21
_WHITE = 255
_OPACITY = 0.55
# The share of its contrast that a picture in pale grey keeps.
_PALE = 0.45


def rgb(colour: str) -> Colour:
    """Convert a colour of the figures' style to RGB, 0..255."""
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red, green, blue


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


def capital_height(width: int) -> int:
    """Return the height in pixels of a capital letter next to pictures ``width`` pixels wide."""
    return int(np.clip(width // 44, 9, 22))


def blank(width: int, height: int) -> Image:
    """Return a white picture, uint8 RGB [height, width, 3]."""
    return np.full((height, width, 3), _WHITE, np.uint8)


def line(width: int, left: str, right: str = "", *, capital: int, bold: bool = False) -> Image:
    """Draw a line of text, three ``capital`` letters high: ``left`` (scaled down to fit), and ``right`` if there is room."""
    drawn = blank(width, 3 * capital)
    scale = capital / _CAPITAL
    font = _BOLD if bold else _REGULAR
    needed = text_width(left, scale, font)
    _write(drawn, left, 0, font, scale * min(1.0, width / max(needed, 1)), INK)
    room = text_width(right, scale)
    if right and needed + 2 * capital + room <= width:
        _write(drawn, right, width - room, _REGULAR, scale, MUTED)
    return drawn


def _write(canvas: Image, text: str, x: int, font: int, scale: float, colour: str) -> None:
    """Write on a canvas of one line, with capitals in the middle of its height."""
    baseline = round((canvas.shape[0] + _CAPITAL * scale) / 2)
    cv2.putText(canvas, text, (x, baseline), font, scale, rgb(colour), 1, cv2.LINE_AA)


class Raster:
    """The firings of a whole clip as black bars, with the current frame in blue.

    Frame k of n covers the columns ``span(k)`` of ``width`` pixels. Black bars fill the middle; a blue bar goes from top to
    bottom and is at least 3 pixels wide. If several frames share a pixel, its darkness is their share of firings.

    >>> raster = Raster([True, False], width=20, height=8)
    >>> raster.draw(1)[4, ::5, 0].tolist()
    [0, 0, 31, 31]
    """

    def __init__(self, fired: Sequence[bool], *, width: int, height: int) -> None:
        if not len(fired) or width < 1 or height < 1:
            raise UsageError(f"a raster of {len(fired)} frames in {width}x{height}; give a frame and a pixel at least.")
        self.width, self.height, self._count = width, height, len(fired)
        self.inside = slice(height // 6, height - height // 6)
        self._back = blank(width, height)
        self._back[self.inside] = _bars(np.asarray(fired, bool), width)

    def span(self, frame: int) -> slice:
        """Return the columns of frame ``frame``."""
        start, end = (edge * self.width // self._count for edge in (frame, frame + 1))
        return slice(min(start, self.width - 1), max(end, start + 1))

    def draw(self, now: int) -> Image:
        """Return the raster while frame ``now`` is shown, uint8 RGB [height, width, 3]."""
        if not 0 <= now < self._count:
            raise UsageError(f"frame {now} of a raster of {self._count}; give 0 to {self._count - 1}.")
        drawn, span = self._back.copy(), self.span(now)
        start = min(span.start, max(0, self.width - 3))
        drawn[:, start : max(span.stop, start + 3)] = rgb(NOW)
        return drawn

    def marked(self, frames: Sequence[int]) -> Image:
        """Return the raster with a blue mark above each of ``frames``, uint8 RGB [height, width, 3]."""
        drawn = self._back.copy()
        for span in map(self.span, frames):
            start = min(span.start, max(0, self.width - 3))
            drawn[: self.inside.start, start : max(span.stop, start + 3)] = rgb(NOW)
        return drawn


def _bars(fired: np.ndarray, width: int) -> Image:
    """Return one row of pixels, [1, width, 3]; bars that are wide enough have a gap of one pixel."""
    edges = np.arange(len(fired) + 1) * width // len(fired)
    if len(fired) > width:
        total = np.concatenate([[0], np.cumsum(fired)])
        ends = np.arange(width + 1) * len(fired) // width
        share = np.diff(total[ends]) / np.diff(ends)
    else:
        share = np.repeat(fired, np.diff(edges)).astype(float)
        gaps = edges[1:-1][np.diff(edges)[:-1] >= 4] - 1
        share[gaps] = 0
    track, black = np.array(rgb(RULE)), np.array(rgb(FIRED))
    return np.asarray(np.rint(track + share[None, :, None] * (black - track)), dtype=np.uint8)


def legend(entries: Sequence[tuple[str, Colour]], width: int, *, capital: int) -> Image:
    """Draw the names of classes, each after a patch of its colour, on as many lines as needed; empty without entries."""
    scale = capital / _CAPITAL
    lines, x = [blank(width, 0)], width
    for name, colour in entries:
        needed = round(1.7 * capital) + text_width(name, scale)
        if x + needed > width:
            lines.append(blank(width, 3 * capital))
            x = 0
        cv2.rectangle(lines[-1], (x, capital), (x + capital, 2 * capital), colour, cv2.FILLED)
        _write(lines[-1], name, x + round(1.7 * capital), _REGULAR, scale, INK)
        x += needed + 2 * capital
    return np.concatenate(lines)


def grid(cells: Sequence[Image], *, columns: int, gap: int) -> Image:
    """Arrange cells of one size row by row, with ``gap`` white pixels between them."""
    height, width = cells[0].shape[:2]
    rows = -(-len(cells) // columns)
    drawn = blank(columns * (width + gap) - gap, rows * (height + gap) - gap)
    for index, cell in enumerate(cells):
        top, left = index // columns * (height + gap), index % columns * (width + gap)
        drawn[top : top + height, left : left + width] = cell
    return drawn


def framed(bands: Sequence[Image], *, gap: int) -> Image:
    """Stack bands of one width, with a white edge of ``gap`` pixels."""
    return np.pad(np.concatenate(bands), ((gap, gap), (gap, gap), (0, 0)), constant_values=_WHITE)
