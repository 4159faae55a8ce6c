"""From a decoded picture in any pixel format to upright RGB."""

from __future__ import annotations

import av
import numpy as np
from av.sidedata.sidedata import Type
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter

from clockseg._errors import VideoError
from clockseg._types import Image

# What a stream says of its matrix (ITU-T H.273 numbers) -> the swscale matrix of the same coefficients.
_MATRICES = {
    1: Colorspace.ITU709,
    4: Colorspace.FCC,
    5: Colorspace.ITU601,
    6: Colorspace.ITU601,
    7: Colorspace.SMPTE240M,
    9: Colorspace.BT2020,
    10: Colorspace.BT2020,
}
HD_HEIGHT = 720
# The first two numbers of the matrix for 0, 1, 2, 3 quarter turns counter-clockwise.
_QUARTERS = ((1, 0), (0, -1), (-1, 0), (0, 1))


def matrix_for(height: int) -> Colorspace:
    """The matrix of a picture that doesn't say: BT.709 from 720 lines up, BT.601 below, as players take it.

    >>> matrix_for(1080).name, matrix_for(480) == Colorspace.ITU601
    ('ITU709', True)
    """
    return Colorspace.ITU709 if height >= HD_HEIGHT else Colorspace.ITU601


class ToRGB:
    """Converts pictures to upright uint8 RGB [h, w, 3].

    Matrix and range are the picture's own; without them BT.709 from 720 lines up, BT.601 below, limited range. Alpha is
    dropped. One swscale context serves all frames: one a frame lets the memory grow.
    """

    def __init__(self, max_pixels: int) -> None:
        self.max_pixels = max_pixels
        self._reformatter = VideoReformatter()

    def __call__(self, picture: av.VideoFrame) -> Image:
        check_pixels(picture.width, picture.height, self.max_pixels)
        matrix = _MATRICES.get(picture.colorspace, matrix_for(picture.height))
        rgb = self._reformatter.reformat(
            picture, format="rgb24", src_colorspace=matrix, dst_color_range=ColorRange.JPEG, threads=1
        )
        image = np.asarray(rgb.to_ndarray(), dtype=np.uint8)
        return upright(image, display_matrix(picture))


def check_pixels(width: int, height: int, max_pixels: int) -> None:
    """VideoError if a picture has more pixels than allowed; called before anything of its size is allocated."""
    if width * height > max_pixels:
        raise VideoError(
            f"a picture of {width}x{height} pixels is over the limit of {max_pixels / 1e6:g} megapixels. "
            "Raise max_pixels if it is really meant."
        )


def display_matrix(picture: av.VideoFrame) -> tuple[int, ...] | None:
    """The nine numbers of the picture's display matrix, or None."""
    if not lists_side_data(picture):
        a, b = _QUARTERS[round(picture.rotation / 90) % 4]
        return a, b, 0, -b, a, 0, 0, 0, 1
    data = picture.side_data.get(Type.DISPLAYMATRIX)
    return None if data is None else tuple(np.frombuffer(bytes(data), dtype=np.int32).tolist())


def lists_side_data(picture: av.VideoFrame) -> bool:
    """False where the picture carries data of a kind newer than this PyAV, such as EXIF: PyAV then shows none of it."""
    try:
        return picture.side_data is not None
    except ValueError:
        return False


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
