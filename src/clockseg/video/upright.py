"""The part of a coded picture that is shown, and its orientation."""

from __future__ import annotations

import gc
import re
from collections.abc import Sequence
from logging import NullHandler, getLogger
from typing import NamedTuple

import av
import numpy as np
from av import VideoStream, logging
from av.container import InputContainer
from av.sidedata.sidedata import SideDataContainer, Type

from clockseg.types import Image, Size

_MOST_BYTES = 256_000_000
# What other threads log while a container is described goes nowhere.
getLogger("libav").addHandler(NullHandler())


class Upright(NamedTuple):
    """The steps from a coded picture to the one that is shown.

    Pixels at its sides are cut off, width and height are swapped, and then it is mirrored and put upside down.
    """

    left: int = 0
    right: int = 0
    top: int = 0
    bottom: int = 0
    swapped: bool = False
    mirrored: bool = False
    flipped: bool = False

    def __call__(self, image: Image) -> Image:
        """Return a picture as it is shown.

        >>> Upright().turned((0, 1, 0, -1, 0, 0, 0, 0, 1))(np.array([[1, 2]], np.uint8)).tolist()  # a quarter turn clockwise
        [[1], [2]]
        """
        height, width = image.shape[:2]
        image = image[self.top : height - self.bottom, self.left : width - self.right]
        image = image.swapaxes(0, 1) if self.swapped else image
        return np.ascontiguousarray(image[:: -1 if self.flipped else 1, :: -1 if self.mirrored else 1])

    def turned(self, matrix: Sequence[int]) -> Upright:
        """Return the same cut in the orientation nearest to a display matrix.

        The matrix (a b u / c d v / x y w) sends a point (x, y) to (ax + cy, bx + dy), y downwards.
        """
        a, b, _, c, d = matrix[:5]
        swapped = abs(b) + abs(c) > abs(a) + abs(d)
        right, down = (c, b) if swapped else (a, d)
        return self._replace(swapped=swapped, mirrored=right < 0, flipped=down < 0)

    def axes(self, size: Size) -> tuple[float, ...]:
        """Return the affine map from the picture that is shown to the coded one of ``size`` (w, h): see ``Vectors``.

        >>> Upright(swapped=True, mirrored=True).axes((4, 2))  # a quarter turn clockwise: the right edge, x = 2, was the top
        (0, 1, 0, -1, 0, 2)
        """
        leftwards, upwards = (self.flipped, self.mirrored) if self.swapped else (self.mirrored, self.flipped)
        x, at_x = (-1, size[0] - self.right) if leftwards else (1, self.left)
        y, at_y = (-1, size[1] - self.bottom) if upwards else (1, self.top)
        return (0, x, at_x, y, 0, at_y) if self.swapped else (x, 0, at_x, 0, y, at_y)


AS_STORED = Upright()
# Matrices of 0, 1, 2, 3 quarter turns counter-clockwise.
_QUARTERS = ((1, 0, 0, 0, 1), (0, -1, 0, 1, 0), (-1, 0, 0, 0, -1), (0, 1, 0, -1, 0))


def crop_of(container: InputContainer, stream: VideoStream) -> Upright:
    """Return how the container crops a stream (Matroska's PixelCrop, the clap box of MP4), besides what its codec crops.

    PyAV shows the side data of streams only in the description of the container.
    """
    if not container.format.name.startswith(("matroska", "mov,")):
        return AS_STORED
    level = logging.get_level()
    logging.set_level(logging.INFO)
    try:
        described = container.dumps_format()  # type: ignore[attr-defined]  # the stub doesn't know it
    finally:
        logging.set_level(level)
    of_stream = rf"\n  Stream #0:{stream.index}\b(?:(?!\n  Stream #).)*?Frame Cropping: (\d+)/(\d+)/(\d+)/(\d+)"
    found = re.search(of_stream, described, re.IGNORECASE | re.DOTALL)
    if found is None:
        return AS_STORED
    left, right, top, bottom = map(int, found.groups())
    return Upright(left, right, top, bottom)


class SideData:
    """Reads the side data of pictures without keeping the pictures in memory.

    A picture that PyAV 18 was asked for its side data refers to itself, and stays until Python's collector comes by, which may
    be after hundreds; here it is called once such pictures hold 256 MB.
    """

    def __init__(self) -> None:
        self._bytes = 0

    def of(self, picture: av.VideoFrame) -> SideDataContainer | None:
        """Return all side data; None if some is of a kind that this PyAV does not know, such as EXIF: PyAV then shows none of it."""
        self._bytes += 2 * picture.width * picture.height
        if self._bytes > _MOST_BYTES:
            self._bytes = 0
            gc.collect()
        try:
            found: SideDataContainer = picture.side_data
        except ValueError:
            return None
        return found

    def upright(self, picture: av.VideoFrame, crop: Upright) -> Upright:
        """Return how a picture is shown; it is not cropped where nothing would be left."""
        left = picture.width - crop.left - crop.right, picture.height - crop.top - crop.bottom
        crop = crop if min(left) > 0 else AS_STORED
        listed = self.of(picture)
        if listed is None:
            return crop.turned(_QUARTERS[round(picture.rotation / 90) % 4])
        data = listed.get(Type.DISPLAYMATRIX)
        return crop if data is None else crop.turned(np.frombuffer(bytes(data), dtype=np.int32).tolist())
