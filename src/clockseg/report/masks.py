"""Label maps for a browser, which cannot decode FFV1: scaled down, thinned out, and stored as differences."""

from __future__ import annotations

from typing import Any, NamedTuple

import cv2
import numpy as np

from clockseg.report.packed import deflated
from clockseg.types import Array, Labels, Size

PIXELS = 200_000_000
"""The most pixels of all maps of a run before compression; beyond that, maps get smaller, then fewer."""
NUMBERS_PIXELS = 50_000_000
"""The same for maps of numbers, which compress badly."""
_SIDES = (640, 480, 320)
"""Possible longer sides of a map."""
_CHUNK = 24
"""Maps that are compressed together, the first of them complete: what a browser unpacks to show one."""


class Grid(NamedTuple):
    """Resolution in space and time at which maps are stored: their size, and every ``every``-th of them."""

    size: Size
    every: int

    def scaled(self, labels: Labels) -> Labels:
        """Scale a map to this size, by nearest neighbour."""
        if labels.shape == self.size[::-1]:
            return labels
        return np.asarray(cv2.resize(labels, self.size, interpolation=cv2.INTER_NEAREST_EXACT), np.uint8)


def grid(size: Size, frames: int, pixels: int = PIXELS) -> Grid:
    """Choose the grid that stores ``frames`` maps of ``size`` (w, h) in at most ``pixels``.

    >>> grid((1280, 720), 100), grid((1280, 720), 45_000)
    (Grid(size=(640, 360), every=1), Grid(size=(320, 180), every=13))
    """
    sizes = [_fitted(size, side) for side in _SIDES]
    small = next((one for one in sizes if one[0] * one[1] * frames <= pixels), sizes[-1])
    return Grid(small, max(1, -(-small[0] * small[1] * frames // pixels)))


def _fitted(size: Size, side: int) -> Size:
    scale = min(1.0, side / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


class Masks:
    """The maps of a run, added frame by frame.

    >>> masks = Masks(Grid((2, 1), every=2))
    >>> for k in range(5):
    ...     masks.append(np.full((1, 2), k, np.uint8))
    >>> masks.facts()["kept"]
    3
    """

    def __init__(self, kept: Grid) -> None:
        self.grid = kept
        self._chunks: list[str] = []
        self._open: list[Array] = []
        self._last: Array | None = None
        self._kept = 0
        self.frames = 0

    def append(self, labels: Labels) -> None:
        """Add the map of the next frame, uint8 [h, w], and keep it if the grid selects it."""
        self.frames += 1
        if (self.frames - 1) % self.grid.every:
            return
        small = self.grid.scaled(labels)
        self._open.append(small if not self._open or self._last is None else small ^ self._last)
        self._last = small
        self._kept += 1
        if len(self._open) == _CHUNK:
            self._close()

    def last(self, default: Labels) -> Labels:
        """Return the last map that was kept; ``default`` before the first."""
        return default if self._last is None else self._last

    def _close(self) -> None:
        if self._open:
            self._chunks.append(deflated(np.stack(self._open).tobytes()))
            self._open = []

    def facts(self) -> dict[str, Any]:
        """As plain values, for the page."""
        self._close()
        width, height = self.grid.size
        return {
            "width": width,
            "height": height,
            "every": self.grid.every,
            "kept": self._kept,
            "chunk": _CHUNK,
            "chunks": self._chunks,
        }
