"""Masks and maps of numbers drawn over a picture."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

from clockseg.errors import UsageError
from clockseg.types import Array, Image, Labels

Colour = tuple[int, int, int]


def palette(classes: int) -> tuple[Colour, ...]:
    """Return well separated RGB colours, always the same for a class id.

    >>> palette(2)
    ((214, 81, 81), (81, 120, 214))
    """
    golden = 0.6180339887
    hues = ((golden * k) % 1 for k in range(classes))
    return tuple(
        (round(255 * r), round(255 * g), round(255 * b))
        for r, g, b in (colorsys.hsv_to_rgb(hue, 0.62, 0.84) for hue in hues)
    )


def colours_of(own: Sequence[Sequence[int]], classes: int = 0) -> Sequence[Sequence[int]]:
    """Return a network's ``own`` colours; if it has none, those of ``palette`` for so many ``classes``, or for all ids if 0."""
    return own or palette(classes or 255)


Palette = npt.NDArray[np.uint8] | Sequence[Sequence[int]]


def overlay(image: Image, labels: Labels, palette: Palette, *, opacity: float = 0.5) -> Image:
    """Tint a picture, uint8 RGB [h, w, 3], by class; ``labels`` is uint8 [h, w], ``palette`` [classes, 3] RGB.

    Pixels of no class (255, or any id beyond the palette) are left clear. UsageError if the sizes differ.
    """
    colours = np.asarray(palette, dtype=np.uint8).reshape(-1, 3)[:255]
    if image.shape[:2] != labels.shape:
        raise UsageError(f"the picture is {image.shape[:2]}, the labels are {labels.shape} (h, w). Give one size.")
    return np.asarray(tinted(image, labels, colours, opacity=opacity), dtype=np.uint8)


def tinted(picture: Array, labels: Labels, colours: Array, *, opacity: float = 0.5, out: Array | None = None) -> Array:
    """Blend a picture, or a plane of one, with the colours of its labels, into ``out`` if given.

    ``colours``: of at most 255 ids, or their values in that plane, uint8 [classes, channels]; other ids are left clear.
    """
    table = np.zeros((256, 1, colours.shape[1]), np.uint8)
    table[: len(colours), 0] = colours
    # For a plane, half the time of applyColorMap.
    coloured = (cv2.LUT if picture.ndim == 2 else cv2.applyColorMap)(labels, table)
    blend = cv2.addWeighted(picture, 1 - opacity, coloured, opacity, 0, dst=out)
    if int(labels.max(initial=0)) >= len(colours):
        cv2.copyTo(picture, cv2.compare(labels, float(len(colours)), cv2.CMP_GE), blend)
    return np.asarray(blend)


ENDS = (1.0, 99.0)
"""Percentiles of a map that are drawn in the darkest and the brightest colour."""
_FOLLOW = 0.1
"""The weight of a new frame in the ends of the scale: colours must not flicker with a single bright spot."""
SAMPLED = 20_000
"""About how many numbers of a map the percentiles are taken from."""
HEAT_COLOURS: Array = cv2.applyColorMap(np.arange(255, dtype=np.uint8)[:, None], cv2.COLORMAP_VIRIDIS)[:, 0, ::-1]
"""RGB of the numbers of ``Heat.levels``."""


class Heat:
    """Draws the first channel of each map. ``scale``: the numbers for the darkest and the brightest colour.

    Without one, the scale follows the values slowly.
    """

    def __init__(self, scale: tuple[float, float] | None = None) -> None:
        self._fixed = scale is not None
        self._ends: Array | None = None if scale is None else np.array(scale, np.float64)

    def __call__(self, image: Image, values: Array) -> Image:
        """Tint a picture, uint8 RGB [h, w, 3], by ``values``, float [h, w] or [channels, h, w]; clear where they are not finite."""
        return overlay(image, self.levels(values), HEAT_COLOURS)

    def levels(self, values: Array) -> Labels:
        """Return the number of the colour of each value, uint8 [h, w], 0 to 254; 255 where it is not finite."""
        values = values if values.ndim == 2 else values[0]
        known = np.isfinite(values)
        self._move(values[known])
        low, high = (0.0, 0.0) if self._ends is None else self._ends
        scaled = (np.where(known, values, low) - low) / max(high - low, 1e-12)
        return np.where(known, np.clip(scaled * 254, 0, 254), 255).astype(np.uint8)

    def _move(self, values: Array) -> None:
        if self._fixed or not values.size:
            return
        now = np.percentile(values[:: max(1, values.size // SAMPLED)], ENDS)
        self._ends = now if self._ends is None else self._ends + _FOLLOW * (now - self._ends)
