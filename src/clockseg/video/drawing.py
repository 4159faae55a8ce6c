"""The overlay video of a run: class ids drawn over each picture, and the bands below it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction

import av
import cv2
import numpy as np

from clockseg.types import Array, Image, Labels, Size
from clockseg.video.bands import Activity, Band, Legend, Strip
from clockseg.video.clip import Frame
from clockseg.video.colour import matrix_for
from clockseg.video.overlay import OverlayWriter, Palette, fitted, overlay
from clockseg.video.planar import FORMAT, Decoded, Tint, ToPlanes, even, planes_of, put

STRIPS = ("activity", "stages")
"""The bars that show below the picture when the network ran; the first is the default."""


class Drawing(OverlayWriter):
    """An overlay video with bands: when the ``stages`` (their names) fired, as one of ``STRIPS``, and a legend.

    ``palette``: RGB by id; ``classes``: their names, None for no legend. ``size``: (w, h) of the pictures without bands (None:
    of the first one). Frames of that size are drawn on the planes that the decoder gave; others in RGB, and fitted in.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        stages: Sequence[str],
        palette: Palette,
        *,
        classes: Sequence[str] | None = None,
        strip: str = STRIPS[0],
        fps: Fraction | None = None,
        size: Size | None = None,
    ) -> None:
        super().__init__(path, fps=fps)
        self._stages, self._strip, self._classes = stages, strip, classes
        self._palette, self._picture_size = np.asarray(palette, np.uint8)[:255], size
        self._bands: tuple[Band, Legend | None] | None = None

    def draw(self, frame: Frame, drawn: Labels | Image, fired: Sequence[bool], fill: bool) -> None:
        """Add one frame; ``drawn``: class ids, uint8 [h, w], or the picture if it is drawn already, uint8 RGB [h, w, 3]."""
        strip, legend = self._bands = self._bands or self._begin(self._picture_size or frame.size)
        below = strip.draw(fired, fill)
        if legend is not None:
            below = np.concatenate([legend.draw(drawn, fill=fill), below])
        picture: Image | av.VideoFrame
        if drawn.ndim == 3:
            picture = stacked(drawn, below)
        elif frame.size == self._picture_size:
            picture = self._tinted(frame, drawn, below)
        else:
            picture = stacked(overlay(frame.image, drawn, self._palette), below)
        self.append(
            picture, frame.pts_seconds, duration_seconds=frame.duration_seconds, pixel_aspect=frame.pixel_aspect
        )

    def _begin(self, size: Size) -> tuple[Band, Legend | None]:
        stages = self._stages
        strip: Band = Strip(size, stages) if self._strip == "stages" else Activity(size, len(stages))
        legend = None if self._classes is None else Legend(size, self._classes, self._palette)
        below = strip.height + (0 if legend is None else legend.height)
        self._picture_size, self._size = size, (size[0], size[1] + below)
        matrix = matrix_for(size[1] + size[1] % 2 + below)
        self._planes, self._tint = ToPlanes(matrix), Tint(self._palette, matrix)
        return strip, legend

    def _tinted(self, frame: Frame, ids: Labels, below: Image) -> av.VideoFrame:
        if isinstance(frame.picture, Decoded) and even(frame.size):
            picture = self._planes.picture(frame.picture.frame)
        else:
            picture, ids = planes_of(self._planes.rgb(_padded(frame.image))), _padded(ids)
        band = planes_of(self._planes.rgb(_padded(below)))
        height, width = picture.y.shape
        drawn = av.VideoFrame(width, height + band.y.shape[0], FORMAT)
        out = planes_of(drawn)
        self._tint.draw(picture, ids, out)
        put(band, out, height)
        return drawn


def _padded(image: Array) -> Array:
    """Return a picture or labels with even sides: the last row and column are repeated if they are odd."""
    height, width = image.shape[:2]
    return fitted(image, (width + width % 2, height + height % 2))


def stacked(picture: Image, below: Image) -> Image:
    """Return the picture with a band below it; a picture of another width (frames changed size) is scaled to the band's.

    >>> stacked(np.zeros((10, 20, 3), np.uint8), np.zeros((4, 40, 3), np.uint8)).shape
    (24, 40, 3)
    """
    width = below.shape[1]
    if picture.shape[1] != width:
        height = max(1, round(picture.shape[0] * width / picture.shape[1]))
        picture = np.asarray(cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
    return np.concatenate([picture, below])
