"""A small copy of a run's frames that a browser plays and seeks in exactly: H.264 in MP4, a key frame every second or so."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
from av.video.reformatter import ColorRange, VideoReformatter

from clockseg.errors import VideoError
from clockseg.types import Array, Image, Size
from clockseg.video import Clip
from clockseg.video.colour import matrix_for
from clockseg.video.decode import open_for_writing
from clockseg.video.overlay import encoder

SIDE = 720
"""Of its pictures, the longer one, at most."""
_LEAST_SIDE = 64
"""Browsers' decoders refuse pictures of a few pixels; those are enlarged."""
_TIME_BASE = Fraction(1, 90_000)
_KEY_EVERY = 24
_BT709, _BT601 = 1, 6


def frames_of(clip: Clip, wanted: Iterable[tuple[int, int | None]]) -> Iterator[Image]:
    """The pictures of a clip with these numbers and timestamps (``Frame.index``, ``Frame.pts``), in order.

    ``VideoError`` if it has not all of them: then it isn't the video that it is taken for.
    """
    frames = iter(clip)
    for number, pts in wanted:
        found = next((frame for frame in frames if frame.index >= number), None)
        if found is None or (found.index, found.pts) != (number, pts):
            raise VideoError(
                f"{clip.path}: there is no frame {number} at {pts} in it. Give the video that was segmented."
            )
        yield found.image


def proxy(images: Iterable[Image], seconds: Array, aspect: Fraction = Fraction(1)) -> bytes:
    """The pictures as a video: uint8 RGB [h, w, 3] each, at ``seconds`` (float64, growing); ``aspect``: of a pixel.

    All get the size of the first, scaled down; one of another size is stretched, as label maps on disk are.

    >>> proxy([np.zeros((2, 3, 3), np.uint8)], np.zeros(1))[4:8]
    b'ftyp'
    """
    # The index can only be moved to the front in a file with a name.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "frames.mp4"
        _encode(path, images, seconds, aspect)
        return path.read_bytes()


def _encode(path: Path, images: Iterable[Image], seconds: Array, aspect: Fraction) -> None:
    reformatter = VideoReformatter()
    with open_for_writing(str(path), format="mp4", options={"movflags": "faststart"}) as container:
        stream: av.VideoStream | None = None
        for image, time in zip(images, seconds, strict=False):
            stream = stream or _start(container, proxy_size((image.shape[1], image.shape[0]), aspect))
            size = stream.width, stream.height
            picture = np.ascontiguousarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA))
            frame = reformatter.reformat(
                av.VideoFrame.from_ndarray(picture, format="rgb24"),
                format="yuv420p",
                dst_colorspace=matrix_for(size[1]),
                dst_color_range=ColorRange.MPEG,
                threads=1,
            )
            frame.pts, frame.time_base = round(float(time) / _TIME_BASE), _TIME_BASE
            container.mux(stream.encode(frame))
        if stream is not None:
            container.mux(stream.encode(None))


def proxy_size(size: Size, aspect: Fraction = Fraction(1)) -> Size:
    """The size of the copy of pictures of ``size`` (w, h): even, square pixels, neither large nor tiny.

    >>> proxy_size((1920, 1080)), proxy_size((1, 1))
    ((720, 404), (64, 64))
    """
    wide = size[0] * float(aspect)
    scale = min(1.0, SIDE / max(wide, size[1]))
    scale = max(scale, _LEAST_SIDE / min(wide, size[1])) if min(wide, size[1]) * scale < _LEAST_SIDE else scale
    # A strip a pixel high would become endlessly long.
    return _even(min(wide * scale, 2 * SIDE)), _even(min(size[1] * scale, 2 * SIDE))


def _even(side: float) -> int:
    return max(2, 2 * round(side / 2))


def _start(container: av.container.OutputContainer, size: Size) -> av.VideoStream:
    stream = container.add_stream(encoder(), options={"preset": "veryfast", "crf": "26", "bf": "0"})
    stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
    context = stream.codec_context
    context.time_base, context.gop_size, context.thread_count = _TIME_BASE, _KEY_EVERY, 2
    context.color_range, context.color_primaries, context.color_trc = ColorRange.MPEG, _BT709, _BT709
    context.colorspace = _BT709 if matrix_for(size[1]).value == _BT709 else _BT601
    return stream
