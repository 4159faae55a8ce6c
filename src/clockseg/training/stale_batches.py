"""Batches for a correction: windows of samples, turned over left to right at random, the picture's light varied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from clockseg.graph.sidecar import Input
from clockseg.training.stale_samples import IGNORE, Sample, Target
from clockseg.types import Array, Size

Window = tuple[int, int, int, int]
"""Top, left, rows and columns, in cells of the score map."""


class Batch(NamedTuple):
    """All float32 but ``labels``: int64 [n, rows, columns] at twice the grid of the score map, or None.

    ``seen``: what is read, [n, .., ..]; ``moved``, ``wanted``: scores; ``inside``: 1 where there is picture, [n, h, w].
    """

    seen: Tensor
    moved: Tensor
    unexplained: Tensor
    wanted: Tensor
    inside: Tensor
    labels: Tensor | None

    def turned(self) -> Batch:
        """Left and right exchanged."""
        labels = None if self.labels is None else self.labels.flip(-1)
        maps = (self.seen, self.moved, self.unexplained, self.wanted, self.inside)
        seen, moved, unexplained, wanted, inside = (one.flip(-1) for one in maps)
        return Batch(seen, moved, unexplained, wanted, inside, labels)


def _stacked(arrays: Sequence[Array]) -> Tensor:
    return torch.from_numpy(np.stack(arrays)).float()


@dataclass(frozen=True)
class Batches:
    """Draws batches of ``samples``; ``cell``: pixels a cell of the score map, (down, across).

    ``window``: rows and columns of cells that are seen at once; None: whole frames, where cells and pixels don't fit each
    other. ``features``: whether features are read; these can't be turned over. ``labels``: whether labels are learnt from.
    """

    samples: Sequence[Sample]
    given: Input
    cell: tuple[int, int]
    window: tuple[int, int] | None
    size: int
    features: bool
    feature_cells: int
    labels: bool

    def draw(self, random: np.random.Generator) -> Batch:
        """The next batch."""
        first = self.samples[int(random.integers(len(self.samples)))]
        alike = self.samples if self.window is not None else self._of_shape[first.moved.shape]
        others = [alike[place] for place in random.integers(0, len(alike), self.size - 1)]
        parts = [self._one(sample, random) for sample in (first, *others)]
        seen, moved, unexplained, wanted, inside, labels = (list(each) for each in zip(*parts, strict=True))
        if not self.features:
            seen = [self._lit(picture, random) for picture in seen]
        shown = torch.from_numpy(np.stack(labels).astype(np.int64)) if self.labels else None
        batch = Batch(_stacked(seen), _stacked(moved), _stacked(unexplained), _stacked(wanted), _stacked(inside), shown)
        turn = not self.features and random.random() < 0.5
        return batch.turned() if turn else batch

    @cached_property
    def _of_shape(self) -> dict[tuple[int, ...], list[Sample]]:
        """Frames of clips of another shape have maps of another size."""
        found: dict[tuple[int, ...], list[Sample]] = {}
        for sample in self.samples:
            found.setdefault(sample.moved.shape, []).append(sample)
        return found

    def _one(self, sample: Sample, random: np.random.Generator) -> tuple[Array, ...]:
        target, (down, across) = sample.target, self.cell
        height, width = sample.moved.shape[1:]
        top, left, rows, columns = self._placed(height, width, target.share, random)
        cells = slice(top, top + rows), slice(left, left + columns)
        pixels = slice(top * down, (top + rows) * down), slice(left * across, (left + columns) * across)
        if self.window is None:
            pixels = slice(None), slice(None)
        inside = np.zeros((height, width), np.float32)
        inside[: round(height * target.share[1]), : round(width * target.share[0])] = 1
        if target.features is not None:
            f = self.feature_cells
            seen = target.features
            if self.window is not None:
                seen = seen[:, top // f : (top + rows) // f, left // f : (left + columns) // f]
        else:
            seen = target.image[pixels]
        labels = self._labels(target.labels, pixels, (2 * rows, 2 * columns)) if self.labels else np.zeros(0)
        moved, unexplained, wanted = (
            a[:, cells[0], cells[1]] for a in (sample.moved, sample.unexplained, target.scores)
        )
        return seen, moved, unexplained, wanted, inside[cells], labels

    def _placed(self, height: int, width: int, share: tuple[float, float], random: np.random.Generator) -> Window:
        """Draw the position of a window in the picture, at a cell where features and folds begin."""
        if self.window is None:
            return 0, 0, height, width
        rows, columns = self.window
        step = max(2, self.feature_cells)
        most = [max(0, round(side * part) - size) // step for side, part, size in
                ((height, share[1], rows), (width, share[0], columns))]  # fmt: skip
        return (*(int(random.integers(0, last + 1)) * step for last in most), rows, columns)  # type: ignore[return-value]

    def _labels(self, labels: Array | None, pixels: tuple[slice, slice], size: Size) -> Array:
        """At twice the grid of the score map, the label in the middle of each place."""
        if labels is None:
            return np.full(size, IGNORE, np.uint8)
        part = labels[pixels]
        y = ((np.arange(size[0]) + 0.5) * part.shape[0] / size[0]).astype(int)
        x = ((np.arange(size[1]) + 0.5) * part.shape[1] / size[1]).astype(int)
        return np.asarray(part[y[:, None], x])

    def seen(self, target: Target) -> Array:
        """Return the fusion's input for a whole frame: features, or the picture as the network reads it."""
        return self._normal(target.image, np.ones(3), 0.0) if target.features is None else target.features

    def _lit(self, picture: Array, random: np.random.Generator) -> Array:
        """As the network reads it, [3, h, w], in another light."""
        gain = random.uniform(0.8, 1.25) * random.uniform(0.94, 1.06, 3)
        return self._normal(picture, gain, random.normal(0, 12))

    def _normal(self, picture: Array, gain: Array, level: float) -> Array:
        factor, offset = self.given.affine()
        if self.given.colour == "bgr":
            picture = picture[..., ::-1]
        lit = picture * (gain * factor).astype(np.float32) + (level * factor + offset).astype(np.float32)
        return np.ascontiguousarray(lit.transpose(2, 0, 1))
