"""YCgCo, which swscale doesn't know: the matrix of lossless screen recordings."""

from __future__ import annotations

import av
import numpy as np
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter

from clockseg.types import Array

YCGCO = 8
"""Its number in ITU-T H.273."""
_LAST = 65535


def from_ycgco(picture: av.VideoFrame, reformatter: VideoReformatter, bits: int) -> Array:
    """The picture as RGB of 8 or 16 bits (ITU-T H.273, equations 47 to 50)."""
    full = picture.color_range == ColorRange.JPEG
    # Any matrix, the same on both sides: only subsampling and depth change.
    same = Colorspace.ITU709
    planes = reformatter.reformat(
        picture, format="yuv444p16le", src_colorspace=same, dst_colorspace=same, threads=1
    ).to_ndarray()
    luma, green, orange = np.moveaxis(planes.astype(np.float32), -1 if planes.shape[-1] == 3 else 0, 0) / _LAST
    luma = luma if full else (luma * 256 - 16) / 219
    green, orange = ((part - 0.5) * (1 if full else 256 / 224) for part in (green, orange))
    rest = luma - green
    rgb = np.clip(np.stack([rest + orange, luma + green, rest - orange], 2), 0, 1)
    last, kind = (255, np.uint8) if bits == 8 else (_LAST, np.uint16)
    return np.asarray(np.round(rgb * last), kind)
