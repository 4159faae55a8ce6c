"""Windows of a frame that hold what is to be computed anew: a few shapes, inside the frame, at multiples of a step."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations
from typing import NamedTuple

import numpy as np

from clockseg._opencv import opencv
from clockseg._types import Array, Size

MOST = 12
"""Boxes that are looked at in pairs; of more, places are taken together first."""
PER_WINDOW = 0.01
"""What a window costs beside its area, in frames: calls, copies, and layers too small for all cores."""


class Box(NamedTuple):
    """Pixels ``left`` up to before ``right``, ``top`` up to before ``bottom``."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def width(self) -> int:
        """Its pixels across."""
        return self.right - self.left

    @property
    def height(self) -> int:
        """Its pixels down."""
        return self.bottom - self.top

    @property
    def area(self) -> int:
        """Its pixels."""
        return self.width * self.height

    def around(self, other: Box) -> Box:
        """The smallest box that holds both.

        >>> Box(0, 0, 2, 2).around(Box(4, 1, 5, 3))
        Box(left=0, top=0, right=5, bottom=3)
        """
        return Box(
            min(self.left, other.left),
            min(self.top, other.top),
            max(self.right, other.right),
            max(self.bottom, other.bottom),
        )

    def grown(self, pixels: int, size: Size) -> Box:
        """With so many pixels on each side, inside a frame of ``size`` (WIDTH, HEIGHT)."""
        return Box(
            max(0, self.left - pixels),
            max(0, self.top - pixels),
            min(size[0], self.right + pixels),
            min(size[1], self.bottom + pixels),
        )

    def over(self, stride: int) -> Box:
        """The same box in cells of ``stride`` pixels, of which it is made."""
        return Box(*(side // stride for side in self))


class Window(NamedTuple):
    """What is computed, ``outer``, and what of it is as good as computed with the whole frame, ``inner``."""

    outer: Box
    inner: Box


class Shape(NamedTuple):
    """Of a window, in pixels."""

    width: int
    height: int


def shapes(size: Size, step: int) -> tuple[Shape, ...]:
    """The shapes of windows in a frame of ``size`` (WIDTH, HEIGHT), the smallest first, but for the frame itself.

    A fifth or a third of the width, a third, half or all of the height, and half of the frame: few, since an engine
    compiles for each, and chosen on people and cars before a fixed camera. Sides are multiples of ``step``.

    >>> [tuple(shape) for shape in shapes((480, 288), 32)]
    [(96, 96), (96, 160), (160, 96), (160, 160), (96, 288), (160, 288), (256, 288)]
    """
    width, height = size
    across, down = ({_up(side / n, step) for n in parts} for side, parts in ((width, (5, 3)), (height, (3, 2, 1))))
    pairs = {(w, h) for w in across for h in down} | {(_up(width / 2, step), height)}
    found = {Shape(min(w, width), min(h, height)) for w, h in pairs}
    return tuple(sorted(found - {Shape(width, height)}, key=lambda shape: (shape.width * shape.height, shape)))


def windows(mask: Array, size: Size, *, step: int, halo: int, spread: int = 0) -> tuple[Window, ...] | None:
    """Windows in whose inner boxes every place of ``mask`` lies, with ``spread`` pixels around it.

    ``mask``: bool [rows, columns], places that lie evenly over the frame of ``size`` (WIDTH, HEIGHT), which is a multiple
    of ``step``, as the windows' borders are. ``halo``: pixels between an inner and an outer border, rounded up to a
    multiple of ``step``; none at the frame's own border. None: the whole frame costs no more.

    >>> mask = np.zeros((9, 15), bool)
    >>> mask[4, 7] = True
    >>> [tuple(box) for box in windows(mask, (480, 288), step=32, halo=32)[0]]
    [(192, 96, 288, 192), (224, 128, 256, 160)]
    """
    fitting = _Fitting(size, step, _up(halo, step), shapes(size, step))
    boxes = (box.grown(spread, size) for box in _boxes(mask, size))
    chosen = fitting.merged([fitting.chosen(box) for box in boxes])
    if sum(one.cost for one in chosen) >= 1:
        return None
    return tuple(fitting.placed(one) for one in chosen)


def share(found: Iterable[Window], size: Size) -> float:
    """The area that is computed, in frames."""
    return sum(window.outer.area for window in found) / (size[0] * size[1])


class _Chosen(NamedTuple):
    """A box that is to be computed anew, the shape of the window for it, and what that costs, in frames."""

    box: Box
    shape: Shape
    cost: float


class _Fitting(NamedTuple):
    """Finds windows in a frame of ``size``, of the shapes ``given``; ``halo`` is a multiple of ``step``."""

    size: Size
    step: int
    halo: int
    given: tuple[Shape, ...]

    def chosen(self, box: Box) -> _Chosen:
        """The smallest shape for ``box``; the whole frame where none holds it."""
        outer, (width, height) = self._outer(box), self.size
        fits = (one for one in self.given if one.width >= outer.width and one.height >= outer.height)
        shape = next(fits, Shape(width, height))
        return _Chosen(box, shape, shape.width * shape.height / (width * height) + PER_WINDOW)

    def merged(self, found: list[_Chosen]) -> list[_Chosen]:
        """Boxes joined while that makes them cheaper."""
        while len(found) > 1:
            pairs = [(self.chosen(a.box.around(b.box)), a, b) for a, b in combinations(found, 2)]
            one, a, b = min(pairs, key=lambda pair: pair[0].cost - pair[1].cost - pair[2].cost)
            if one.cost > a.cost + b.cost:
                break
            found = [other for other in found if other is not a and other is not b] + [one]
        return found

    def placed(self, one: _Chosen) -> Window:
        """The window around the middle of the box, shifted to lie in the frame."""
        outer, (width, height) = self._outer(one.box), self.size
        left = self._start((outer.left + outer.right - one.shape.width) // 2, width - one.shape.width)
        top = self._start((outer.top + outer.bottom - one.shape.height) // 2, height - one.shape.height)
        placed = Box(left, top, left + one.shape.width, top + one.shape.height)
        return Window(placed, self._inner(placed))

    def _outer(self, box: Box) -> Box:
        """``box`` with its halo, up to the frame's border."""
        step, halo, (width, height) = self.step, self.halo, self.size
        left, top = (max(0, side // step * step - halo) for side in (box.left, box.top))
        return Box(left, top, min(width, _up(box.right, step) + halo), min(height, _up(box.bottom, step) + halo))

    def _inner(self, outer: Box) -> Box:
        """What is left of a window without the halo; none is needed where the window ends with the frame."""
        (width, height), halo = self.size, self.halo
        return Box(
            outer.left + halo if outer.left else 0,
            outer.top + halo if outer.top else 0,
            outer.right - halo if outer.right < width else width,
            outer.bottom - halo if outer.bottom < height else height,
        )

    def _start(self, wanted: int, last: int) -> int:
        """``wanted`` at a multiple of the step, from 0 to ``last``, which is one."""
        return min(max(0, wanted // self.step * self.step), last)


def _boxes(mask: Array, size: Size) -> list[Box]:
    """Around each set of places of ``mask`` that touch."""
    grid = np.asarray(mask, np.uint8)
    count, _, stats, _ = opencv().connectedComponentsWithStats(grid, connectivity=8)
    if count > MOST + 1 and min(grid.shape) > 1:
        return _boxes(_coarser(grid), size)
    across, down = size[0] / grid.shape[1], size[1] / grid.shape[0]
    return [
        Box(math.floor(x * across), math.floor(y * down), math.ceil((x + w) * across), math.ceil((y + h) * down))
        for x, y, w, h, _ in stats[1:].tolist()
    ]


def _coarser(grid: Array) -> Array:
    """Places of twice the size, where any of the four was."""
    even = np.pad(grid, [(0, side % 2) for side in grid.shape])
    return np.asarray(even.reshape(even.shape[0] // 2, 2, even.shape[1] // 2, 2).max((1, 3)))


def _up(length: float, step: int) -> int:
    return -(-math.ceil(length) // step) * step
