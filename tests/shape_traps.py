"""One small encoder and decoder a trap: the operation that a reader of graphs, or a cut, may stumble over."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shape_branches import Attention, Block
from shapes import CLASSES, conv, like


class Plain(nn.Module):
    """Stem, two stages, a score map of each, the deep one enlarged and added: traps change one thing in it.

    ``low`` and ``deep`` are what stands between: maps of 8 channels at strides 4 and 8.
    """

    def __init__(self, low: nn.Module | None = None, deep: nn.Module | None = None) -> None:
        super().__init__()
        self.stem = conv(3, 8, stride=2)
        self.low = nn.Sequential(conv(8, 8, stride=2), low or nn.Identity())
        self.deep = nn.Sequential(conv(8, 8, stride=2), deep or nn.Identity())
        self.low_scores, self.deep_scores = nn.Conv2d(8, CLASSES, 1), nn.Conv2d(8, CLASSES, 1)

    def scores(self, x: Tensor) -> Tensor:
        low = self.low(self.stem(x))
        deep = self.deep(low)
        return self.low_scores(low) + like(self.deep_scores(deep), low)

    def forward(self, x: Tensor) -> object:
        return like(self.scores(x), x)


class Shuffle(nn.Module):
    """ShuffleNet's unit: half of the channels pass, and then both halves are dealt out in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.unit = conv(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        kept, worked = x.chunk(2, 1)
        x = torch.cat([kept, self.unit(worked)], 1)
        batch, channels, height, width = x.shape
        return x.view(batch, 2, channels // 2, height, width).transpose(1, 2).reshape(batch, channels, height, width)


class ConvNeXt(nn.Module):
    """A depthwise convolution, then normalisation and layers on channels that are last."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = nn.Conv2d(8, 8, 5, padding=2, groups=8)
        self.layers = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.scale = nn.Parameter(torch.full((8,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        return x + (self.scale * self.layers(self.depth(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2)


class Windows(nn.Module):
    """Swin's: the map rolled, padded to whole windows of 3x3 cells, attention inside each, and all of it undone."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Block(8)

    def forward(self, x: Tensor) -> Tensor:
        batch, channels, height, width = x.shape
        below, right = -height % 3, -width % 3
        rolled = F.pad(torch.roll(x, (-1, -1), (2, 3)), (0, right, 0, below))
        rows, columns = (height + below) // 3, (width + right) // 3
        cells = rolled.view(batch, channels, rows, 3, columns, 3).permute(0, 2, 4, 3, 5, 1)
        cells = self.block(cells.reshape(batch * rows * columns, 9, channels))
        cells = cells.view(batch, rows, columns, 3, 3, channels).permute(0, 5, 1, 3, 2, 4)
        found = cells.reshape(batch, channels, height + below, width + right)
        return torch.roll(found[..., :height, :width], (1, 1), (2, 3))


class Wide(nn.Module):
    """DANet's: every place attends to all, and every channel to all."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Conv2d(8, 4, 1), nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(2)
        weights = (self.query(x).flatten(2).transpose(1, 2) @ self.key(x).flatten(2)).softmax(-1)
        places = (flat @ weights.transpose(1, 2)).view_as(x)
        channels = (torch.softmax(flat @ flat.transpose(1, 2) / 100, -1) @ flat).view_as(x)
        return x + places + channels


class Coordinates(nn.Module):
    """Each place's own coordinates, made from the map's size, beside its channels."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Conv2d(10, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[-2:]
        rows = torch.arange(height, dtype=x.dtype).view(1, 1, height, 1).expand(x.shape[0], 1, height, width) / height
        columns = torch.arange(width, dtype=x.dtype).view(1, 1, 1, width).expand(x.shape[0], 1, height, width) / width
        return self.mix(torch.cat([x, rows, columns], 1))


class InPlace(nn.Module):
    """Writes into what it was given a name for: activations, sums, a slice of the channels."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(inplace=True))

    def forward(self, x: Tensor) -> Tensor:
        found = self.map(x)
        found += x
        found[:, :2] = found[:, :2] * 0.5
        return found


class Padded(Plain):
    """Pads the picture by its reflection to a multiple of 16, and crops the scores."""

    def forward(self, x: Tensor) -> object:
        height, width = x.shape[-2:]
        x = F.pad(x, (0, -width % 16, 0, -height % 16), mode="reflect")
        return like(self.scores(x), x)[..., :height, :width]


class IfSmaller(Plain):
    """Branches on shapes, which are known once the picture's size is."""

    def forward(self, x: Tensor) -> object:
        found = self.scores(x)
        if found.shape[-1] < x.shape[-1]:
            found = like(found, x)
        return found if found.shape[-2] > 8 else found * 2


class Everything(Plain):
    """Reads bytes as floats 0..255, normalises them itself, and gives class ids."""

    def forward(self, x: Tensor) -> object:
        mean = x.new_tensor([0.4, 0.5, 0.6]).view(1, 3, 1, 1)
        return super().forward((x - mean) / 0.25).softmax(1).argmax(1)


class Probabilities(Plain):
    """Ends in a softmax over what was enlarged."""

    def forward(self, x: Tensor) -> object:
        return like(self.scores(x), x).softmax(1)


class Shared(Plain):
    """One block at both strides, and one score layer for both: called twice, with the same weights."""

    def __init__(self) -> None:
        super().__init__()
        self.both = conv(8, 8)

    def scores(self, x: Tensor) -> Tensor:
        low = self.both(self.low(self.stem(x)))
        deep = self.both(self.deep(low))
        return self.low_scores(low) + like(self.low_scores(deep), low)


class FromThePicture(Plain):
    """A residual: scores are added to a convolution of the picture itself."""

    def __init__(self) -> None:
        super().__init__()
        self.picture = nn.Conv2d(3, CLASSES, 1)

    def forward(self, x: Tensor) -> object:
        return like(self.scores(x), x) + self.picture(x)


class Cascade(Plain):
    """ICNet's: the deep branch reads a smaller picture, so that no one map holds all that it is made from."""

    def __init__(self) -> None:
        super().__init__(deep=conv(8, 8))
        self.small = nn.Sequential(conv(3, 8, stride=2), conv(8, 8, stride=2))

    def scores(self, x: Tensor) -> Tensor:
        low = self.low(self.stem(x))
        small = self.small(F.interpolate(x, scale_factor=0.5, mode="bilinear", align_corners=False))
        deep = self.deep(torch.cat([low[:, :4], like(small, low)[:, :4]], 1))
        return self.low_scores(low) + like(self.deep_scores(deep), low)


class Supervised(Plain):
    """A tuple of scores, the deep ones second, in a dict under names."""

    def forward(self, x: Tensor) -> object:
        low = self.low(self.stem(x))
        deep = self.deep_scores(self.deep(low))
        fused = self.low_scores(low) + like(deep, low)
        return {"out": like(fused, x), "aux": (like(deep, x),)}


class Aligned(Plain):
    """SFNet's: the deep map resampled where an offset field, predicted from both, points."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = nn.Conv2d(16, 2, 3, padding=1)

    def scores(self, x: Tensor) -> Tensor:
        low = self.low(self.stem(x))
        deep = self.deep(low)
        offset = self.offset(torch.cat([low, like(deep, low)], 1)).permute(0, 2, 3, 1)
        rows = torch.linspace(-1, 1, low.shape[-2]).view(1, -1, 1).expand(1, -1, low.shape[-1])
        columns = torch.linspace(-1, 1, low.shape[-1]).view(1, 1, -1).expand(1, low.shape[-2], -1)
        grid = torch.stack([columns, rows], -1) + 0.1 * offset
        return self.low_scores(low) + self.deep_scores(F.grid_sample(deep, grid, align_corners=True))


class Regions(Plain):
    """OCRNet's: soft regions from a first score map, their means, and every place's likeness to them."""

    def scores(self, x: Tensor) -> Tensor:
        low = self.low(self.stem(x))
        first = self.deep_scores(low)
        deep = like(self.deep(low), low)
        weights = first.flatten(2).softmax(-1)
        regions = weights @ deep.flatten(2).transpose(1, 2)
        alike = (deep.flatten(2).transpose(1, 2) @ regions.transpose(1, 2)).softmax(-1)
        context = (alike @ regions).transpose(1, 2).reshape(deep.shape)
        return self.low_scores(torch.relu(context + deep)) + 0.1 * first


class Depth(Plain):
    """A regression without a channel axis: [1, h, w], never negative."""

    def forward(self, x: Tensor) -> object:
        return F.softplus(like(self.scores(x)[:, :1], x)).squeeze(1)


TRAPS: dict[str, Callable[[], nn.Module]] = {
    "channel-shuffle": lambda: Plain(Shuffle(), Shuffle()),
    "group-norm": lambda: Plain(nn.GroupNorm(2, 8), nn.Sequential(nn.GroupNorm(1, 8), nn.SiLU(), nn.Mish())),
    "instance-norm": lambda: Plain(nn.InstanceNorm2d(8, affine=True), nn.PReLU(8)),
    "convnext": lambda: Plain(ConvNeXt(), ConvNeXt()),
    "windows": lambda: Plain(None, Windows()),
    "wide-attention": lambda: Plain(None, Wide()),
    "coordinates": lambda: Plain(Coordinates(), Coordinates()),
    "in-place": lambda: Plain(InPlace(), InPlace()),
    "reflection": lambda: Plain(nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(8, 8, 3)), nn.ReplicationPad2d(1)),
    "squeeze-excite": lambda: Plain(Attention(8, 8), Attention(8, 8, more=True)),
    "padded": Padded,
    "if-smaller": IfSmaller,
    "everything-inside": Everything,
    "probabilities": Probabilities,
    "shared": Shared,
    "from-the-picture": FromThePicture,
    "cascade": Cascade,
    "supervised": Supervised,
    "aligned": Aligned,
    "regions": Regions,
    "depth": Depth,
}
