"""A lossless video of grey frames, a byte or two bytes a pixel: what label maps and maps of numbers are written into."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Literal

import av

from clockseg.errors import VideoError
from clockseg.types import Array, Size
from clockseg.video._decode import Damage, open_input, pictures, reason, video_stream
from clockseg.video._part import CONTAINERS, Part
from clockseg.video._times import Timestamps
from clockseg.video._whole import Whole

Format = Literal["gray", "gray16le"]
# Matroska counts in milliseconds.
_TIME_BASE = Fraction(1, 1000)
# For bytes: its run lengths suit label maps, half the bytes of the range coder, in less time; two bytes need that coder.
_CODER = {"gray": "rice", "gray16le": "range_def"}
# Every frame a key frame, so that any can be read alone, with checksums.
_FFV1 = {"level": "3", "g": "1", "slicecrc": "1"}
# Below this side FFV1 can't be cut into slices, the pieces that threads work on.
_SLICED_SIDE = 16


class GreyWriter(Whole):
    """Writes maps as FFV1 in Matroska, each as it is, at ``fps`` (None: 25) or at its own time.

    ``pixels``: "gray" for uint8 [h, w], "gray16le" for uint16. ``fit(map, (w, h))`` brings maps to ``size`` (None: the first
    one's). ``metadata``: of the stream, once there is one.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        pixels: Format,
        fit: Callable[[Array, tuple[int, int]], Array],
        fps: Fraction | float | None = None,
        size: Size | None = None,
    ) -> None:
        self._pixels, self._fit, self._size = pixels, fit, size
        self._fps = Fraction(fps or 25).limit_denominator(100_000)
        self._times = Timestamps(_TIME_BASE, fps=self._fps)
        self._stream: av.VideoStream | None = None
        self._part = Part(path, **CONTAINERS[".mkv"])

    def append(
        self,
        values: Array,
        pts_seconds: float | None = None,
        *,
        duration_seconds: float | None = None,
        metadata: Mapping[str, str] = {},
    ) -> None:
        """Adds one map."""
        with self._part.errors():
            stream = self._stream = self._stream or self._start(self._size or values.shape[::-1], metadata)
            size = (stream.width, stream.height)
            frame = av.VideoFrame.from_ndarray(
                values if values.shape[::-1] == size else self._fit(values, size), format=self._pixels
            )
            frame.color_range = 2  # full range: no player or reader has a reason to stretch it
            frame.pts, frame.time_base = self._times.next(pts_seconds, duration_seconds), _TIME_BASE
            self._mux(stream, frame)

    def close(self) -> None:
        """Completes the file and gives it its name."""
        if self._stream is None:
            self.abort()
            return
        with self._part.errors():
            self._mux(self._stream, None)
        self._part.finish()

    def abort(self) -> None:
        """Removes what was written."""
        self._part.discard()

    def _start(self, size: tuple[int, ...], metadata: Mapping[str, str]) -> av.VideoStream:
        slices = "4" if min(size) >= _SLICED_SIDE else "1"
        options = {**_FFV1, "coder": _CODER[self._pixels], "slices": slices}
        stream = self._part.container.add_stream("ffv1", rate=self._fps, options=options)
        stream.width, stream.height = size
        stream.pix_fmt = self._pixels
        stream.codec_context.time_base = _TIME_BASE
        stream.metadata.update(metadata)
        return stream

    def _mux(self, stream: av.VideoStream, frame: av.VideoFrame | None) -> None:
        for packet in stream.encode(frame):
            # The last frame's duration would otherwise be lost, and the file end a frame early.
            packet.duration = self._times.last_duration
            self._part.container.mux(packet)


def read_grey(path: str | os.PathLike[str], *, pixels: Format, what: str) -> Iterator[tuple[Array, Mapping[str, str]]]:
    """Yields the maps of a video, bit for bit as written, each with the stream's metadata; ``what`` it is, for errors.

    VideoError if it isn't one, or at the place where it is damaged or cut short.
    """
    damage = Damage()
    try:
        with open_input(path) as container:
            stream = video_stream(container)
            if stream is None or stream.pix_fmt != pixels:
                raise VideoError(f"{path}: not a {what} video. Give a {what}s.mkv that clockseg wrote.")
            metadata = dict(stream.metadata)
            for picture in pictures(container, stream, damage):
                damage.take(picture)
                yield picture.to_ndarray(), metadata
    except av.FFmpegError as error:
        raise VideoError(
            f"{path}: cannot be read ({reason(error)}). Give a {what}s.mkv that clockseg wrote."
        ) from error
    if damage.sentences():
        raise VideoError(f"{path}: {'; '.join(damage.sentences())}. Write it again.")
