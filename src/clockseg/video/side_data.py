"""Side data of pictures, and the orientation in which they are shown."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Sequence
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


class SideDataReader:
    """Reads the side data of pictures without keeping the pictures in memory.

    A picture that PyAV was asked for its side data refers to itself, and stays until Python's collector comes by, which may
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


class Crop(NamedTuple):
    """The pixels at each side of a coded picture that are not shown."""

    left: int = 0
    right: int = 0
    top: int = 0
    bottom: int = 0

    def within(self, size: Size) -> Crop:
        """Return the crop of a picture of ``size`` (w, h): none if nothing would be left."""
        left = (size[0] - self.left - self.right, size[1] - self.top - self.bottom)
        return self if min(left) > 0 else NO_CROP

    def __call__(self, image: Image) -> Image:
        """Return the part of ``image`` that is shown."""
        height, width = image.shape[:2]
        left, right, top, bottom = self.within((width, height))
        return image[top : height - bottom, left : width - right]


NO_CROP = Crop()


def crop_of(container: InputContainer, stream: VideoStream) -> Crop:
    """Return how the container crops a stream (Matroska's PixelCrop, the clap box of MP4), besides what its codec crops.

    PyAV shows the side data of streams only in the description of the container.
    """
    describe: Callable[[], str] | None = getattr(container, "dumps_format", None)
    if describe is None or not container.format.name.startswith(("matroska", "mov,")):
        return NO_CROP
    level = logging.get_level()
    logging.set_level(logging.INFO)
    try:
        described = describe()
    finally:
        logging.set_level(level)
    of_stream = re.split(r"\n  Stream #0:(\d+)", described)
    texts = dict(zip(of_stream[1::2], of_stream[2::2], strict=True))
    found = re.search(r"Frame Cropping: (\d+)/(\d+)/(\d+)/(\d+)", texts.get(str(stream.index), ""), re.IGNORECASE)
    return Crop(*map(int, found.groups())) if found else NO_CROP


class Turn(NamedTuple):
    """The orientation in which a picture is shown: width and height swapped, and then mirrored and put upside down."""

    swapped: bool = False
    mirrored: bool = False
    flipped: bool = False

    def __call__(self, image: Image) -> Image:
        """Return a picture as it is shown.

        >>> Turn.of((0, 1, 0, -1, 0, 0, 0, 0, 1))(np.array([[1, 2]], np.uint8)).tolist()  # a quarter turn clockwise
        [[1], [2]]
        """
        image = image.swapaxes(0, 1) if self.swapped else image
        return np.ascontiguousarray(image[:: -1 if self.flipped else 1, :: -1 if self.mirrored else 1])

    @classmethod
    def of(cls, matrix: Sequence[int]) -> Turn:
        """Return the orientation nearest to a display matrix.

        The matrix (a b u / c d v / x y w) sends a point (x, y) to (ax + cy, bx + dy), y downwards.
        """
        a, b, _, c, d = matrix[:5]
        swapped = abs(b) + abs(c) > abs(a) + abs(d)
        right, down = (c, b) if swapped else (a, d)
        return cls(swapped, right < 0, down < 0)


UPRIGHT = Turn()
# For 0, 1, 2, 3 quarter turns counter-clockwise.
_QUARTERS = (UPRIGHT, Turn(True, False, True), Turn(False, True, True), Turn(True, True, False))


def turn_of(picture: av.VideoFrame, reader: SideDataReader) -> Turn:
    """Return the orientation in which a picture is to be shown."""
    listed = reader.of(picture)
    if listed is None:
        return _QUARTERS[round(picture.rotation / 90) % 4]
    data = listed.get(Type.DISPLAYMATRIX)
    return UPRIGHT if data is None else Turn.of(np.frombuffer(bytes(data), dtype=np.int32).tolist())
