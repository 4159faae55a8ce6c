"""Maps of numbers drawn over the picture, as colours from dark to bright."""

from __future__ import annotations

import cv2
import numpy as np

from clockseg.types import Array, Image, Labels
from clockseg.video.draw import overlay

_LOW, _HIGH = 1.0, 99.0
"""Percentiles of a map that get the darkest and the brightest colour."""
_FOLLOW = 0.1
"""How far the ends of the scale move towards a frame's own, so that colours don't flicker with a single bright spot."""
_MOST = 20_000
_COLOURS = cv2.applyColorMap(np.arange(255, dtype=np.uint8)[:, None], cv2.COLORMAP_VIRIDIS)[:, 0, ::-1]


class Heat:
    """Draws the first channel of each map; the scale of colours follows the values slowly.

    >>> Heat()(np.zeros((1, 2, 3), np.uint8), np.array([[0.0, 9.0]])).tolist()
    [[[34, 0, 42], [126, 116, 18]]]
    """

    def __init__(self) -> None:
        self._ends: Array | None = None

    def __call__(self, image: Image, values: Array) -> Image:
        """The picture, uint8 RGB [h, w, 3], tinted by ``values``, float [h, w] or [channels, h, w]; clear where not finite."""
        return overlay(image, self.levels(values if values.ndim == 2 else values[0]), _COLOURS)

    def levels(self, values: Array) -> Labels:
        """Which of the 255 colours each value gets, uint8 [h, w]; 255 where it is no finite number."""
        known = np.isfinite(values)
        self._move(values[known])
        low, high = (0.0, 0.0) if self._ends is None else self._ends
        scaled = (np.where(known, values, low) - low) / max(high - low, 1e-12)
        return np.where(known, np.clip(scaled * 254, 0, 254), 255).astype(np.uint8)

    def _move(self, values: Array) -> None:
        if not values.size:
            return
        now = np.percentile(values[:: max(1, values.size // _MOST)], (_LOW, _HIGH))
        self._ends = now if self._ends is None else self._ends + _FOLLOW * (now - self._ends)
