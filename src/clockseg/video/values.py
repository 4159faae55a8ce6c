"""Maps of numbers on disk (depth, edges): half floats, 16 bits a pixel, without loss from there on.

A half float has 11 binary digits, so a value is within 0.05 % of what it was, whatever its range: no scale has to be known
before the last frame, and none is lost. As grey levels, values of 0 and more are in order, so that a player shows a picture.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import cv2
import numpy as np

from clockseg.errors import UsageError
from clockseg.types import Array, Size
from clockseg.video._grey import GreyWriter, read_grey
from clockseg.video._part import written
from clockseg.video._whole import Whole

MOST_CHANNELS = 16
"""Of one map; they lie below each other in the frame."""
LARGEST = 65504.0
"""The largest half float; what is larger is written as this."""
_CHANNELS = "CHANNELS"
_WORD = np.dtype("<u2")


class ValueWriter(Whole):
    """Writes maps of numbers as FFV1 in Matroska, pixel format gray16le: the 16 bits are a half float.

    Channels lie below each other. Times, sizes and errors as of ``LabelWriter``; maps of another size are brought
    to it by interpolation. ``clipped``: how many finite numbers were larger than a half float can be.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with ValueWriter(f"{folder}/values.mkv", fps=25) as writer:
    ...         writer.append(np.array([[0.5, -2.0, 1e9]]), 0.0)
    ...     [values.tolist() for values in read_values(f"{folder}/values.mkv")], writer.clipped
    ([[[0.5, -2.0, 65504.0]]], 1)
    """

    def __init__(
        self, path: str | os.PathLike[str], *, fps: Fraction | float | None = None, size: Size | None = None
    ) -> None:
        self.clipped = 0
        self._video = GreyWriter(path, pixels="gray16le", fit=_refused, fps=fps)
        self._size = size
        self._shape: tuple[int, ...] | None = None

    def append(self, values: Array, pts_seconds: float | None = None, *, duration_seconds: float | None = None) -> None:
        """Adds one map, float [h, w] or [channels, h, w]; ``duration_seconds``: how long it is shown if it is the last."""
        values = checked(values)
        if self._shape is None:
            self._shape = (*values.shape[:-2], *(self._size[::-1] if self._size else values.shape[-2:]))
        if values.shape[:-2] != self._shape[:-2]:
            raise UsageError(f"a map of shape {list(values.shape)} after {list(self._shape)}; give as many channels.")
        values = resized(values, (self._shape[-1], self._shape[-2]))
        self.clipped += int(np.count_nonzero(np.isfinite(values) & (np.abs(values) > LARGEST)))
        halves = np.where(np.isfinite(values), np.clip(values, -LARGEST, LARGEST), values).astype("<f2")
        metadata = {} if values.ndim == 2 else {_CHANNELS: str(len(values))}
        words = halves.reshape(-1, values.shape[-1]).view(_WORD)
        self._video.append(words, pts_seconds, duration_seconds=duration_seconds, metadata=metadata)

    def close(self) -> None:
        """Completes the file and gives it its name."""
        self._video.close()

    def abort(self) -> None:
        """Removes what was written."""
        self._video.abort()


def read_values(path: str | os.PathLike[str]) -> Iterator[Array]:
    """Yields the maps of a ``values.mkv``, float32 [h, w], or [channels, h, w] if they were given with channels.

    VideoError if it isn't one, or at the place where it is damaged or cut short.
    """
    for words, metadata in read_grey(path, pixels="gray16le", what="value"):
        found = np.ascontiguousarray(words, _WORD).view("<f2").astype(np.float32)
        channels = {key.upper(): value for key, value in metadata.items()}.get(_CHANNELS)
        yield found if channels is None else found.reshape(int(channels), -1, found.shape[1])


def write_npy(values: Array, path: str | os.PathLike[str]) -> None:
    """Writes one map as it is, in numpy's own format; the file appears under its name once it is whole.

    VideoError if it can't be written.
    """
    with written(Path(path)) as part, part.open("wb") as file:
        np.save(file, np.ascontiguousarray(values))


def resized(values: Array, size: tuple[int, int]) -> Array:
    """The map at ``size`` (w, h), bilinear.

    >>> resized(np.array([[0.0, 1.0]], np.float32), (4, 1)).tolist()
    [[0.0, 0.25, 0.75, 1.0]]
    """
    if values.shape[-2:] == size[::-1]:
        return values
    planes = values.reshape(-1, *values.shape[-2:])
    found = np.stack([cv2.resize(plane, size, interpolation=cv2.INTER_LINEAR) for plane in planes])
    return found if values.ndim == 3 else np.asarray(found[0])


def checked(values: Array) -> Array:
    """The map as float32; UsageError unless it is float, [h, w] or up to 16 channels of it, with pixels in it."""
    if values.dtype.kind != "f" or values.ndim not in (2, 3) or not values.size:
        raise UsageError(
            f"a map of numbers is {values.dtype} {list(values.shape)}. Give float [h, w] or [channels, h, w]."
        )
    if values.ndim == 3 and len(values) > MOST_CHANNELS:
        raise UsageError(
            f"a map of {len(values)} channels; {MOST_CHANNELS} at most are written. Run a Session instead."
        )
    return np.asarray(values, np.float32)


def _refused(values: Array, size: tuple[int, int]) -> Array:
    raise UsageError(f"a map of shape {list(values.shape)} in a video of {size[0]}x{size[1]}.")
