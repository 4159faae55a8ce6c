"""Label maps and maps of numbers on disk, as lossless video, PNG and NPY.

Numbers, such as depth and edges, are float16 in 16 bits per pixel. A float16 has 11 binary digits, so a value is within
0.05 % of the original at any scale, and values of 0 and more are in order, so that a player shows a picture."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import av
import cv2
import numpy as np
from av.video.reformatter import ColorRange

from clockseg.errors import UsageError, VideoError
from clockseg.types import Array, Labels
from clockseg.video.decode import Damage, open_input, pictures, reason, video_stream
from clockseg.video.output import FrameWriter, writing, written

Format = Literal["gray", "gray16le"]
# Every frame is a key frame, so that any can be read alone. H.264 without loss takes half the time of FFV1 for label maps, and
# fewer bytes, but knows bytes only. No macroblock tree: x264's reads memory that it never wrote.
_ENCODERS: dict[Format, tuple[str, dict[str, str]]] = {
    "gray": (
        "libx264",
        {"preset": "superfast", "qp": "0", "g": "1", "bf": "0", "x264-params": "mbtree=0:8x8dct=0:sync-lookahead=0"},
    ),
    "gray16le": ("ffv1", {"level": "3", "g": "1", "slicecrc": "1", "slices": "4", "coder": "range_def"}),
}
# FFmpeg refuses one slice of FFV1 above 360x288, and a picture of one row or column has no four slices.
_ONE_SLICE = {"level": "1", "g": "1", "coder": "range_def"}
# FFmpeg's decoders of grey H.264 give two planes more, of which both are empty.
_READ: dict[Format, tuple[str, ...]] = {"gray": ("gray", "yuvj420p"), "gray16le": ("gray16le",)}
_TYPES: dict[Format, np.dtype[Any]] = {"gray": np.dtype(np.uint8), "gray16le": np.dtype("<u2")}
# H.264's decoder then refuses damaged frames instead of concealing the damage.
_STRICT = {"err_detect": "crccheck+bitstream+buffer+explode"}


class GreyWriter(FrameWriter):
    """Writes maps losslessly in Matroska: uint8 [h, w] as H.264, uint16 as FFV1. ``_pixels``: "gray" or "gray16le"."""

    _ending = ".mkv"
    _pixels: Format

    def _write(self, values: Array, pts_seconds: float | None, duration_seconds: float | None, **metadata: str) -> None:
        with writing(self._path):
            if self._stream is None:
                codec, options = _ENCODERS[self._pixels]
                if codec == "ffv1" and min(values.shape) == 1:
                    options = _ONE_SLICE
                size = values.shape[1], values.shape[0]
                # Beside the network all cores are busy, and more threads cost more time than they save.
                self._stream = self._started(codec, self._pixels, size, options=options, threads=1)
                # Full range: no player or reader has a reason to stretch it.
                self._stream.codec_context.color_range = ColorRange.JPEG
                self._stream.metadata.update(metadata)
            frame = av.VideoFrame.from_ndarray(values, format=self._pixels)
            frame.color_range = ColorRange.JPEG
            self._put(frame, pts_seconds, duration_seconds)


def read_grey(path: str | os.PathLike[str], *, pixels: Format, what: str) -> Iterator[tuple[Array, Mapping[str, str]]]:
    """Yield the maps of a video, bit for bit, each with the stream's metadata; ``what`` names the kind in errors.

    VideoError if it isn't one, or at the place where it is damaged, as far as its decoder notices, or cut short.
    """
    damage = Damage()
    try:
        with open_input(path) as container:
            stream = video_stream(container)
            if stream is None or not _holds(stream, pixels):
                raise VideoError(f"{path}: not a {what} video. Give a {what}s.mkv that clockseg wrote.")
            stream.codec_context.options = _STRICT
            metadata = dict(stream.metadata)
            # Threads that decode several frames lose errors of the last ones.
            for picture in pictures(container, stream, damage, threads="SLICE"):
                damage.take(picture)
                plane = picture.planes[0]
                rows = np.frombuffer(plane, _TYPES[pixels]).reshape(plane.height, -1)
                yield rows[:, : plane.width], metadata
    except av.FFmpegError as error:
        raise VideoError(
            f"{path}: cannot be read ({reason(error)}). Give a {what}s.mkv that clockseg wrote."
        ) from error
    if damage.sentences():
        raise VideoError(f"{path}: {'; '.join(damage.sentences())}. Write it again.")


def _holds(stream: av.VideoStream, pixels: Format) -> bool:
    """Return True for a lossless stream of these pixels; earlier versions wrote labels as FFV1."""
    lossless = stream.codec_context.name == "ffv1" or str(stream.profile).startswith("High 4:4:4")
    return lossless and stream.pix_fmt in _READ[pixels]


class LabelWriter(GreyWriter):
    """Writes label maps as lossless grey H.264 in Matroska: the byte is the class id.

    Frame k is the k-th ``append``, at the time given to the microsecond (strictly increasing; frames without a time
    follow at ``fps``, or 25). ``size`` (w, h), or else the first frame, sets the size; others are brought to it by nearest
    neighbour. The file gets its name at ``close``; without any frame there is none. Leaving a ``with`` block closes, by an
    exception aborts. VideoError if it can't be written.
    """

    _pixels = "gray"

    def append(
        self, labels: Labels, pts_seconds: float | None = None, *, duration_seconds: float | None = None
    ) -> None:
        """Add one label map, uint8 [h, w]; ``duration_seconds``: its duration if it is the last (None: 1 / ``fps``)."""
        labels = checked_labels(labels)
        height, width = labels.shape
        self._size = self._size or (width, height)
        self._write(resized_labels(labels, self._size), pts_seconds, duration_seconds)


def read_labels(path: str | os.PathLike[str]) -> Iterator[Labels]:
    """Yield the label maps of a ``labels.mkv``, uint8 [h, w], bit for bit as written.

    VideoError if it isn't one, or at the place where it is damaged, as far as its decoder notices, or cut short.
    """
    for labels, _ in read_grey(path, pixels="gray", what="label"):
        yield np.array(labels, dtype=np.uint8)


def write_png(labels: Labels, path: str | os.PathLike[str]) -> None:
    """Write a label map, uint8 [h, w], as an 8-bit grey PNG whose values are class ids.

    The file appears under its name once it is complete. VideoError if it can't be written.
    """
    _, data = cv2.imencode(".png", checked_labels(labels))
    with written(Path(path)) as part:
        part.write_bytes(data.tobytes())


def resized_labels(labels: Labels, size: tuple[int, int]) -> Labels:
    """Resize a label map to ``size`` (w, h), by nearest neighbour."""
    if labels.shape == size[::-1]:
        return labels
    return np.asarray(cv2.resize(labels, size, interpolation=cv2.INTER_NEAREST), dtype=np.uint8)


def checked_labels(labels: Labels) -> Labels:
    """Return the label map, contiguous; UsageError unless it is uint8 [h, w] and not empty."""
    if labels.dtype != np.uint8 or labels.ndim != 2 or not labels.size:
        raise UsageError(f"labels are {labels.dtype} {list(labels.shape)}. Give uint8 [h, w], class ids 0 to 255.")
    return np.ascontiguousarray(labels)


MOST_CHANNELS = 16
"""Of one map; they lie below each other in the frame."""
LARGEST = 65504.0
"""The largest half float; what is larger is written as this."""
_CHANNELS = "CHANNELS"


class ValueWriter(GreyWriter):
    """Writes maps of numbers as FFV1 in Matroska, one float16 per pixel (pixel format gray16le).

    Channels lie below each other. Times, sizes and errors as of ``LabelWriter``; maps of another size are brought
    to it by interpolation. ``clipped``: how many finite numbers were larger than a half float can be.
    """

    _pixels = "gray16le"
    _channels: tuple[int, ...] = ()
    clipped = 0

    def append(self, values: Array, pts_seconds: float | None = None, *, duration_seconds: float | None = None) -> None:
        """Add one map, float [h, w] or up to 16 channels of it; ``duration_seconds``: its duration if it is the last.

        UsageError for anything else, and for other channels than those of the first map.
        """
        if values.dtype.kind != "f" or values.ndim not in (2, 3) or not values.size:
            raise UsageError(
                f"a map of numbers is {values.dtype} {list(values.shape)}. Give float [h, w] or [channels, h, w]."
            )
        if values.ndim == 3 and len(values) > MOST_CHANNELS:
            raise UsageError(
                f"a map of {len(values)} channels; {MOST_CHANNELS} at most are written. Run a Session instead."
            )
        if self._size is None or self._stream is None:
            height, width = values.shape[-2:]
            self._size, self._channels = self._size or (width, height), values.shape[:-2]
        if values.shape[:-2] != self._channels:
            raise UsageError(
                f"a map of shape {list(values.shape)} after one of {list(self._channels)} channels; give as many channels."
            )
        planes = np.asarray(values, np.float32).reshape(-1, *values.shape[-2:])
        if values.shape[-2:] != self._size[::-1]:
            planes = np.stack([cv2.resize(plane, self._size, interpolation=cv2.INTER_LINEAR) for plane in planes])
        self.clipped += int(np.count_nonzero(np.isfinite(planes) & (np.abs(planes) > LARGEST)))
        halves = np.where(np.isfinite(planes), np.clip(planes, -LARGEST, LARGEST), planes).astype("<f2")
        words = halves.reshape(-1, self._size[0]).view(_TYPES["gray16le"])
        channels = {_CHANNELS: str(len(values))} if values.ndim == 3 else {}
        self._write(words, pts_seconds, duration_seconds, **channels)


def read_values(path: str | os.PathLike[str]) -> Iterator[Array]:
    """Yield the maps of a ``values.mkv``, float32 [h, w], or [channels, h, w] if they were written with channels.

    VideoError if it isn't one, or at the place where it is cut short; FFV1's decoder conceals damage inside of a frame.
    """
    for words, metadata in read_grey(path, pixels="gray16le", what="value"):
        found = np.ascontiguousarray(words, _TYPES["gray16le"]).view("<f2").astype(np.float32)
        channels = {key.upper(): value for key, value in metadata.items()}.get(_CHANNELS)
        yield found if channels is None else found.reshape(int(channels), -1, found.shape[1])


def write_npy(values: Array, path: str | os.PathLike[str]) -> None:
    """Write one map in numpy's own format; the file appears under its name once it is complete.

    VideoError if it can't be written.
    """
    with written(Path(path)) as part, part.open("wb") as file:
        np.save(file, np.ascontiguousarray(values))
