"""FCN-32s, FCN-16s and FCN-8s as modules, and the truncated nets that stop at pool3 or pool4.

    stage 1   conv1_1 .. pool3                      score_pool3
    stage 2   conv4_1 .. pool4                      score_pool4
    stage 3   conv5_1 .. pool5, fc6, fc7, score_fr  upscore2
    fuse      upscore2 + crop(score_pool4), upscore_pool4 + crop(score_pool3), upscore8, crop to the picture

The trunk is VGG-16 with a padding of 100 at its first convolution and poolings that round up (``clockseg.paper.fcn``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clockseg.paper.fcn import CONVS, CROPS, FCN8S, FCNShape, Layer, bilinear, layers


class Scores(NamedTuple):
    """``score`` at the picture's size; each stage's own scores, uncropped, where the net has that stage."""

    score: Tensor
    score_pool3: Tensor | None = None
    score_pool4: Tensor | None = None
    upscore2: Tensor | None = None


class Upscore(nn.ConvTranspose2d):
    """Bilinear enlargement: a fixed transposed convolution of each class, without padding or bias."""

    def __init__(self, classes: int, kernel: int, stride: int) -> None:
        super().__init__(classes, classes, kernel, stride=stride, groups=classes, bias=False)
        kernels = torch.from_numpy(bilinear(kernel)).expand(classes, 1, kernel, kernel).clone()
        self.weight = nn.Parameter(kernels, requires_grad=False)


def crop(map: Tensor, offset: int, size: Sequence[int]) -> Tensor:
    """Return the part of ``map`` [n, c, h, w] that begins at ``offset`` and has ``size`` (height, width).

    >>> crop(torch.zeros(1, 2, 10, 10), 3, (4, 5)).shape
    torch.Size([1, 2, 4, 5])
    """
    height, width = size
    return map[:, :, offset : offset + height, offset : offset + width]


class FCN(nn.Module):
    """An FCN, from [n, 3, h, w] BGR minus the mean, with any h and w of at least 1, to ``Scores``.

    >>> FCN(FCNShape(classes=5).narrowed(1 / 16)).eval()(torch.zeros(1, 3, 25, 33)).score.shape
    torch.Size([1, 5, 25, 33])
    """

    def __init__(self, shape: FCNShape = FCN8S) -> None:
        super().__init__()
        self.shape = shape
        for layer in layers(shape):
            if layer.weights:
                self.add_module(layer.name, _module(layer))
        self.crops = CROPS[shape.variant]

    def block(self, number: int, x: Tensor) -> Tensor:
        """Run conv<number>_1 to pool<number>."""
        for index in range(CONVS[number - 1]):
            x = F.relu(self.get_submodule(f"conv{number}_{index + 1}")(x))
        return F.max_pool2d(x, 2, 2, ceil_mode=True)

    def stage1(self, data: Tensor) -> Tensor:
        """Run from data to pool3."""
        return self.block(3, self.block(2, self.block(1, data)))

    def stage2(self, pool3: Tensor) -> Tensor:
        """Run from pool3 to pool4."""
        return self.block(4, pool3)

    def stage3(self, pool4: Tensor) -> Tensor:
        """Run from pool4 to fc7, with a dropout of 0.5 after fc6 and fc7 in training only."""
        fc6 = F.dropout(F.relu(self.fc6(self.block(5, pool4))), 0.5, self.training)
        return F.dropout(F.relu(self.fc7(fc6)), 0.5, self.training)

    def fuse_pool4(self, score_pool4: Tensor, upscore2: Tensor) -> Tensor:
        """Return upscore2 + crop(score_pool4)."""
        return upscore2 + crop(score_pool4, self.crops["fuse_pool4"], upscore2.shape[2:])

    def fuse_pool3(self, score_pool3: Tensor, upscore_pool4: Tensor) -> Tensor:
        """Return upscore_pool4 + crop(score_pool3)."""
        return upscore_pool4 + crop(score_pool3, self.crops["fuse_pool3"], upscore_pool4.shape[2:])

    def enlarged(self, fused: Tensor, size: Sequence[int]) -> Tensor:
        """Return the fused map [n, c, h, w] at the picture's ``size`` (height, width): upscore8, cropped."""
        return crop(self.get_submodule(self.shape.last)(fused), self.crops["score"], size)

    def forward(self, data: Tensor) -> Scores:
        size = data.shape[2:]
        pool3 = self.stage1(data)
        if self.shape.variant == "pool3":
            return Scores(self.enlarged(self.score_fr(pool3), size))
        pool4 = self.stage2(pool3)
        if self.shape.variant == "pool4":
            return Scores(self.enlarged(self.score_fr(pool4), size))
        score_fr = self.score_fr(self.stage3(pool4))
        if self.shape.variant == "fcn32s":
            return Scores(self.enlarged(score_fr, size))
        score_pool4, upscore2 = self.score_pool4(pool4), self.upscore2(score_fr)
        fused = self.fuse_pool4(score_pool4, upscore2)
        if self.shape.variant == "fcn16s":
            return Scores(self.enlarged(fused, size), None, score_pool4, upscore2)
        score_pool3 = self.score_pool3(pool3)
        fused = self.fuse_pool3(score_pool3, self.upscore_pool4(fused))
        return Scores(self.enlarged(fused, size), score_pool3, score_pool4, upscore2)


def _module(layer: Layer) -> nn.Module:
    if layer.kind == "deconv":
        return Upscore(layer.outputs, layer.kernel, layer.stride)
    return nn.Conv2d(layer.inputs, layer.outputs, layer.kernel, padding=layer.pad)
