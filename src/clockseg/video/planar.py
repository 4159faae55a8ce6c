"""Pictures as planes, YUV 4:2:0 with 8 bits: masks are drawn on what the decoder gave, and only what the network reads is RGB."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any, NamedTuple

import av
import cv2
import numpy as np
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter

from clockseg.carry.flow import shrunk
from clockseg.types import Array, Image, Labels, Size
from clockseg.video.colour import STRETCHED, ToRGB, matrix_of
from clockseg.video.hdr import Signal
from clockseg.video.side_data import UPRIGHT

FORMAT = "yuv420p"
# Luma weights of red and blue of the matrices that an overlay may have (ITU-R BT.601 and BT.709).
_WEIGHTS = {Colorspace.ITU601: (0.299, 0.114), Colorspace.ITU709: (0.2126, 0.0722)}


class Planes(NamedTuple):
    """Luma uint8 [h, w] and both chromas uint8 [h / 2, w / 2] of a picture with even sides, limited range."""

    y: Array
    u: Array
    v: Array


def planes_of(frame: av.VideoFrame) -> Planes:
    """Return the planes of a frame of ``FORMAT``; changes of the arrays are changes of the frame."""
    sides = ((frame.height, frame.width), *[(-(-frame.height // 2), -(-frame.width // 2))] * 2)
    found = []
    for plane, (height, width) in zip(frame.planes, sides, strict=True):
        rows = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)
        found.append(rows[:height, :width])
    return Planes(*found)


class Decoded:
    """A decoded picture in ``FORMAT`` that is converted to RGB when it is first read as an array. Threads may share it.

    ``shape``, ``dtype``, ``ndim`` and ``nbytes`` are those of the array that it becomes, uint8 RGB [h, w, 3].
    """

    dtype, ndim = np.dtype(np.uint8), 3

    def __init__(self, frame: av.VideoFrame, to_rgb: ToRGB, signal: Signal) -> None:
        self.frame, self.shape = frame, (frame.height, frame.width, 3)
        self.nbytes = frame.height * frame.width * 3
        self._convert, self._lock = partial(to_rgb.convert, frame, signal, UPRIGHT), threading.Lock()
        self._image: Image | None = None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Image:
        with self._lock:
            if self._image is None:
                self._image = self._convert()
        return np.array(self._image, dtype, copy=copy)

    def grey(self, size: Size) -> Array:
        """Return the picture in grey, uint8 [h, w] of ``size`` (w, h), from its luma alone."""
        luma = planes_of(self.frame).y
        return np.asarray(cv2.LUT(shrunk(luma, size), STRETCHED))


def decoded(picture: av.VideoFrame, to_rgb: ToRGB) -> Image | Decoded:
    """Return a picture converted to upright RGB; one in ``FORMAT`` that needs nothing else is converted when it is read."""
    signal = to_rgb.look(picture)
    if to_rgb.is_plain(picture, signal):
        return Decoded(picture, to_rgb, signal)
    return to_rgb.convert(picture, signal, to_rgb.turn)


def rgb(picture: Any) -> Any:
    """Return a decoded picture as uint8 RGB [h, w, 3], and anything else as it is."""
    return np.asarray(picture) if isinstance(picture, Decoded) else picture


class ToPlanes:
    """Converts decoded pictures and RGB to ``FORMAT`` in one matrix, limited range."""

    def __init__(self, matrix: Colorspace) -> None:
        self.matrix = matrix
        self._reformatter = VideoReformatter()

    def picture(self, decoded: av.VideoFrame) -> Planes:
        """Return the planes of a decoded picture of even sides, converted only if it has another matrix."""
        source = matrix_of(decoded)
        if source is not self.matrix:
            decoded = self._reformatter.reformat(
                decoded, format=FORMAT, src_colorspace=source, dst_colorspace=self.matrix, threads=1
            )
        return planes_of(decoded)

    def rgb(self, image: Image) -> av.VideoFrame:
        """Convert a picture, uint8 RGB [h, w, 3] with even sides."""
        return self._reformatter.reformat(
            av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24"),
            format=FORMAT,
            dst_colorspace=self.matrix,
            dst_color_range=ColorRange.MPEG,
            threads=1,
        )


class Tint:
    """Tints pictures by class; ``palette``: RGB by id, uint8 [classes, 3], at most 255; other ids are left clear."""

    def __init__(self, palette: Array, matrix: Colorspace, *, opacity: float = 0.5) -> None:
        self.classes, self._opacity = len(palette), opacity
        colours = np.zeros((256, 3))
        colours[: len(palette)] = palette
        red, blue = _WEIGHTS[matrix]
        y = colours @ (red, 1 - red - blue, blue)
        u, v = (colours[:, 2] - y) / (2 - 2 * blue), (colours[:, 0] - y) / (2 - 2 * red)
        limited = (16 + y * 219 / 255, 128 + u * 224 / 255, 128 + v * 224 / 255)
        self._tables = [np.rint(one).astype(np.uint8) for one in limited]

    def draw(self, picture: Planes, labels: Labels, out: Planes) -> None:
        """Draw ``labels``, uint8 [h, w], over ``picture`` into the upper part of ``out``. Chroma goes by every other pixel."""
        clear = int(labels.max(initial=0)) >= self.classes
        halved = np.ascontiguousarray(labels[::2, ::2])
        for plane, table, target, ids in zip(picture, self._tables, out, (labels, halved, halved), strict=True):
            blend = target[: plane.shape[0], : plane.shape[1]]
            cv2.addWeighted(plane, 1 - self._opacity, cv2.LUT(ids, table), self._opacity, 0, dst=blend)
            if clear:
                cv2.copyTo(plane, cv2.compare(ids, float(self.classes), cv2.CMP_GE), blend)


def put(picture: Planes, out: Planes, top: int) -> None:
    """Copy a picture into ``out``, from row ``top`` (even) on."""
    for plane, target, scale in zip(picture, out, (1, 2, 2), strict=True):
        height, width = plane.shape
        target[top // scale : top // scale + height, :width] = plane


def even(size: Size) -> bool:
    """Return True if both sides are even, so that chroma has no half pixels."""
    return size[0] % 2 == 0 and size[1] % 2 == 0
