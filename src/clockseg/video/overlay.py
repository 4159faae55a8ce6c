"""Drawing over a picture: masks and maps of numbers; and below it: the legend of the classes, and the bar of firings."""

from __future__ import annotations

import colorsys
from collections.abc import Iterator, Sequence
from fractions import Fraction

import cv2
import numpy as np
import numpy.typing as npt

from clockseg.errors import UsageError
from clockseg.types import Array, Image, Labels

Colour = tuple[int, int, int]


def palette(classes: int) -> tuple[Colour, ...]:
    """Return well separated RGB colours, always the same for a class id.

    >>> palette(2)
    ((214, 81, 81), (81, 120, 214))
    """
    golden = 0.6180339887
    hues = ((golden * k) % 1 for k in range(classes))
    return tuple(
        (round(255 * r), round(255 * g), round(255 * b))
        for r, g, b in (colorsys.hsv_to_rgb(hue, 0.62, 0.84) for hue in hues)
    )


def colours_of(own: Sequence[Sequence[int]], classes: int = 0) -> Sequence[Sequence[int]]:
    """Return a network's ``own`` colours; if it has none, those of ``palette`` for so many ``classes``, or for all ids if 0."""
    return own or palette(classes or 255)


Palette = npt.NDArray[np.uint8] | Sequence[Sequence[int]]


def overlay(image: Image, labels: Labels, palette: Palette, *, opacity: float = 0.5) -> Image:
    """Tint a picture, uint8 RGB [h, w, 3], by class; ``labels`` is uint8 [h, w], ``palette`` [classes, 3] RGB.

    Pixels of no class (255, or any id beyond the palette) are left clear. UsageError if the sizes differ.
    """
    colours = np.asarray(palette, dtype=np.uint8).reshape(-1, 3)[:255]
    if image.shape[:2] != labels.shape:
        raise UsageError(f"the picture is {image.shape[:2]}, the labels are {labels.shape} (h, w). Give one size.")
    return np.asarray(tinted(image, labels, colours, opacity=opacity), dtype=np.uint8)


def tinted(picture: Array, labels: Labels, colours: Array, *, opacity: float = 0.5, out: Array | None = None) -> Array:
    """Blend a picture, or a plane of one, with the colours of its labels, into ``out`` if given.

    ``colours``: of at most 255 ids, or their values in that plane, uint8 [classes, channels]; other ids are left clear.
    """
    table = np.zeros((256, 1, colours.shape[1]), np.uint8)
    table[: len(colours), 0] = colours
    # For a plane, half the time of applyColorMap.
    coloured = (cv2.LUT if picture.ndim == 2 else cv2.applyColorMap)(labels, table)
    blend = cv2.addWeighted(picture, 1 - opacity, coloured, opacity, 0, dst=out)
    if int(labels.max(initial=0)) >= len(colours):
        cv2.copyTo(picture, cv2.compare(labels, float(len(colours)), cv2.CMP_GE), blend)
    return np.asarray(blend)


ENDS = (1.0, 99.0)
"""Percentiles of a map that are drawn in the darkest and the brightest colour."""
_FOLLOW = 0.1
"""The weight of a new frame in the ends of the scale: colours must not flicker with a single bright spot."""
SAMPLED = 20_000
"""About how many numbers of a map the percentiles are taken from."""
HEAT_COLOURS: Array = cv2.applyColorMap(np.arange(255, dtype=np.uint8)[:, None], cv2.COLORMAP_VIRIDIS)[:, 0, ::-1]
"""RGB of the numbers of ``Heat.levels``."""


class Heat:
    """Draws the first channel of each map. ``scale``: the numbers for the darkest and the brightest colour.

    Without one, the scale follows the values slowly.
    """

    def __init__(self, scale: tuple[float, float] | None = None) -> None:
        self._fixed = scale is not None
        self._ends: Array | None = None if scale is None else np.array(scale, np.float64)

    def __call__(self, image: Image, values: Array) -> Image:
        """Tint a picture, uint8 RGB [h, w, 3], by ``values``, float [h, w] or [channels, h, w]; clear where they are not finite."""
        return overlay(image, self.levels(values), HEAT_COLOURS)

    def levels(self, values: Array) -> Labels:
        """Return the number of the colour of each value, uint8 [h, w], 0 to 254; 255 where it is not finite."""
        values = values if values.ndim == 2 else values[0]
        known = np.isfinite(values)
        self._move(values[known])
        low, high = (0.0, 0.0) if self._ends is None else self._ends
        scaled = (np.where(known, values, low) - low) / max(high - low, 1e-12)
        return np.where(known, np.clip(scaled * 254, 0, 254), 255).astype(np.uint8)

    def _move(self, values: Array) -> None:
        if self._fixed or not values.size:
            return
        now = np.percentile(values[:: max(1, values.size // SAMPLED)], ENDS)
        self._ends = now if self._ends is None else self._ends + _FOLLOW * (now - self._ends)


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
_SHARES_FOLLOW = 0.1
"""The weight of a new frame in a share: numbers that change with every frame can't be read."""
_LEGEND_SAMPLED = 50_000


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
        step = max(1, int((labels.size / _LEGEND_SAMPLED) ** 0.5))
        sampled = np.ascontiguousarray(labels[::step, ::step])
        now: Array = cv2.calcHist([sampled], [0], None, [256], [0, 256]).ravel() / max(1, sampled.size)
        known = now if self._shares is None or fill else self._shares
        self._shares = known + (now - known) * _SHARES_FOLLOW
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
