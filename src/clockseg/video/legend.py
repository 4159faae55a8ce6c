"""The band below the picture that says which class has which colour, and how much of the picture it covers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import cv2
import numpy as np

from clockseg.types import Array, Image, Labels
from clockseg.video.band import BACK, TEXT, Lettering

_ROWS = 2
_LEAST = 0.005
"""Classes that cover less are left out."""
_FOLLOW = 0.1
"""How far a share moves towards that of a new frame: numbers that change with every frame can't be read."""
_SAMPLED = 50_000


class Legend:
    """A band with a swatch, the name and the share of each class in the picture, largest first, as many as fit.

    ``size`` is that of the picture above, (w, h); the band is as wide, and ``height`` pixels high. ``names`` and ``palette``
    (RGB) go by class id. Shares are of all pixels, averaged over about the last ten frames; ids without a colour are left out.

    >>> legend = Legend((320, 240), ["road", "sky"], [(128, 64, 128), (70, 130, 180)])
    >>> legend.draw(np.zeros((240, 320), np.uint8)).shape == (legend.height, 320, 3)
    True
    """

    def __init__(self, size: tuple[int, int], names: Sequence[str], palette: Sequence[Sequence[int]]) -> None:
        self._letters = Lettering(size[0])
        self._names, self._palette = tuple(names), np.asarray(palette, np.uint8).reshape(-1, 3)
        self._width, self._shares = max(1, size[0]), np.zeros(256)
        self._known = False
        self.height = self._letters.row * _ROWS + self._letters.edge
        self._drawn: tuple[list[tuple[int, str]], Image] = ([], self._canvas([]))

    def draw(self, labels: Labels) -> Image:
        """Draw the band after one more frame's label map, uint8 [h, w]; uint8 RGB [height, w, 3]."""
        self._see(labels)
        entries = list(self._entries())
        if entries != self._drawn[0]:
            self._drawn = entries, self._canvas(entries)
        return self._drawn[1]

    def _canvas(self, entries: Sequence[tuple[int, str]]) -> Image:
        canvas: Image = np.full((self.height, self._width, 3), BACK, np.uint8)
        row, edge = self._letters.row, self._letters.edge
        x, line, swatch = edge, 0, row - 4
        for label, text in entries:
            wide = swatch + edge + self._letters.width(text) + 2 * edge
            if x + wide > self._width and x > edge:
                x, line = edge, line + 1
            if line == _ROWS:
                break
            top = edge // 2 + line * row + 2
            colour = tuple(map(int, self._palette[label]))
            cv2.rectangle(canvas, (x, top), (x + swatch - 1, top + swatch - 1), colour, cv2.FILLED)
            self._letters.write(canvas, text, x + swatch + edge, edge // 2 + line * row, TEXT)
            x += wide
        return canvas

    def _see(self, labels: Labels) -> None:
        step = max(1, int((labels.size / _SAMPLED) ** 0.5))
        sampled = np.ascontiguousarray(labels[::step, ::step])
        now: Array = cv2.calcHist([sampled], [0], None, [256], [0, 256]).ravel() / max(1, sampled.size)
        self._shares += (now - self._shares) * (_FOLLOW if self._known else 1.0)
        self._known = True

    def _entries(self) -> Iterator[tuple[int, str]]:
        """Yield the ids of the classes to show and what to write, largest first."""
        shares = self._shares[: len(self._palette)]
        for label in np.argsort(-shares, kind="stable"):
            if shares[label] < _LEAST:
                return
            name = self._names[label] if label < len(self._names) else f"class {label}"
            yield int(label), f"{name} {max(1, round(100 * shares[label]))}%"
