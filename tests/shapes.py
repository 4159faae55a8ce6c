"""Networks in the shapes that segmentation networks have: few channels, random weights, statistics that aren't trivial.

Each is written from what its paper draws, only as wide as the cut rule needs to see its graph: who reads what, at which
stride, through which operation. ``shape_traps`` has the single operations that readers stumble over.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

CLASSES = 5


def conv(inputs: int, outputs: int, kernel: int = 3, **options: Any) -> nn.Sequential:
    """Convolution, normalisation, ReLU; same size unless ``stride`` says otherwise."""
    dilation = options.get("dilation", 1)
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, padding=dilation * (kernel // 2), bias=False, **options),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


def separable(inputs: int, outputs: int, stride: int = 1, dilation: int = 1) -> nn.Sequential:
    """Depthwise, then pointwise."""
    return nn.Sequential(
        conv(inputs, inputs, stride=stride, dilation=dilation, groups=inputs), conv(inputs, outputs, 1)
    )


def like(x: Tensor, other: Tensor, mode: str = "bilinear") -> Tensor:
    """``x`` interpolated to the height and width of ``other``, which are read from its shape."""
    return F.interpolate(x, size=other.shape[-2:], mode=mode, align_corners=None if mode == "nearest" else False)


class Residual(nn.Module):
    """Two convolutions and a way round them."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.first = conv(inputs, outputs, stride=stride, dilation=dilation)
        self.second = nn.Sequential(nn.Conv2d(outputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs))
        plain = inputs == outputs and stride == 1
        self.short = nn.Identity() if plain else nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(self.first(x)) + self.short(x))


class Encoder(nn.Module):
    """Residual stages at strides 2, 4, 8, 16 and 32; from ``held`` on they are dilated and keep the stride."""

    def __init__(self, widths: tuple[int, ...] = (6, 8, 10, 12, 14), held: int = 9) -> None:
        super().__init__()
        self.stem = conv(3, widths[0], stride=2)
        self.layers = nn.ModuleList(
            Residual(inputs, outputs, *((1, 2 ** (index - held + 1)) if index >= held else (2, 1)))
            for index, (inputs, outputs) in enumerate(itertools.pairwise(widths))
        )

    def forward(self, x: Tensor) -> list[Tensor]:
        found = [self.stem(x)]
        for layer in self.layers:
            found.append(layer(found[-1]))
        return found


class UNet(nn.Module):
    """Skips concatenated at every stride; upsampling learned, bilinear or nearest; a 3x3 or, mixed, a 1x1 behind."""

    def __init__(self, up: str = "transposed", widths: tuple[int, ...] = (4, 6, 8, 10)) -> None:
        super().__init__()
        self.up = up
        self.first = conv(3, widths[0])
        self.down = nn.ModuleList(conv(a, b) for a, b in itertools.pairwise(widths))
        pairs = list(itertools.pairwise(reversed(widths)))
        self.ups = nn.ModuleList(
            nn.ConvTranspose2d(a, b, 2, 2) if up == "transposed" else conv(a, b, 1) for a, b in pairs
        )
        self.mix = nn.ModuleList(conv(2 * b, b, 1 if up == "mixed" else 3) for _, b in pairs)
        self.last = nn.Conv2d(widths[0], CLASSES, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips = [self.first(x)]
        for down in self.down:
            skips.append(down(F.max_pool2d(skips[-1], 2)))
        x = skips.pop()
        for up, mix in zip(self.ups, self.mix, strict=True):
            skip, x = skips.pop(), up(x)
            x = x if self.up == "transposed" else like(x, skip, "nearest" if self.up == "nearest" else "bilinear")
            x = mix(torch.cat([skip, x], 1))
        return self.last(x)


class UNetPlusPlus(nn.Module):
    """Nested skips: every node of the pyramid reads all to its left and the one below; the mean of its heads."""

    def __init__(self) -> None:
        super().__init__()
        widths = (4, 6, 8)
        self.encoder = Encoder(widths)
        self.blocks = nn.ModuleDict({
            f"{row}{column}": conv(widths[row] * column + widths[row + 1], widths[row])
            for column in (1, 2) for row in range(3 - column)
        })  # fmt: skip
        self.heads = nn.ModuleList(nn.Conv2d(widths[0], CLASSES, 1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        rows = [[found] for found in self.encoder(x)]
        for column in (1, 2):
            for row in range(3 - column):
                below = like(rows[row + 1][column - 1], rows[row][0])
                rows[row].append(self.blocks[f"{row}{column}"](torch.cat([*rows[row], below], 1)))
        scores = [head(found) for head, found in zip(self.heads, rows[0][1:], strict=True)]
        return like(sum(scores) / len(scores), x)


class LinkNet(nn.Module):
    """Skips added; each skip first weighed, from the deeper map, by an attention gate."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder()
        pairs = ((14, 12), (12, 10), (10, 8), (8, 6))
        self.ups = nn.ModuleList(nn.ConvTranspose2d(a, b, 3, 2, 1, 1) for a, b in pairs)
        self.gates = nn.ModuleList(nn.Conv2d(b, 1, 1) for _, b in pairs)
        self.last = nn.ConvTranspose2d(6, CLASSES, 2, 2)

    def forward(self, x: Tensor) -> Tensor:
        *skips, x = self.encoder(x)
        for up, gate, skip in zip(self.ups, self.gates, reversed(skips), strict=True):
            x = F.relu(up(x))
            x = x + skip * torch.sigmoid(gate(F.relu(x + skip)))
        return self.last(x)


class Pyramid(nn.Module):
    """Atrous spatial pyramid pooling: dilated branches and the picture's mean, concatenated and mixed."""

    def __init__(self, inputs: int, outputs: int, rates: tuple[int, ...] = (2, 4), apart: bool = False) -> None:
        super().__init__()
        self.one = conv(inputs, outputs, 1)
        self.branches = nn.ModuleList(
            separable(inputs, outputs, dilation=rate) if apart else conv(inputs, outputs, dilation=rate)
            for rate in rates
        )
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), conv(inputs, outputs, 1))
        self.mix = nn.Sequential(conv(outputs * (2 + len(rates)), outputs, 1), nn.Dropout(0.5))

    def forward(self, x: Tensor) -> Tensor:
        found = [self.one(x), *(branch(x) for branch in self.branches), like(self.pool(x), x)]
        return self.mix(torch.cat(found, 1))


class DeepLabV3(nn.Module):
    """No skip at all: dilated encoder, pyramid, scores, an enlargement to the picture."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder(held=2)
        self.head = nn.Sequential(Pyramid(14, 8), conv(8, 8), nn.Conv2d(8, CLASSES, 1))

    def forward(self, x: Tensor) -> Tensor:
        return like(self.head(self.encoder(x)[-1]), x)


class DeepLabV3Plus(nn.Module):
    """One skip at stride 4, concatenated behind a 1x1; separable convolutions throughout."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder(held=3)
        self.pyramid = Pyramid(14, 8, apart=True)
        self.low = conv(8, 4, 1)
        self.mix = nn.Sequential(separable(12, 8), separable(8, 8), nn.Conv2d(8, CLASSES, 1))

    def forward(self, x: Tensor) -> Tensor:
        found = self.encoder(x)
        low = self.low(found[1])
        return like(self.mix(torch.cat([low, like(self.pyramid(found[-1]), low)], 1)), x)


class PSPNet(nn.Module):
    """Means over grids of 1, 2 and 3 cells beside the deep map; an auxiliary head that only training reads."""

    def __init__(self, bins: tuple[int, ...] = (1, 2)) -> None:
        super().__init__()
        self.encoder = Encoder(held=2)
        self.pools = nn.ModuleList(nn.Sequential(nn.AdaptiveAvgPool2d(size), conv(14, 4, 1)) for size in bins)
        self.mix = nn.Sequential(conv(14 + 4 * len(bins), 8), nn.Conv2d(8, CLASSES, 1))
        self.extra = nn.Conv2d(12, CLASSES, 1)

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        found = self.encoder(x)
        deep = found[-1]
        scores = like(self.mix(torch.cat([deep, *(like(pool(deep), deep) for pool in self.pools)], 1)), x)
        return (scores, self.extra(found[-2])) if self.training else scores


class FPN(nn.Module):
    """Lateral sums from the top down, then a head for each stride: summed, or (UPerNet) concatenated and mixed."""

    def __init__(self, concatenated: bool = False) -> None:
        super().__init__()
        self.encoder = Encoder()
        self.lateral = nn.ModuleList(nn.Conv2d(width, 8, 1) for width in (8, 10, 12, 14))
        self.smooth = nn.ModuleList(conv(8, 8) for _ in range(4))
        self.pool = PSPTop(14) if concatenated else nn.Identity()
        self.mix = conv(32, 8, 1) if concatenated else None
        self.last = nn.Conv2d(8, CLASSES, 1)

    def forward(self, x: Tensor) -> Tensor:
        found = self.encoder(x)[1:]
        found[-1] = self.pool(found[-1])
        maps = [lateral(each) for lateral, each in zip(self.lateral, found, strict=True)]
        for index in range(3, 0, -1):
            maps[index - 1] = maps[index - 1] + like(maps[index], maps[index - 1], "nearest")
        maps = [like(smooth(each), maps[0]) for smooth, each in zip(self.smooth, maps, strict=True)]
        fused = sum(maps) if self.mix is None else self.mix(torch.cat(maps, 1))
        return like(self.last(fused), x)


class PSPTop(nn.Module):
    """The pooled top of UPerNet: as wide as it was."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.pools = nn.ModuleList(nn.Sequential(nn.AdaptiveAvgPool2d(size), conv(width, 4, 1)) for size in (1, 2))
        self.mix = conv(width + 8, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(torch.cat([x, *(like(pool(x), x) for pool in self.pools)], 1))


class ENet(nn.Module):
    """Pooling beside a strided convolution; decoded by learned transposed convolution, or by unpooling to positions."""

    def __init__(self, unpooling: bool = False) -> None:
        super().__init__()
        self.unpooling = unpooling
        self.first, self.second = nn.Conv2d(3, 5, 3, 2, 1), conv(8, 12, stride=2)
        apart = nn.Sequential(nn.Conv2d(12, 12, (5, 1), padding=(2, 0)), nn.Conv2d(12, 12, (1, 5), padding=(0, 2)))
        self.middle = nn.Sequential(conv(12, 12, dilation=2), apart, Residual(12, 12))
        self.deep = nn.Sequential(Residual(12, 16, 2), Residual(16, 16))
        self.back = conv(16, 12, 1)
        self.up = nn.ConvTranspose2d(16, 12, 2, 2)
        self.last = nn.Sequential(nn.ConvTranspose2d(12, 8, 2, 2), nn.ReLU(), nn.ConvTranspose2d(8, CLASSES, 2, 2))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.first(x), F.max_pool2d(x, 2)], 1)
        x = self.middle(self.second(x))
        _, where = F.max_pool2d(x, 2, return_indices=True)
        deep = self.deep(x)
        x = F.max_unpool2d(self.back(deep), where, 2) if self.unpooling else self.up(deep)
        return self.last(F.relu(x))


class FastSCNN(nn.Module):
    """Learning to downsample, then a global branch with a pyramid, added back at stride 8."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(conv(3, 6, stride=2), separable(6, 8, 2), separable(8, 10, 2))
        self.deep = nn.Sequential(separable(10, 12, 2), separable(12, 12, 2), PSPTop(12))
        self.low, self.high = (
            nn.Conv2d(10, 8, 1),
            nn.Sequential(conv(12, 12, dilation=4, groups=12), nn.Conv2d(12, 8, 1)),
        )
        self.last = nn.Sequential(separable(8, 8), nn.Dropout(0.1), nn.Conv2d(8, CLASSES, 1))

    def forward(self, x: Tensor) -> Tensor:
        low = self.down(x)
        high = self.high(F.interpolate(self.deep(low), scale_factor=4, mode="bilinear", align_corners=True))
        return like(self.last(F.relu(self.low(low) + high)), x)


SHAPES: dict[str, Callable[[], nn.Module]] = {
    "unet": UNet,
    "unet-bilinear": lambda: UNet("bilinear"),
    "unet-nearest": lambda: UNet("nearest"),
    "unet-mixed": lambda: UNet("mixed"),
    "unet++": UNetPlusPlus,
    "linknet-attention": LinkNet,
    "deeplabv3": DeepLabV3,
    "deeplabv3plus": DeepLabV3Plus,
    "pspnet": PSPNet,
    "fpn": FPN,
    "upernet": lambda: FPN(concatenated=True),
    "enet": ENet,
    "enet-unpooling": lambda: ENet(unpooling=True),
    "fast-scnn": FastSCNN,
}
