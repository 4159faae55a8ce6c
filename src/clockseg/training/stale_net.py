"""The small fusion that reads moved stale scores: torch's side of what ``stale_export`` writes as a graph."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTH, DEEP = 48, 64
"""Channels at the grid it works on, and at half of it."""
STEM = 24
STEM_STRIDE = 8
"""Pixels a cell of what the picture becomes."""


@dataclass(frozen=True)
class Shape:
    """The properties of a network that determine its fusion.

    ``classes`` of the score map; ``features``: channels of the stage that it reads, 0: it reads the picture. ``fold``: cells
    of the score map, in each direction, that it treats as one (1 or 2). ``even``: whether a map is always a multiple of that;
    else it is enlarged by a row, and cut again. ``fits``: whether what it reads, once convolved, has just the grid it works
    on; else that is resized. ``units``: of scores and of what it reads, their usual size.
    """

    classes: int
    features: int
    fold: int
    even: bool
    fits: bool
    units: tuple[float, float]


class Fusion(nn.Module):
    """Moved scores [n, classes, h, w], what is unexplained [n, 1, h, w], and the picture or features -> what to add.

    It starts by adding nothing. Two convolutions at the grid it works on, two more at half of it for a wider view.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        folded = shape.fold * shape.fold
        if shape.features:
            self.seen = nn.ModuleList([_conv(shape.features, WIDTH)])
        else:
            self.seen = nn.ModuleList([nn.Conv2d(3, STEM, 5, 4, 2), _conv(STEM, WIDTH, 2)])
        self.scores = nn.Conv2d(shape.classes + 1, WIDTH, shape.fold, shape.fold)
        self.near = _conv(WIDTH, WIDTH)
        self.wide = nn.ModuleList([_conv(WIDTH, DEEP, 2), _conv(DEEP, DEEP), nn.Conv2d(DEEP, WIDTH, 1)])
        self.last = _conv(WIDTH, WIDTH)
        self.head = nn.Conv2d(WIDTH, shape.classes * folded, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(_bias(self.head))

    def forward(self, seen: Tensor, moved: Tensor, unexplained: Tensor) -> Tensor:
        """The difference to the moved scores."""
        unit, unit_seen = self.shape.units
        before = torch.cat([moved / unit, unexplained * 4], 1)
        height, width = before.shape[2:]
        if not self.shape.even:
            before = functional.pad(before, (0, width % self.shape.fold, 0, height % self.shape.fold))
        scores = self.scores(before)
        for place, conv in enumerate(self.seen):
            seen = conv(seen / unit_seen if place == 0 else functional.relu(seen))
        if not self.shape.fits:
            seen = _resized(seen, scores)
        fused = functional.relu(self.near(functional.relu(seen + scores)))
        down, across, up = self.wide
        wide = up(functional.relu(across(functional.relu(down(fused)))))
        fused = functional.relu(fused + _resized(wide, fused))
        found = self.head(functional.relu(self.last(fused))) * unit
        found = functional.pixel_shuffle(found, self.shape.fold) if self.shape.fold > 1 else found
        return found if self.shape.even else found[:, :, :height, :width]


def _conv(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride, 1)


def _bias(conv: nn.Conv2d) -> Tensor:
    if conv.bias is None:
        raise ValueError("a convolution without a bias")
    return conv.bias


def _resized(value: Tensor, like: Tensor) -> Tensor:
    return functional.interpolate(value, size=like.shape[2:], mode="bilinear", align_corners=False)
