"""Label maps for a browser, which cannot decode FFV1: scaled down, some of them, each as what changed since the one before."""

from __future__ import annotations

from typing import Any, NamedTuple

import cv2
import numpy as np

from clockseg.report.packed import deflated
from clockseg.types import Array, Labels, Size

PIXELS = 200_000_000
"""Of all maps of a run together, before they are deflated; where that is too little, they get smaller, then fewer."""
NUMBERS_PIXELS = 50_000_000
"""The same for maps of numbers, which deflate badly."""
_SIDES = (640, 480, 320)
"""Of a map, its longer one."""
_CHUNK = 24
"""Maps that are deflated together, the first of them whole: what a browser takes apart to show one."""


class Grid(NamedTuple):
    """Resolution in space and time at which maps are stored: their size, and every ``every``-th of them."""

    size: Size
    every: int

    def scaled(self, labels: Labels) -> Labels:
        """A map at this size, by nearest neighbour."""
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
    """The maps of a run, taken frame by frame.

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
        """Takes the next frame's map, uint8 [h, w], and keeps it if it is one of those to be kept."""
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
        """The last map that was kept; ``default`` before the first."""
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
