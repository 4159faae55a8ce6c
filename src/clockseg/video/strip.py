"""The band below the picture that shows when the network ran: as one bar, or with a row for each stage."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

import cv2
import numpy as np

from clockseg.errors import UsageError
from clockseg.types import Image
from clockseg.video.band import BACK, DIM, TEXT, Lettering

_HELD, _FIRED, _FILL, _NOW = (98, 104, 112), (255, 176, 56), (255, 255, 255), (255, 255, 255)
# The largest share of the band that words may take.
_NAMES_SHARE, _WORDS_SHARE = 0.3, 0.6
_PARTS = 10
"""Shares of frames are told in at most so many parts, such as 3 of 10; smaller ones as 1 of N."""


class Band(Protocol):
    """A band below the picture that shows when the network ran; it is drawn again for each frame."""

    height: int

    def draw(self, fired: Sequence[bool], fill: bool) -> Image:
        """Draw the band after one more frame, uint8 RGB [height, w, 3]."""


class Activity:
    """A bar with a cell for each frame: solid where the whole network ran, partly where some stages did, hollow where none.

    The newest frame is the framed cell at the right; older ones move left. In front of them it says how often the network
    ran, rounded: "network ran: 1 of 6 frames". ``size`` is that of the picture above, (w, h); the band is as wide, and
    ``height`` pixels (even) high.

    >>> bar = Activity((320, 240), stages=2)
    >>> bar.draw([True, False], fill=False).shape == (bar.height, 320, 3)
    True
    """

    def __init__(self, size: tuple[int, int], stages: int) -> None:
        if stages < 1:
            raise UsageError("an activity bar of no stages. Give the number of stages, at least 1.")
        self._letters = Lettering(size[0])
        self._width, self._stages = max(1, size[0]), stages
        self.height = self._letters.row + 2 * self._letters.edge
        self._pitch = self._letters.row * 5 // 8
        edge = self._letters.edge
        room = self._letters.width("network ran: 10 of 10 frames, in part: 10 of 10") + 3 * edge
        self._left = room if room < _WORDS_SHARE * self._width else edge
        self._right = self._width - edge
        self._history: deque[float] = deque(maxlen=max(1, (self._right - self._left) // self._pitch))
        self._frames = self._whole = self._partly = 0
        self._back = np.full((self.height, self._width, 3), BACK, np.uint8)

    def draw(self, fired: Sequence[bool], fill: bool) -> Image:
        """Draw the bar after one more frame, uint8 RGB [height, w, 3]; ``fired`` has a bool for each stage, in order."""
        if len(fired) != self._stages:
            raise UsageError(f"fired has {len(fired)} entries for {self._stages} stages. Give one per stage.")
        share = 1.0 if fill else sum(map(bool, fired)) / self._stages
        self._history.append(share)
        self._frames, self._whole = self._frames + 1, self._whole + (share == 1)
        self._partly += 0 < share < 1
        canvas = self._back.copy()
        for age, part in enumerate(reversed(self._history)):
            self._cell(canvas, self._right - (age + 1) * self._pitch, part)
        half = self._letters.edge // 2
        cv2.rectangle(canvas, (self._right - self._pitch - 3, half), (self._right, self.height - half - 1), _NOW, 1)
        if self._left > self._letters.edge:
            self._letters.write(canvas, self.words, self._letters.edge, self._letters.edge, TEXT)
        return canvas

    @property
    def words(self) -> str:
        """The text of the bar: how often the network ran."""
        told = f"network ran: {often(self._whole, self._frames)} frames"
        if not self._partly:
            return told.replace("every frames", "every frame")
        if not self._whole:
            return f"network ran in part: {often(self._partly, self._frames)} frames".replace(
                "every frames", "every frame"
            )
        return f"{told}, in part: {often(self._partly, self._frames)}"

    def _cell(self, canvas: Image, x: int, share: float) -> None:
        gap, edge = self._letters.row // 5, self._letters.edge
        top, bottom = edge + gap, edge + self._letters.row - gap - 1
        right = x + self._pitch - 3
        cv2.rectangle(canvas, (x, top), (right, bottom), _FIRED if share else _HELD, 1)
        if share:
            high = max(1, round(share * (bottom - top)))
            cv2.rectangle(canvas, (x, bottom - high), (right, bottom), _FIRED, cv2.FILLED)


def often(count: int, frames: int) -> str:
    """Return how many frames of all that is, rounded to at most 10 parts.

    >>> often(42, 250), often(250, 250), often(3, 250), often(2, 3), often(0, 4)
    ('1 of 6', 'every', '1 of 83', '2 of 3', 'none of 4')
    """
    if not count:
        return f"none of {frames}"
    if count == frames:
        return "every"
    share = Fraction(count, frames)
    if 2 * _PARTS * count < frames * 3:
        return f"1 of {round(1 / share)}"
    near = share.limit_denominator(_PARTS)
    near = near if 0 < near < 1 else Fraction(_PARTS - 1, _PARTS)
    return f"{near.numerator} of {near.denominator}"


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
        self._letters = Lettering(size[0])
        self._width, self._stages = max(1, size[0]), len(stages)
        self._row, self._edge = self._letters.row, self._letters.edge
        self.height = self._row * self._stages + 2 * self._edge
        self._pitch = self._row * 5 // 8
        self._back = np.full((self.height, self._width, 3), BACK, np.uint8)
        self._left = self._names(stages)
        self._right = self._width - self._word_room()
        columns = max(1, (self._right - self._left - self._edge) // self._pitch)
        self._history: deque[tuple[tuple[bool, ...], bool]] = deque(maxlen=columns)

    def draw(self, fired: Sequence[bool], fill: bool) -> Image:
        """Draw the strip after one more frame, uint8 RGB [height, w, 3]; ``fired`` has a bool for each stage, in order."""
        if len(fired) != self._stages:
            raise UsageError(f"fired has {len(fired)} entries for {self._stages} stages. Give one per stage.")
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
            word, colour = ("fill", _FILL) if fill else ("fires", _FIRED) if state else ("holds", DIM)
            self._write(canvas, word, self._right + self._edge, row, colour)

    def _names(self, stages: Sequence[str]) -> int:
        """Write the stages' names at the left if they fit; return where the cells may begin."""
        room = self._edge + max(self._letters.width(name) for name in stages) + 2 * self._edge
        if room > _NAMES_SHARE * self._width:
            return self._edge
        for row, name in enumerate(stages):
            self._write(self._back, name, self._edge, row, TEXT)
        return room

    def _word_room(self) -> int:
        """Return the width of the words at the right, or of the edge alone if there is no room for them."""
        room = self._letters.width("holds") + 2 * self._edge
        return room if room < 0.2 * self._width else self._edge

    def _write(self, canvas: Image, text: str, x: int, row: int, colour: tuple[int, int, int]) -> None:
        self._letters.write(canvas, text, x, self._edge + row * self._row, colour)
