"""Label maps on disk: one grey byte a pixel, the class id, lossless."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import cv2
import numpy as np

from clockseg.errors import UsageError
from clockseg.types import Labels, Size
from clockseg.video._grey import GreyWriter, read_grey
from clockseg.video._part import written
from clockseg.video._whole import Whole


class LabelWriter(Whole):
    """Writes label maps as FFV1 in Matroska, pixel format gray: the byte is the class id.

    Frame k is the k-th ``append``, at the time given to the millisecond (strictly increasing; frames without a time
    follow at ``fps``, or 25). ``size`` (w, h), or else the first frame, sets the size; others are brought to it by nearest
    neighbour. The file gets its name at ``close``; without any frame there is none. Leaving a ``with`` block closes, by an
    exception aborts. VideoError if it can't be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with LabelWriter(f"{folder}/labels.mkv", fps=25) as writer:
    ...         writer.append(np.full((2, 3), 255, np.uint8), 0.0)
    ...     [labels.tolist() for labels in read_labels(f"{folder}/labels.mkv")]
    [[[255, 255, 255], [255, 255, 255]]]
    """

    def __init__(
        self, path: str | os.PathLike[str], *, fps: Fraction | float | None = None, size: Size | None = None
    ) -> None:
        self._video = GreyWriter(path, pixels="gray", fit=resized, fps=fps, size=size)

    def append(
        self, labels: Labels, pts_seconds: float | None = None, *, duration_seconds: float | None = None
    ) -> None:
        """Adds one label map, uint8 [h, w]; ``duration_seconds``: how long it lasts if no other follows (None: 1 / ``fps``)."""
        self._video.append(checked(labels), pts_seconds, duration_seconds=duration_seconds)

    def close(self) -> None:
        """Completes the file and gives it its name."""
        self._video.close()

    def abort(self) -> None:
        """Removes what was written."""
        self._video.abort()


def read_labels(path: str | os.PathLike[str]) -> Iterator[Labels]:
    """Yields the label maps of a ``labels.mkv``, uint8 [h, w], bit for bit as written.

    VideoError if it isn't one, or at the place where it is damaged or cut short.
    """
    for labels, _ in read_grey(path, pixels="gray", what="label"):
        yield np.array(labels, dtype=np.uint8)


def write_png(labels: Labels, path: str | os.PathLike[str]) -> None:
    """Writes a label map, uint8 [h, w], as an 8-bit grey PNG: the value is the class id.

    The file appears under its name once it is whole. VideoError if it can't be written.
    """
    _, data = cv2.imencode(".png", checked(labels))
    with written(Path(path)) as part:
        part.write_bytes(data.tobytes())


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
