"""Label maps on disk: one grey byte a pixel, the class id, lossless."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np

from clockseg._errors import UsageError, VideoError
from clockseg._types import Labels
from clockseg.video._decode import Damage, open_input, pictures, reason, video_stream
from clockseg.video._part import Part, part_name
from clockseg.video._times import Timestamps
from clockseg.video._whole import Whole

# Matroska counts in milliseconds.
_TIME_BASE = Fraction(1, 1000)
# Its run lengths suit label maps: half the bytes of the range coder, in less time. Every frame a key frame, so that any
# can be read alone, with checksums.
_FFV1 = {"level": "3", "coder": "rice", "g": "1", "slicecrc": "1"}
# Below this side FFV1 can't be cut into slices, the pieces that threads work on.
_SLICED_SIDE = 16


class LabelWriter(Whole):
    """Writes label maps as FFV1 in Matroska, pixel format gray: the byte is the class id.

    Frame k is the k-th ``append``, at the time given to the millisecond (strictly increasing; frames without a time
    follow at ``fps``, or 25). The first frame sets the size; others are brought to it by nearest neighbour. The file
    gets its name at ``close``; without any frame there is none. Leaving a ``with`` block closes, by an exception
    aborts. VideoError if it can't be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with LabelWriter(f"{folder}/labels.mkv", fps=25) as writer:
    ...         writer.append(np.full((2, 3), 255, np.uint8), 0.0)
    ...     [labels.tolist() for labels in read_labels(f"{folder}/labels.mkv")]
    [[[255, 255, 255], [255, 255, 255]]]
    """

    def __init__(self, path: str | os.PathLike[str], *, fps: Fraction | float | None = None) -> None:
        self._fps = Fraction(fps or 25).limit_denominator(100_000)
        self._times = Timestamps(_TIME_BASE, fps=self._fps)
        self._stream: av.VideoStream | None = None
        self._part = Part(path, container_format="matroska", options={})

    def append(self, labels: Labels, pts_seconds: float | None = None) -> None:
        """Adds one label map, uint8 [h, w]."""
        labels = checked(labels)
        with self._part.errors():
            stream = self._stream = self._stream or self._start(labels)
            frame = gray_frame(resized(labels, (stream.width, stream.height)))
            frame.pts, frame.time_base = self._times.next(pts_seconds), _TIME_BASE
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

    def _start(self, labels: Labels) -> av.VideoStream:
        slices = "4" if min(labels.shape) >= _SLICED_SIDE else "1"
        stream = self._part.container.add_stream("ffv1", rate=self._fps, options={**_FFV1, "slices": slices})
        stream.height, stream.width = labels.shape
        stream.pix_fmt = "gray"
        stream.codec_context.time_base = _TIME_BASE
        return stream

    def _mux(self, stream: av.VideoStream, frame: av.VideoFrame | None) -> None:
        for packet in stream.encode(frame):
            # The last frame's duration would otherwise be lost, and the file end a frame early.
            packet.duration = packet.duration or round(self._times.period / _TIME_BASE)
            self._part.container.mux(packet)


def read_labels(path: str | os.PathLike[str]) -> Iterator[Labels]:
    """Yields the label maps of a ``labels.mkv``, uint8 [h, w], bit for bit as written.

    VideoError if it isn't one, or at the place where it is damaged or cut short.
    """
    damage = Damage()
    try:
        with open_input(path) as container:
            stream = video_stream(container)
            if stream is None or stream.pix_fmt != "gray":
                raise VideoError(f"{path}: not a label video. Give a labels.mkv that clockseg wrote.")
            for picture in pictures(container, stream, damage):
                yield np.array(picture.to_ndarray(), dtype=np.uint8)
    except av.FFmpegError as error:
        raise VideoError(f"{path}: cannot be read ({reason(error)}). Give a labels.mkv that clockseg wrote.") from error
    if damage.sentences():
        raise VideoError(f"{path}: {'; '.join(damage.sentences())}. Write it again.")


def write_png(labels: Labels, path: str | os.PathLike[str]) -> None:
    """Writes a label map, uint8 [h, w], as an 8-bit grey PNG: the value is the class id.

    The file appears under its name once it is whole. VideoError if it can't be written.
    """
    path = Path(path)
    _, data = cv2.imencode(".png", checked(labels))
    try:
        part_name(path).write_bytes(data.tobytes())
        part_name(path).replace(path)
    except OSError as error:
        with suppress(OSError):
            part_name(path).unlink()
        raise VideoError(f"{path}: cannot be written ({reason(error)}). Give a folder that can be written.") from error


def resized(labels: Labels, size: tuple[int, int]) -> Labels:
    """The label map at ``size`` (w, h), by nearest neighbour.

    >>> resized(np.array([[1, 2]], np.uint8), (4, 1)).tolist()
    [[1, 1, 2, 2]]
    """
    width, height = size
    if labels.shape == (height, width):
        return labels
    return np.asarray(cv2.resize(labels, size, interpolation=cv2.INTER_NEAREST), dtype=np.uint8)


def checked(labels: Labels) -> Labels:
    """The label map, contiguous; UsageError unless it is uint8 [h, w] with pixels in it."""
    if labels.dtype != np.uint8 or labels.ndim != 2 or not labels.size:
        raise UsageError(f"labels are {labels.dtype} {list(labels.shape)}. Give uint8 [h, w], class ids 0 to 255.")
    return np.ascontiguousarray(labels)


def gray_frame(labels: Labels) -> av.VideoFrame:
    """A frame that holds the label map's bytes unchanged."""
    frame = av.VideoFrame.from_ndarray(labels, format="gray")
    frame.color_range = 2  # full range: no player or reader has a reason to stretch it
    return frame
