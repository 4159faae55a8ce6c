"""Label maps drawn over the picture."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

from clockseg.errors import UsageError
from clockseg.types import Image, Labels

Palette = npt.NDArray[np.uint8] | Sequence[Sequence[int]]


def overlay(image: Image, labels: Labels, palette: Palette, *, opacity: float = 0.5) -> Image:
    """The picture, uint8 RGB [h, w, 3], tinted by class; ``labels`` is uint8 [h, w], ``palette`` [classes, 3] RGB.

    Pixels of no class (255, or any id beyond the palette) are left clear. UsageError if the sizes differ.

    >>> overlay(np.zeros((1, 2, 3), np.uint8), np.array([[0, 255]], np.uint8), [[200, 100, 0]]).tolist()
    [[[100, 50, 0], [0, 0, 0]]]
    """
    colours = np.asarray(palette, dtype=np.uint8).reshape(-1, 3)[:255]
    if image.shape[:2] != labels.shape:
        raise UsageError(f"the picture is {image.shape[:2]}, the labels are {labels.shape} (h, w). Give one size.")
    table = np.zeros((256, 1, 3), np.uint8)
    table[: len(colours), 0] = colours
    blend = cv2.addWeighted(image, 1 - opacity, cv2.applyColorMap(labels, table), opacity, 0)
    if int(labels.max(initial=0)) >= len(colours):
        clear = cv2.compare(labels, float(len(colours)), cv2.CMP_GE)
        cv2.copyTo(image, clear, blend)
    return np.asarray(blend, dtype=np.uint8)
