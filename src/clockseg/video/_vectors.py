"""The codec's motion vectors, as FFmpeg exports them beside a picture."""

from __future__ import annotations

import av
import numpy as np
from av.sidedata.motionvectors import MotionVectors
from av.sidedata.sidedata import Type

from clockseg.carry.vectors import BLOCK, Vectors
from clockseg.video._colour import ToRGB

EXPORTING = frozenset(
    {"h264", "mpeg1video", "mpeg2video", "mpegvideo", "mpeg4", "h263", "flv", "msmpeg4", "wmv1", "wmv2"}
)
"""FFmpeg's decoders that tell their vectors: those of HEVC, VP9 and AV1 don't."""
OPTIONS = {"flags2": "+export_mvs"}
THREADS = "SLICE"
"""A thread for each of several frames is faster, but the vectors may then be read before they are all there."""


def exports(stream: av.VideoStream) -> bool:
    """Whether the decoder of this stream tells vectors."""
    return stream.codec_context.name in EXPORTING


def vectors_of(picture: av.VideoFrame, index: int, stream: av.VideoStream, to_rgb: ToRGB) -> Vectors:
    """The vectors of frame ``index``, which ``to_rgb`` was the last to convert, from a decoder that was asked for them."""
    data = to_rgb.beside.get(picture, Type.MOTION_VECTORS)
    told = data.to_ndarray() if isinstance(data, MotionVectors) else np.zeros(0, BLOCK)
    # A copy: what FFmpeg gave goes with its frame.
    blocks = np.empty(len(told), BLOCK)
    for name in BLOCK.names or ():
        blocks[name] = told[name]
    size, reordered = (picture.width, picture.height), bool(stream.codec_context.has_b_frames)
    return Vectors(index, blocks, size, turned(size, to_rgb.matrix), reordered)


def turned(size: tuple[int, int], matrix: tuple[int, ...] | None) -> tuple[float, ...]:
    """Where places of the upright picture are in the coded one of ``size`` (w, h): see ``Vectors``.

    >>> turned((4, 2), (0, 1, 0, -1, 0, 0, 0, 0, 1))  # a quarter turn clockwise: the right edge, x = 2, was the top
    (0, 1, 0, -1, 0, 2)
    """
    width, height = size
    if matrix is None:
        return 1, 0, 0, 0, 1, 0
    a, b, _, c, d = matrix[:5]
    if abs(b) + abs(c) > abs(a) + abs(d):
        x, y = (-1, width) if b < 0 else (1, 0), (-1, height) if c < 0 else (1, 0)
        return 0, x[0], x[1], y[0], 0, y[1]
    x, y = (-1, width) if a < 0 else (1, 0), (-1, height) if d < 0 else (1, 0)
    return x[0], 0, x[1], 0, y[0], y[1]
