"""Conversion of decoded pictures, of any pixel format, crop and orientation, to upright RGB, at once or where they are read."""

from __future__ import annotations

import gc
import re
import threading
from collections.abc import Callable, Sequence
from logging import NullHandler, getLogger
from typing import Any, NamedTuple

import av
import cv2
import numpy as np
from av import VideoStream, logging
from av.container import InputContainer
from av.sidedata.sidedata import SideDataContainer, Type
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter

from clockseg.carry.motion import shrunk
from clockseg.errors import VideoError
from clockseg.types import Array, Image, Size
from clockseg.video.hdr import BT2020, Signal, signal_of, to_sdr

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
# The matrix YCgCo, used in a few lossless screen recordings, which swscale doesn't know.
_YCGCO = 8
HD_HEIGHT = 720
# swscale takes the bytes of these in the wrong order, or ends the process.
_SWAPPED = {f"{name}be": f"{name}le" for name in ("rgb555", "bgr555", "rgb565", "bgr565")}
_FATAL = {"yaf32le", "yaf32be"}
_GREY = ("gray", "ya")
STRETCHED = np.clip((np.arange(256) - 16) * 255 / 219 + 0.5, 0, 255).astype(np.uint8)
"""Grey of full range, by grey of limited range."""
_MOST_BYTES = 256_000_000
# What other threads log while a container is described goes nowhere.
getLogger("libav").addHandler(NullHandler())


def matrix_for(height: int) -> Colorspace:
    """Return the matrix of a picture that states none: BT.709 from 720 lines up, BT.601 below, as players assume."""
    return Colorspace.ITU709 if height >= HD_HEIGHT else Colorspace.ITU601


class Decoded:
    """A decoded picture, 8-bit YUV 4:2:0 as it is to be shown, that becomes RGB when it is first read as an array.

    Threads may share it. ``shape``, ``dtype``, ``ndim`` and ``nbytes`` are those of the array, uint8 RGB [h, w, 3].
    """

    dtype, ndim = np.dtype(np.uint8), 3

    def __init__(self, frame: av.VideoFrame, convert: Callable[[], Image]) -> None:
        self.frame, self.shape = frame, (frame.height, frame.width, 3)
        self.nbytes = frame.height * frame.width * 3
        self._convert, self._lock = convert, threading.Lock()
        self._image: Image | None = None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Image:
        with self._lock:
            if self._image is None:
                self._image = self._convert()
        return np.array(self._image, dtype, copy=copy)

    def grey(self, size: Size) -> Array:
        """Return the picture in grey, uint8 [h, w] of ``size`` (w, h), from its luma alone."""
        return np.asarray(cv2.LUT(shrunk(planes_of(self.frame)[0], size), STRETCHED))


def rgb(picture: Any) -> Any:
    """Return a decoded picture as uint8 RGB [h, w, 3], and anything else as it is."""
    return np.asarray(picture) if isinstance(picture, Decoded) else picture


def planes_of(frame: av.VideoFrame) -> list[Array]:
    """Return the planes of 8-bit YUV 4:2:0: Y uint8 [h, w], U and V uint8 [h / 2, w / 2]; changing them changes the frame."""
    halved = -(-frame.height // 2), -(-frame.width // 2)
    sides = (frame.height, frame.width), halved, halved
    rows = [np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size) for plane in frame.planes]
    return [plane[:height, :width] for plane, (height, width) in zip(rows, sides, strict=True)]


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
        """Return a picture as it is shown."""
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


class ToRGB:
    """Converts pictures to upright uint8 RGB [h, w, 3], in the colours of BT.709.

    Matrix, range, primaries and transfer are the picture's own; without them BT.709 from 720 lines up, BT.601 below, limited
    range. HDR becomes SDR, wide gamuts are brought to BT.709 (``hdr.ToSDR``). Alpha is dropped. ``crop``: the cut of the container;
    ``upright``: how the last picture is shown. ``lazily``: a picture that is 8-bit YUV 4:2:0 of limited range, as it is to be
    shown, is converted where it is read. One swscale context serves all frames: one a frame lets the memory grow.
    """

    def __init__(self, max_pixels: int, crop: Upright = AS_STORED, *, lazily: bool = False) -> None:
        self.max_pixels, self._crop, self._lazily = max_pixels, crop, lazily
        self._reformatter = VideoReformatter()
        self._asked_bytes = 0
        self._shape: tuple[int, int, int] | None = None
        self.upright = AS_STORED
        self._lock = threading.Lock()

    def __call__(self, picture: av.VideoFrame) -> Image | Decoded:
        signal = self._look(picture)
        planar = picture.format.name == "yuv420p" and picture.color_range != ColorRange.JPEG
        if self._lazily and planar and self.upright == AS_STORED and signal.plain:
            return Decoded(picture, lambda: self._converted(picture, signal, AS_STORED))
        return self._converted(picture, signal, self.upright)

    def _look(self, picture: av.VideoFrame) -> Signal:
        """Return the signal of the next picture in the order of the stream, and note how it is shown."""
        check_pixels(picture.width, picture.height, self.max_pixels)
        if picture.format.name in _FATAL:
            raise VideoError(f"pixels of the format {picture.format.name} can't be read")
        if picture.colorspace == _YCGCO and not picture.format.is_rgb:
            raise VideoError("colours of the matrix YCgCo can't be read. Convert the video to RGB or BT.709")
        shape = (picture.width, picture.height, picture.rotation)
        if picture.key_frame or shape != self._shape:  # where its side data may have changed
            self._shape, self.upright = shape, self._upright(picture)
        return signal_of(picture)

    def side_data(self, picture: av.VideoFrame) -> SideDataContainer | None:
        """Return all side data; None if some is of a kind that this PyAV does not know, such as EXIF: PyAV then shows none of it.

        A picture that PyAV 18 was asked for its side data refers to itself, and stays until Python's collector comes by, which
        may be after hundreds; here it is called once such pictures hold 256 MB.
        """
        self._asked_bytes += 2 * picture.width * picture.height
        if self._asked_bytes > _MOST_BYTES:
            self._asked_bytes = 0
            gc.collect()
        try:
            found: SideDataContainer = picture.side_data
        except ValueError:
            return None
        return found

    def _upright(self, picture: av.VideoFrame) -> Upright:
        """Return how a picture is shown; it is not cropped where nothing would be left."""
        crop = self._crop
        left = picture.width - crop.left - crop.right, picture.height - crop.top - crop.bottom
        crop = crop if min(left) > 0 else AS_STORED
        listed = self.side_data(picture)
        if listed is None:
            return crop.turned(_QUARTERS[round(picture.rotation / 90) % 4])
        data = listed.get(Type.DISPLAYMATRIX)
        return crop if data is None else crop.turned(np.frombuffer(bytes(data), dtype=np.int32).tolist())

    def _converted(self, picture: av.VideoFrame, signal: Signal, upright: Upright) -> Image:
        with self._lock:
            if signal.plain:
                return upright(self._rgb(picture, signal, 8))
            return upright(to_sdr(signal)(self._rgb(picture, signal, 16)))

    def _rgb(self, picture: av.VideoFrame, signal: Signal, bits: int) -> Array:
        """Convert the picture to RGB of its own primaries and transfer, 8 or 16 bits."""
        name = picture.format.name
        if name in _SWAPPED:
            picture = self._reformatter.reformat(picture, format=_SWAPPED[name], threads=1)
        # swscale's way from more than 8 bits to packed RGB is two levels too dark.
        deep = picture.format.components[0].bits > 8 and not picture.format.is_rgb
        rgb = self._reformatter.reformat(
            picture,
            format="gbrp16le" if bits == 16 else "gbrp" if deep else "rgb24",
            src_colorspace=matrix_of(picture, Colorspace.BT2020 if signal.primaries == BT2020 else None),
            dst_color_range=ColorRange.JPEG,
            threads=1,
        ).to_ndarray()
        # swscale takes any grey for full range.
        limited = name.startswith(_GREY) and picture.color_range == ColorRange.MPEG
        return STRETCHED[rgb] if limited and bits == 8 else rgb


def matrix_of(picture: av.VideoFrame, guessed: Colorspace | None = None) -> Colorspace:
    """Return the matrix of a picture: its own, or ``guessed`` (None: by its height) if it states none."""
    return _MATRICES.get(picture.colorspace, guessed or matrix_for(picture.height))


def check_pixels(width: int, height: int, max_pixels: int) -> None:
    """Raise VideoError for a picture with too many pixels; called before anything of its size is allocated."""
    if width * height > max_pixels:
        raise VideoError(
            f"a picture of {width}x{height} pixels is over the limit of {max_pixels / 1e6:g} megapixels. "
            "Raise max_pixels (of segment and live: --max-pixels) if this is intended."
        )
