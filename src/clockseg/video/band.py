"""Sizes, colours and letters of the bands below the picture."""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np

from clockseg.types import Image

BACK, TEXT, DIM = (23, 25, 29), (226, 229, 233), (150, 156, 164)
"""RGB of the bands and of what is written on them."""
_FONT = cv2.FONT_HERSHEY_SIMPLEX


class Lettering:
    """Letters for bands of this width in pixels: ``row`` is the height of a line, ``edge`` of the margin around it.

    >>> Lettering(480).row, Lettering(1920).row
    (14, 40)
    """

    def __init__(self, width: int) -> None:
        self.row = int(np.clip(width / 48, 14, 40)) // 2 * 2
        self.edge = max(4, self.row // 3) // 2 * 2
        self._scale = self.row * 0.026

    def width(self, text: str) -> int:
        """Return the width of a text in pixels."""
        return _width(text, self._scale)

    def write(self, canvas: Image, text: str, x: int, top: int, colour: tuple[int, int, int]) -> None:
        """Write a text into the line that begins at ``top``."""
        baseline = top + round(self.row / 2 + 11 * self._scale)
        cv2.putText(canvas, text, (x, baseline), _FONT, self._scale, colour, 1, cv2.LINE_AA)


@lru_cache(maxsize=1000)
def _width(text: str, scale: float) -> int:
    return int(cv2.getTextSize(text, _FONT, scale, 1)[0][0])
