"""Conversion of decoded pictures, of any pixel format and orientation, to upright RGB."""

from __future__ import annotations

import threading

import av
import numpy as np
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter

from clockseg.errors import VideoError
from clockseg.types import Array, Image
from clockseg.video.hdr import BT2020, Signal, ToSDR, signal_of
from clockseg.video.side_data import NO_CROP, UPRIGHT, Crop, SideDataReader, Turn, turn_of

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


def matrix_for(height: int) -> Colorspace:
    """Return the matrix of a picture that states none: BT.709 from 720 lines up, BT.601 below, as players assume.

    >>> matrix_for(1080).name, matrix_for(480) == Colorspace.ITU601
    ('ITU709', True)
    """
    return Colorspace.ITU709 if height >= HD_HEIGHT else Colorspace.ITU601


class ToRGB:
    """Converts pictures to upright uint8 RGB [h, w, 3], in the colours of BT.709.

    Matrix, range, primaries and transfer are the picture's own; without them BT.709 from 720 lines up, BT.601 below, limited
    range. HDR becomes SDR, wide gamuts are brought to BT.709 (``ToSDR``). Alpha is dropped. ``turn``: how the last picture
    was turned. One swscale context serves all frames: one a frame lets the memory grow.
    """

    def __init__(self, max_pixels: int, crop: Crop = NO_CROP) -> None:
        self.max_pixels, self.crop = max_pixels, crop
        self._reformatter = VideoReformatter()
        self._sdr: dict[Signal, ToSDR] = {}
        self.side_data = SideDataReader()
        self._shape: tuple[int, int, int] | None = None
        self.turn = UPRIGHT
        self._lock = threading.Lock()

    def __call__(self, picture: av.VideoFrame) -> Image:
        return self.convert(picture, self.look(picture), self.turn)

    def look(self, picture: av.VideoFrame) -> Signal:
        """Return the signal of the next picture, which ``convert`` takes; pictures are looked at in the order of the stream."""
        check_pixels(picture.width, picture.height, self.max_pixels)
        if picture.format.name in _FATAL:
            raise VideoError(f"pixels of the format {picture.format.name} can't be read")
        if picture.colorspace == _YCGCO and not picture.format.is_rgb:
            raise VideoError("colours of the matrix YCgCo can't be read. Convert the video to RGB or BT.709")
        shape = (picture.width, picture.height, picture.rotation)
        if picture.key_frame or shape != self._shape:  # where its side data may have changed
            self._shape, self.turn = shape, turn_of(picture, self.side_data)
        return signal_of(picture)

    def convert(self, picture: av.VideoFrame, signal: Signal, turn: Turn) -> Image:
        """Convert a picture and turn it; threads take turns."""
        with self._lock:
            if signal.plain:
                image = self._rgb(picture, signal, 8)
            else:
                if signal not in self._sdr:
                    self._sdr[signal] = ToSDR(signal)
                image = self._sdr[signal](self._rgb(picture, signal, 16))
        return turn(self.crop(image))

    def is_plain(self, picture: av.VideoFrame, signal: Signal) -> bool:
        """Return True if the picture, the last one looked at, is 8-bit YUV 4:2:0 of limited range as it is to be shown.

        That is: upright, uncropped, and in the primaries and the transfer of BT.709.
        """
        planar = picture.format.name == "yuv420p" and picture.color_range != ColorRange.JPEG
        as_stored = self.turn == UPRIGHT and self.crop == NO_CROP
        return planar and as_stored and signal.plain

    def _rgb(self, picture: av.VideoFrame, signal: Signal, bits: int) -> Array:
        """Convert the picture to RGB of its own primaries and transfer, 8 or 16 bits."""
        name = picture.format.name
        if name in _SWAPPED:
            picture = self._reformatter.reformat(picture, format=_SWAPPED[name], threads=1)
        rgb = self._reformatter.reformat(
            picture,
            format=_format(picture, bits),
            src_colorspace=matrix_of(picture, Colorspace.BT2020 if signal.primaries == BT2020 else None),
            dst_color_range=ColorRange.JPEG,
            threads=1,
        ).to_ndarray()
        # swscale takes any grey for full range.
        limited = name.startswith(_GREY) and picture.color_range == ColorRange.MPEG
        return STRETCHED[rgb] if limited and bits == 8 else rgb


def _format(picture: av.VideoFrame, bits: int) -> str:
    if bits == 16:
        return "gbrp16le"
    # swscale's way from more than 8 bits to packed RGB is two levels too dark.
    deep = picture.format.components[0].bits > 8 and not picture.format.is_rgb
    return "gbrp" if deep else "rgb24"


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
