"""The strip below the picture that shows which stages fired."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import cv2
import numpy as np

from clockseg.errors import UsageError
from clockseg.types import Image

_BACK, _NAME, _DIM = (23, 25, 29), (226, 229, 233), (150, 156, 164)
_HELD, _FIRED, _FILL, _NOW = (98, 104, 112), (255, 176, 56), (255, 255, 255), (255, 255, 255)
_FONT = cv2.FONT_HERSHEY_SIMPLEX
# The largest share of the strip that names may take.
_NAMES_SHARE = 0.3


class Strip:
    """A band with a row for each stage and a cell for each frame: solid where the stage fired, hollow where it held.

    The newest frame is the framed column at the right, with its state in words; older ones move left. A fill (a full
    pass with no memory) is a white column joined from top to bottom. ``size`` is that of the picture above, (w, h);
    the strip is as wide, and ``height`` pixels (even) high.

    >>> strip = Strip((320, 240), ["stage 1", "stage 2"])
    >>> strip.draw([True, False], fill=False).shape == (strip.height, 320, 3)
    True
    """

    def __init__(self, size: tuple[int, int], stages: Sequence[str]) -> None:
        if not stages:
            raise UsageError("a strip of no stages. Give the name of at least one stage.")
        self._width, self._stages = max(1, size[0]), len(stages)
        self._row = int(np.clip(self._width / 48, 14, 40)) // 2 * 2
        self._edge = max(4, self._row // 3)
        self.height = self._row * self._stages + 2 * self._edge
        self._pitch = self._row * 5 // 8
        self._back = np.full((self.height, self._width, 3), _BACK, np.uint8)
        self._scale = self._row * 0.026
        self._left = self._names(stages)
        self._right = self._width - self._word_room()
        columns = max(1, (self._right - self._left - self._edge) // self._pitch)
        self._history: deque[tuple[tuple[bool, ...], bool]] = deque(maxlen=columns)

    def draw(self, fired: Sequence[bool], fill: bool) -> Image:
        """Draw the strip after one more frame, uint8 RGB [height, w, 3]; ``fired`` has a bool for each stage, in order."""
        if len(fired) != self._stages:
            raise UsageError(f"fired has {len(fired)} entries for {self._stages} stages. Give one a stage.")
        self._history.append((tuple(map(bool, fired)), fill))
        canvas = self._back.copy()
        for age, (states, filled) in enumerate(reversed(self._history)):
            self._column(canvas, self._right - (age + 1) * self._pitch, states, filled)
        self._now(canvas, fired, fill)
        return canvas

    def _column(self, canvas: Image, x: int, states: tuple[bool, ...], fill: bool) -> None:
        gap, right = self._row // 5, x + self._pitch - 3
        for row, state in enumerate(states):
            top = self._edge + row * self._row + gap
            bottom = top + self._row - 2 * gap - 1
            colour = _FILL if fill else _FIRED if state else _HELD
            cv2.rectangle(canvas, (x, top), (right, bottom), colour, cv2.FILLED if state else 1)
        if fill:
            ends = (x, self._edge + gap), (right, self.height - self._edge - gap - 1)
            cv2.rectangle(canvas, *ends, _FILL, cv2.FILLED)

    def _now(self, canvas: Image, fired: Sequence[bool], fill: bool) -> None:
        x, half = self._right - self._pitch, self._edge // 2
        cv2.rectangle(canvas, (x - 3, half), (self._right, self.height - half - 1), _NOW, 1)
        if self._right == self._width - self._edge:
            return
        for row, state in enumerate(fired):
            word, colour = ("fill", _FILL) if fill else ("fires", _FIRED) if state else ("holds", _DIM)
            self._write(canvas, word, self._right + self._edge, row, colour)

    def _names(self, stages: Sequence[str]) -> int:
        """Write the stages' names at the left if they fit; return where the cells may begin."""
        room = self._edge + max(self._text_width(name) for name in stages) + 2 * self._edge
        if room > _NAMES_SHARE * self._width:
            return self._edge
        for row, name in enumerate(stages):
            self._write(self._back, name, self._edge, row, _NAME)
        return room

    def _word_room(self) -> int:
        """Return the width of the words at the right, or of the edge alone if there is no room for them."""
        room = self._text_width("holds") + 2 * self._edge
        return room if room < 0.2 * self._width else self._edge

    def _text_width(self, text: str) -> int:
        return int(cv2.getTextSize(text, _FONT, self._scale, 1)[0][0])

    def _write(self, canvas: Image, text: str, x: int, row: int, colour: tuple[int, int, int]) -> None:
        baseline = self._edge + row * self._row + round(self._row / 2 + 11 * self._scale)
        cv2.putText(canvas, text, (x, baseline), _FONT, self._scale, colour, 1, cv2.LINE_AA)
