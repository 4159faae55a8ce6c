"""Which way up a picture is meant to be shown."""

from __future__ import annotations

import av
import numpy as np
from av.sidedata.sidedata import Type

from clockseg.types import Image
from clockseg.video._side_data import Beside

# The first two numbers of the matrix for 0, 1, 2, 3 quarter turns counter-clockwise.
_QUARTERS = ((1, 0), (0, -1), (-1, 0), (0, 1))


def display_matrix(picture: av.VideoFrame, beside: Beside) -> tuple[int, ...] | None:
    """The nine numbers of the picture's display matrix, or None."""
    if not beside.listed(picture):
        a, b = _QUARTERS[round(picture.rotation / 90) % 4]
        return a, b, 0, -b, a, 0, 0, 0, 1
    data = beside.get(picture, Type.DISPLAYMATRIX)
    return None if data is None else tuple(np.frombuffer(bytes(data), dtype=np.int32).tolist())


def turned(matrix: tuple[int, ...] | None) -> bool:
    """Whether a display matrix swaps width and height.

    >>> turned((0, 1, 0, -1, 0, 0, 0, 0, 1))
    True
    """
    if matrix is None:
        return False
    a, b, _, c, d = matrix[:5]
    return abs(b) + abs(c) > abs(a) + abs(d)


def upright(image: Image, matrix: tuple[int, ...] | None) -> Image:
    """Turns and mirrors ``image`` as its display matrix says, to the nearest quarter turn.

    The matrix (a b u / c d v / x y w) sends a point (x, y) to (ax + cy, bx + dy), y downwards: its signs tell which of
    the eight orientations it is.

    >>> upright(np.array([[1, 2]], np.uint8), (0, 1, 0, -1, 0, 0, 0, 0, 1)).tolist()  # a quarter turn clockwise
    [[1], [2]]
    """
    if matrix is None:
        return np.ascontiguousarray(image)
    a, b, _, c, d = matrix[:5]
    right, down = a, d
    if turned(matrix):
        image = image.swapaxes(0, 1)
        right, down = c, b
    image = image[:: -1 if down < 0 else 1, :: -1 if right < 0 else 1]
    return np.ascontiguousarray(image)
