"""The label maps of all runs, for a browser: scaled down, thinned out, compared, and summarized in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import cv2
import numpy as np

from clockseg.errors import ClocksegError
from clockseg.evaluation.metrics import Confusion, confusion, finite
from clockseg.report.page import deflated, packed
from clockseg.report.run import Run, places
from clockseg.types import Array, Labels, Size
from clockseg.video.maps import resized_labels

PIXELS = 200_000_000
"""The most pixels of all maps of a run before compression; beyond that, maps get smaller, then fewer."""
NUMBERS_PIXELS = 50_000_000
"""The same for maps of numbers, which compress badly."""
_SIDES = (640, 480, 320)
"""Possible longer sides of a map."""
_CHUNK = 24
"""Maps that are compressed together, of which the first is complete: a browser unpacks a chunk to show one map."""
_COARSE = 0xF8
"""The bits of a level of brightness that are kept: 32 levels, which compress well."""
_LEAST_SHARE = 0.0005
"""A class that never covers this share of a picture is not listed."""


class Grid(NamedTuple):
    """Resolution in space and time at which maps are stored: their size, and every ``every``-th of them."""

    size: Size
    every: int

    def scaled(self, labels: Labels) -> Labels:
        """Scale a map to this size, by nearest neighbour."""
        return np.asarray(cv2.resize(labels, self.size, interpolation=cv2.INTER_NEAREST_EXACT), np.uint8)


def grid(size: Size, frames: int, pixels: int) -> Grid:
    """Choose the grid that stores ``frames`` maps of ``size`` (w, h) in at most ``pixels``."""
    scales = (min(1.0, side / max(size)) for side in _SIDES)
    sizes = [(max(1, round(size[0] * scale)), max(1, round(size[1] * scale))) for scale in scales]
    small = next((one for one in sizes if one[0] * one[1] * frames <= pixels), sizes[-1])
    return Grid(small, max(1, -(-small[0] * small[1] * frames // pixels)))


class Masks:
    """The stored maps of a run, added frame by frame: each as the XOR with the one before, in compressed chunks."""

    def __init__(self, kept: Grid) -> None:
        self.grid, self.frames = kept, 0
        self._kept: list[Array] = []
        self._last: Array = np.zeros(0, np.uint8)
        self._chunks: list[str] = []
        self._count = 0

    def append(self, labels: Labels, index: int) -> None:
        """Add the map of frame ``index``, uint8 [h, w]; frames without a map repeat the previous one."""
        labels = self.grid.scaled(labels)
        while self.frames <= index:
            if self.frames % self.grid.every == 0:
                self._keep(labels if self.frames == index or not self._count else self._last)
            self.frames += 1

    def _keep(self, labels: Labels) -> None:
        self._kept.append(labels if not self._kept else labels ^ self._last)
        self._last = labels
        self._count += 1
        if len(self._kept) == _CHUNK:
            self._close()

    def _close(self) -> None:
        if self._kept:
            self._chunks.append(deflated(np.stack(self._kept).tobytes()))
            self._kept = []

    def facts(self) -> dict[str, Any]:
        """Return plain values for the page."""
        self._close()
        size = {"width": self.grid.size[0], "height": self.grid.size[1]}
        return size | {"every": self.grid.every, "kept": self._count, "chunk": _CHUNK, "chunks": self._chunks}


class Difference:
    """Differences of the labels of one run from those of another, summed over frames and pixels with a class in both."""

    def __init__(self, kept: Grid, frames: int, classes: int) -> None:
        self._grid, self._classes, self._frames = kept, classes, 0
        self._agreement = np.full(frames, np.nan, np.float32)
        self._counts = Confusion.none(classes)
        self._differs = np.zeros(kept.size[::-1], np.int64)

    def append(self, index: int, labels: Labels, other: Labels) -> None:
        """Add the maps, uint8 [h, w], of frame ``index``; ``other`` is resized to the size of ``labels``."""
        other = resized_labels(other, (labels.shape[1], labels.shape[0]))
        counts = confusion(other, labels, self._classes, where=labels < self._classes)
        self._counts += counts
        self._agreement[index] = counts.pixel_acc
        self._differs += self._grid.scaled(labels) != self._grid.scaled(other)
        self._frames += 1

    def facts(self) -> dict[str, Any]:
        """Return plain values for the page; ``places``: 0..255, the share of the compared ``frames``."""
        width, height = self._grid.size
        return {
            "agreement": packed(self._agreement),
            "pixel_acc": finite(self._counts.pixel_acc),
            "mean_iu": finite(self._counts.mean_iu_of()),
            "places": packed(np.round(255 * self._differs / self._frames).astype(np.uint8)),
            "width": width,
            "height": height,
            "frames": self._frames,
        }


class Scan:
    """Summary of the maps of one run; ``shares``: of each class id in each frame, ``means``: of numbers, NaN for no map."""

    def __init__(self, run: Run, frames: int) -> None:
        self.run, self.frames = run, frames
        self.shares = np.full((frames, len(run.classes) or 255), np.nan, np.float32)
        self.means = np.full(frames, np.nan, np.float32)
        self.masks: Masks | None = None
        self.difference: Difference | None = None

    def take(self, index: int, labels: Labels, mean: float) -> None:
        """Add the map of frame ``index``, uint8 [h, w], and the mean of its numbers."""
        if self.masks is None:
            pixels = NUMBERS_PIXELS if self.run.numeric else PIXELS
            self.masks = Masks(grid((labels.shape[1], labels.shape[0]), self.frames, pixels))
        self.masks.append(np.where(labels == 255, labels, labels & _COARSE) if self.run.numeric else labels, index)
        self.means[index] = mean
        # An id without a name is not a class, for example 255, the border outside a network's view.
        self.shares[index] = np.bincount(labels.ravel(), minlength=256)[: self.shares.shape[1]] / labels.size

    def facts(self) -> dict[str, Any]:
        """Return plain values for the page."""
        most = np.nan_to_num(self.shares).max(axis=0, initial=0)
        listed = [] if self.run.numeric or self.masks is None else np.flatnonzero(most >= _LEAST_SHARE).tolist()
        return {
            "masks": None if self.masks is None else self.masks.facts(),
            "shares": [{"id": id, "share": packed(self.shares[:, id])} for id in listed],
            "means": packed(self.means) if self.run.numeric else None,
            "difference": None if self.difference is None else self.difference.facts(),
        }


def scan(runs: Sequence[Run], warn: Callable[[str], None]) -> list[Scan]:
    """Summarize the maps of ``runs`` on the timeline of the first; ``warn`` gets a sentence on whatever could not be read."""
    first = runs[0]
    found = [Scan(run, first.frames) for run in runs]
    streams = [_in_step(run, places(run, first), warn) for run in runs]
    for index, maps in enumerate(zip(*streams, strict=True)):
        for one, given in zip(found, maps, strict=True):
            if given is not None:
                one.take(index, *given)
        if maps[0] is None or (masks := found[0].masks) is None:
            continue
        for one, given in zip(found[1:], maps[1:], strict=True):
            if given is not None and comparable(first, one.run):
                one.difference = one.difference or Difference(masks.grid, first.frames, len(first.classes))
                one.difference.append(index, maps[0][0], given[0])
    return found


def comparable(run: Run, other: Run) -> bool:
    """Return True if the label ids of two runs have the same meaning."""
    return bool(run.classes) and run.classes == other.classes and not (run.numeric or other.numeric)


def _in_step(run: Run, at: Array, warn: Callable[[str], None]) -> Iterator[tuple[Labels, float] | None]:
    """Yield this run's map for each frame of the first run, or None; ``at``: its index, -1 for none."""
    maps, taken, ended = run.maps(), 0, False
    for place in at:
        given = None
        while place >= taken and not ended:
            try:
                given, why = next(maps, None), "there are fewer maps than frames"
            except ClocksegError as error:
                given, why = None, str(error)
            ended, taken = given is None, taken + 1
            if ended and run.kind is not None:
                warn(f"{run.folder}: its maps end after {taken - 1} of {run.frames} frames ({why})")
        yield given
