"""Pictures as planes, YUV 4:2:0 with 8 bits: masks are drawn on what the decoder gave, without a way through RGB."""

from __future__ import annotations

from typing import NamedTuple

import av
import cv2
import numpy as np
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter

from clockseg.types import Array, Image, Labels, Size
from clockseg.video.colour import matrix_of

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
            height, width = plane.shape
            blend = cv2.addWeighted(plane, 1 - self._opacity, cv2.LUT(ids, table), self._opacity, 0)
            if clear:
                cv2.copyTo(plane, cv2.compare(ids, float(self.classes), cv2.CMP_GE), blend)
            target[:height, :width] = blend


def put(picture: Planes, out: Planes, top: int) -> None:
    """Copy a picture into ``out``, from row ``top`` (even) on."""
    for plane, target, scale in zip(picture, out, (1, 2, 2), strict=True):
        height, width = plane.shape
        target[top // scale : top // scale + height, :width] = plane


def even(size: Size) -> bool:
    """Return True if both sides are even, so that chroma has no half pixels."""
    return size[0] % 2 == 0 and size[1] % 2 == 0
