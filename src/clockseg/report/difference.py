"""Differences between the labels of two runs, by place and by time."""

from __future__ import annotations

from typing import Any

import numpy as np

from clockseg.evaluation.metrics import Confusion, confusion, finite
from clockseg.report.masks import Grid
from clockseg.report.packed import packed
from clockseg.types import Array, Labels
from clockseg.video.maps import resized_labels


class Difference:
    """Differences of the labels of one run from those of another, summed over frames and pixels with a class in both.

    >>> found = Difference(Grid((2, 1), 1), frames=1, classes=2)
    >>> found.append(0, np.array([[0, 1]], np.uint8), np.array([[0, 0]], np.uint8))
    >>> found.facts()["pixel_acc"]
    0.5
    """

    def __init__(self, kept: Grid, *, frames: int, classes: int) -> None:
        self._grid, self._classes = kept, classes
        self._agreement = np.full(frames, np.nan, np.float32)
        self._counts = Confusion.none(classes)
        self._differs = np.zeros(kept.size[::-1], np.int64)
        self._seen = 0

    def append(self, index: int, labels: Labels, other: Labels) -> None:
        """Add the maps, uint8 [h, w], of frame ``index``; ``other`` is resized to the size of ``labels``."""
        other = resized_labels(other, (labels.shape[1], labels.shape[0]))
        counts = confusion(other, labels, self._classes, where=labels < self._classes)
        self._counts += counts
        self._agreement[index] = counts.pixel_acc
        self._differs += self._grid.scaled(labels) != self._grid.scaled(other)
        self._seen += 1

    def facts(self) -> dict[str, Any] | None:
        """Return plain values for the page, or None if no frame was compared. ``places``: 0..255, the share of frames."""
        if not self._seen:
            return None
        places: Array = np.round(255 * self._differs / self._seen).astype(np.uint8)
        return {
            "agreement": packed(self._agreement),
            "pixel_acc": finite(self._counts.pixel_acc),
            "mean_iu": finite(self._counts.mean_iu_of()),
            "places": packed(places),
            "width": self._grid.size[0],
            "height": self._grid.size[1],
            "frames": self._seen,
        }
