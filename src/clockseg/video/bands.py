"""The bands below the picture: the legend of the classes, and the bar that shows when the network ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import cv2
import numpy as np

from clockseg.errors import UsageError
from clockseg.types import Array, Image, Labels
from clockseg.video.overlay import Colour

_BACK, _TEXT = (23, 25, 29), (226, 229, 233)
_HELD, _FIRED, _NOW = (98, 104, 112), (255, 176, 56), (255, 255, 255)
_FONT = cv2.FONT_HERSHEY_SIMPLEX
# The largest share of the band that words may take: names of stages, and how often the network ran.
_NAMES_SHARE, _WORDS_SHARE = 0.3, 0.6
_LONGEST = "network ran: 10 of 10 frames, in part: 10 of 10"
_PARTS = 10
"""Shares of frames are told in at most so many parts, such as 3 of 10; smaller ones as 1 of N."""


class _Paper:
    """An empty band as wide as a picture of ``size`` (w, h), and letters for it.

    ``row`` is the height of a line in pixels, ``edge`` that of the margin around it, ``height`` (even) that of ``rows`` lines.
    """

    def __init__(self, size: tuple[int, int], rows: int, edges: int) -> None:
        self.width = max(1, size[0])
        self.row = int(np.clip(size[0] / 48, 14, 40)) // 2 * 2
        self.edge = max(4, self.row // 3) // 2 * 2
        self.height = rows * self.row + edges * self.edge
        self.blank: Image = np.full((self.height, self.width, 3), _BACK, np.uint8)
        self._scale = self.row * 0.026

    def needed(self, text: str) -> int:
        """Return the width of a text in pixels."""
        return int(cv2.getTextSize(text, _FONT, self._scale, 1)[0][0])

    def write(self, canvas: Image, text: str, x: int, top: int, colour: Colour = _TEXT) -> None:
        """Write a text into the line that begins at ``top``."""
        baseline = top + round(self.row / 2 + 11 * self._scale)
        cv2.putText(canvas, text, (x, baseline), _FONT, self._scale, colour, 1, cv2.LINE_AA)


class Bar:
    """A band that shows when the network ran, with a column for each frame: the newest is framed, older ones move left.

    ``size`` is that of the picture above, (w, h); the band is as wide, and ``height`` pixels (even) high. There is one row, or
    with ``per_stage`` one for each of the ``stages`` (their names). A column has a cell in each: solid where the whole network,
    or the stage, fired, partly solid where some stages did, hollow where none; joined from top to bottom for a fill (a full
    pass with no memory). In front of it there is room for a text: the names of the stages, or how often the network ran.
    """

    def __init__(self, size: tuple[int, int], stages: Sequence[str], *, per_stage: bool = False) -> None:
        if not stages:
            raise UsageError("a band of no stages. Give at least one.")
        self._stages, self._names = len(stages), stages if per_stage else ()
        self._rows = max(1, len(self._names))
        self._paper = paper = _Paper(size, self._rows, edges=2)
        self.height = paper.height
        self._pitch = paper.row * 5 // 8
        room = max(map(paper.needed, self._names or [_LONGEST])) + 3 * paper.edge
        self._worded = room < (_NAMES_SHARE if per_stage else _WORDS_SHARE) * paper.width
        self._left, self._right = room if self._worded else paper.edge, paper.width - paper.edge
        # The columns of the frames so far, which move to the left.
        self._past = paper.blank
        self._frames = self._whole = self._partly = 0

    @property
    def words(self) -> str:
        """The share of frames on which the network ran, rounded and in words."""
        whole, partly = (often(count, self._frames) for count in (self._whole, self._partly))
        if not self._partly:
            return f"network ran: {whole}"
        if not self._whole:
            return f"network ran in part: {partly}"
        return f"network ran: {whole}, in part: {partly.removesuffix(' frames')}"

    def draw(self, fired: Sequence[bool], fill: bool) -> Image:
        """Draw the band after one more frame, uint8 RGB [height, w, 3]; ``fired`` has a bool for each stage, in order."""
        if len(fired) != self._stages:
            raise UsageError(f"fired has {len(fired)} entries for {self._stages} stages. Give one per stage.")
        self._frames += 1
        self._whole += fill or all(fired)
        self._partly += not fill and any(fired) and not all(fired)
        pitch, most = self._pitch, max(1, (self._right - self._left) // self._pitch)
        columns = self._past[:, max(0, self._right - most * pitch) : self._right]
        columns[:, :-pitch] = columns[:, pitch:].copy()
        columns[:, -pitch:] = _BACK
        self._column(self._right - pitch, fired if self._names else [sum(fired) / len(fired)], fill)
        canvas, paper = self._past.copy(), self._paper
        newest = (self._right - pitch - 3, paper.edge // 2), (self._right, self.height - paper.edge // 2 - 1)
        cv2.rectangle(canvas, *newest, _NOW, 1)
        for row, text in enumerate(self._names or [self.words] if self._worded else []):
            paper.write(canvas, text, paper.edge, paper.edge + row * paper.row)
        return canvas

    def _column(self, x: int, shares: Sequence[float], fill: bool) -> None:
        """Draw the column of a frame; ``shares``: how much of each row's cell is solid."""
        right, gap = x + self._pitch - 3, self._paper.row // 5
        tops = [self._paper.edge + row * self._paper.row + gap for row in range(self._rows)]
        high = self._paper.row - 2 * gap - 1
        if fill:
            cv2.rectangle(self._past, (x, tops[0]), (right, tops[-1] + high), _FIRED, cv2.FILLED)
            return
        for top, share in zip(tops, shares, strict=True):
            bottom, solid = top + high, max(1, round(share * high))
            cv2.rectangle(self._past, (x, top), (right, bottom), _FIRED if share else _HELD, 1)
            if share:
                cv2.rectangle(self._past, (x, bottom - solid), (right, bottom), _FIRED, cv2.FILLED)


def often(count: int, frames: int) -> str:
    """Return how many frames of all that is, rounded to at most 10 parts, or to 1 of many.

    >>> often(42, 250), often(250, 250), often(3, 250), often(2, 3), often(0, 4)
    ('1 of 6 frames', 'every frame', '1 of 83 frames', '2 of 3 frames', 'none of 4 frames')
    """
    if count in (0, frames):
        return "every frame" if count else f"none of {frames} frames"
    share = Fraction(count, frames)
    if share < Fraction(3, 2 * _PARTS):
        return f"1 of {round(1 / share)} frames"
    near = min(share.limit_denominator(_PARTS), Fraction(_PARTS - 1, _PARTS))
    return f"{near.numerator} of {near.denominator} frames"


_LINES = 2
_LEAST = 0.005
"""Classes that cover less are left out."""
_FOLLOW = 0.1
"""The weight of a new frame in a share: numbers that change with every frame can't be read."""
_SAMPLED = 50_000


class Legend:
    """A band with a swatch, the name and the share of each class in the picture, largest first, as many as fit.

    ``size`` is that of the picture above, (w, h); the band is as wide, and ``height`` pixels high. ``names`` and ``palette``
    (RGB) go by class id. Shares are of all pixels, averaged over about the last ten frames; ids without a colour are left out.
    """

    def __init__(self, size: tuple[int, int], names: Sequence[str], palette: Array | Sequence[Sequence[int]]) -> None:
        self._paper = _Paper(size, _LINES, edges=1)
        self._names, self._palette = tuple(names), np.asarray(palette, np.uint8).reshape(-1, 3)
        self._shares: Array | None = None
        self.height = self._paper.height
        self._drawn: tuple[list[tuple[int, str]], Image] = ([], self._paper.blank)

    def draw(self, labels: Labels, *, fill: bool = False) -> Image:
        """Draw the band after one more frame's label map, uint8 [h, w]; uint8 RGB [height, w, 3].

        ``fill``: True if a shot may begin with it, so that shares of frames before don't count.
        """
        step = max(1, int((labels.size / _SAMPLED) ** 0.5))
        sampled = np.ascontiguousarray(labels[::step, ::step])
        now: Array = cv2.calcHist([sampled], [0], None, [256], [0, 256]).ravel() / max(1, sampled.size)
        known = now if self._shares is None or fill else self._shares
        self._shares = known + (now - known) * _FOLLOW
        entries = list(self._entries(self._shares[: len(self._palette)]))
        if entries != self._drawn[0]:
            self._drawn = entries, self._canvas(entries)
        return self._drawn[1]

    def _canvas(self, entries: Sequence[tuple[int, str]]) -> Image:
        paper = self._paper
        canvas, row, edge = paper.blank.copy(), paper.row, paper.edge
        x, line, swatch = edge, 0, row - 4
        for label, text in entries:
            wide = swatch + edge + paper.needed(text) + 2 * edge
            if x + wide > paper.width and x > edge:
                x, line = edge, line + 1
            if line == _LINES:
                break
            top = edge // 2 + line * row
            colour = tuple(map(int, self._palette[label]))
            cv2.rectangle(canvas, (x, top + 2), (x + swatch - 1, top + swatch + 1), colour, cv2.FILLED)
            paper.write(canvas, text, x + swatch + edge, top)
            x += wide
        return canvas

    def _entries(self, shares: Array) -> Iterator[tuple[int, str]]:
        """Yield the ids of the classes to show and what to write, largest first."""
        for label in np.argsort(-shares, kind="stable"):
            if shares[label] < _LEAST:
                return
            name = self._names[label] if label < len(self._names) else f"class {label}"
            yield int(label), f"{name} {max(1, round(100 * shares[label]))}%"
