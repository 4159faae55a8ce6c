"""Samples for heads: cells of feature maps, each with the network's labels of the pixels it covers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from clockseg.networks.framing import Framing, OwnSize
from clockseg.types import Array, Labels, Size

MOST_CELLS = 30_000
MOST_NUMBERS = 32_000_000
"""Limit of the numbers kept per stage, 128 MB; with more than a thousand channels there are fewer cells."""
_FINEST = 8
"""Side of the grid on which a cell's pixels are sampled, at most."""


@dataclass(frozen=True)
class Grid:
    """The cells of a map [h, w] in a frame of ``frame`` (WIDTH, HEIGHT), without those in the padding.

    ``spans``: per axis (down, across) a cell's side in the frame's pixels; ``shape``: rows and columns not in the padding.
    """

    shape: tuple[int, int]
    spans: tuple[float, float]
    frame: Size

    @classmethod
    def of(cls, cells: tuple[int, int], framing: Framing | OwnSize, frame: Size) -> Grid:
        """Return the grid of a map of ``cells`` rows and columns.

        >>> Grid.of((7, 12), Framing(96, 72, pad_multiple=8), (192, 108))
        Grid(shape=(7, 12), spans=(16.0, 16.0), frame=(192, 108))
        """
        scaled, padded = framing.scaled(frame), framing.padded(frame)
        rows, columns = (_inside(cells[axis], padded[1 - axis], scaled[1 - axis]) for axis in (0, 1))
        down, across = (padded[1 - axis] / cells[axis] * frame[1 - axis] / scaled[1 - axis] for axis in (0, 1))
        return cls((rows, columns), (down, across), frame)

    def centres(self, labels: Labels) -> Labels:
        """Return the labels [rows, columns] at the cells' centres; ``labels``: at the frame's size."""
        rows, columns = (self._pixels(axis, np.arange(self.shape[axis]) + 0.5) for axis in (0, 1))
        return labels[rows[:, None], columns]

    def shares(self, labels: Labels, cells: Array, classes: int) -> Array:
        """Return the share of each class among the pixels of ``cells`` (row * columns + column), float32 [n, classes]."""
        fine = [max(1, min(_FINEST, round(span))) for span in self.spans]
        places = [(np.arange(each) + 0.5) / each for each in fine]
        row, column = np.divmod(cells, self.shape[1])
        rows = self._pixels(0, row[:, None] + places[0])
        columns = self._pixels(1, column[:, None] + places[1])
        seen = labels[rows[:, :, None], columns[:, None, :]].reshape(len(cells), -1).astype(np.int64)
        found = np.zeros((len(cells), classes + 1), np.float32)
        # Pixels without a class (255) are counted in a further column, which is dropped.
        np.add.at(found, (np.arange(len(cells))[:, None], np.minimum(seen, classes)), 1)
        found = found[:, :classes]
        total = found.sum(axis=1, keepdims=True)
        return np.asarray(found / np.maximum(total, 1))

    def _pixels(self, axis: int, places: Array) -> Array:
        return np.minimum((places * self.spans[axis]).astype(np.int64), self.frame[1 - axis] - 1)


def _inside(cells: int, padded: int, scaled: int) -> int:
    """Return the number of cells with their centre in the picture: at least one."""
    return max(1, int(np.count_nonzero((np.arange(cells) + 0.5) * padded / cells < scaled)))


class Cells(NamedTuple):
    """Cells of one stage: features [n, channels], and the shares of classes that the network gives them, [n, classes]."""

    features: Array
    shares: Array

    def weights(self) -> Array:
        """Return each cell's weight: classes count by their share to the power -1/2, which raises rare ones moderately."""
        share = self.shares.mean(axis=0, dtype=np.float64)
        return self.shares @ np.where(share > 0, 1 / np.sqrt(np.maximum(share, 1e-6)), 0.0)


def per_frame(channels: int, frames: int) -> int:
    """Return the number of cells to keep from each of ``frames`` frames.

    >>> per_frame(64, 240), per_frame(4096, 240)
    (125, 32)
    """
    return max(1, min(MOST_CELLS, MOST_NUMBERS // channels) // max(1, frames))


def draw(
    features: Array, labels: Labels, grid: Grid, *, count: int, classes: int, random: np.random.Generator
) -> Cells:
    """Draw up to ``count`` cells of one frame; ``features``: [channels, h, w], ``labels``: at the frame's size."""
    total = grid.shape[0] * grid.shape[1]
    cells = random.choice(total, min(count, total), replace=False, shuffle=False)
    row, column = np.divmod(cells, grid.shape[1])
    shares = grid.shares(labels, cells, classes)
    known = shares.sum(axis=1) > 0
    return Cells(features[:, row, column].T[known].astype(np.float32), shares[known])
