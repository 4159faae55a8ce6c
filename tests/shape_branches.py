"""Networks of several branches, and those that attend: bilateral, high-resolution, gated and transformer shapes."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from shapes import CLASSES, Encoder, Residual, conv, like, separable


class LRASPP(nn.Module):
    """MobileNetV3's head: the deep map weighed by a gate from its own mean, and low scores added."""

    def __init__(self) -> None:
        super().__init__()
        self.low = nn.Sequential(conv(3, 8, stride=2), Inverted(8, 8, 2), Inverted(8, 10, 2))
        self.deep = nn.Sequential(Inverted(10, 12, 2), Inverted(12, 12))
        self.values = conv(12, 8, 1)
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(12, 8, 1, bias=False), nn.Sigmoid())
        self.low_scores, self.high_scores = nn.Conv2d(10, CLASSES, 1), nn.Conv2d(8, CLASSES, 1)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        low = self.low(x)
        deep = self.deep(low)
        found = like(self.values(deep) * self.gate(deep), low)
        return {"out": like(self.low_scores(low) + self.high_scores(found), x)}


class Inverted(nn.Module):
    """Inverted residual with squeeze-and-excite and hard swish."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        wide = 2 * inputs
        self.expand = nn.Sequential(nn.Conv2d(inputs, wide, 1), nn.BatchNorm2d(wide), nn.Hardswish())
        self.depth = nn.Sequential(
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide), nn.BatchNorm2d(wide), nn.Hardswish()
        )
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, 4, 1), nn.ReLU(), nn.Conv2d(4, wide, 1), nn.Hardsigmoid()
        )
        self.project = nn.Sequential(nn.Conv2d(wide, outputs, 1), nn.BatchNorm2d(outputs))
        self.same = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        found = self.depth(self.expand(x))
        found = self.project(found * self.squeeze(found))
        return found + x if self.same else found


class Attention(nn.Module):
    """A map weighed, channel by channel, by its own mean (BiSeNet's ARM; with ``more``, its FFM)."""

    def __init__(self, inputs: int, outputs: int, more: bool = False) -> None:
        super().__init__()
        self.map = conv(inputs, outputs, 1 if more else 3)
        self.weight = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(outputs, outputs, 1), nn.Sigmoid())
        self.more = more

    def forward(self, x: Tensor) -> Tensor:
        x = self.map(x)
        weighed = x * self.weight(x)
        return x + weighed if self.more else weighed


class BiSeNet(nn.Module):
    """A spatial path from the picture beside a context path: two attentions, the mean added; two extra heads."""

    def __init__(self) -> None:
        super().__init__()
        self.spatial = nn.Sequential(conv(3, 6, stride=2), conv(6, 6, stride=2), conv(6, 8, stride=2))
        self.context = Encoder()
        self.mean = nn.Sequential(nn.AdaptiveAvgPool2d(1), conv(14, 8, 1))
        self.refine16, self.refine32 = Attention(12, 8), Attention(14, 8)
        self.fuse = Attention(16, 8, more=True)
        self.last = nn.Sequential(conv(8, 8), nn.Conv2d(8, CLASSES, 1))
        self.extra16, self.extra32 = nn.Conv2d(8, CLASSES, 1), nn.Conv2d(8, CLASSES, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        fine = self.spatial(x)
        *_, at16, at32 = self.context(x)
        deep = self.refine32(at32) + self.mean(at32)
        middle = self.refine16(at16) + like(deep, at16, "nearest")
        found = self.fuse(torch.cat([fine, like(middle, fine)], 1))
        return like(self.last(found), x), like(self.extra16(middle), x), like(self.extra32(deep), x)


class BiSeNetV2(nn.Module):
    """Detail and semantic branches from the picture; each guides the other, through gates, before they are summed."""

    def __init__(self) -> None:
        super().__init__()
        self.detail = nn.Sequential(conv(3, 6, stride=2), conv(6, 8, stride=2), conv(8, 8, stride=2))
        self.stem = conv(3, 4, stride=2)
        self.left, self.right = conv(4, 4, stride=2), nn.MaxPool2d(3, 2, 1)
        self.semantic = nn.Sequential(separable(8, 8, 2), separable(8, 10, 2), separable(10, 8, 2))
        self.mean = conv(8, 8, 1)
        self.fine_keep, self.fine_down = separable(8, 8), nn.Sequential(conv(8, 8, stride=2), nn.AvgPool2d(3, 2, 1))
        self.deep_up, self.deep_keep = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 1)
        self.last = nn.Sequential(conv(8, 8), nn.Conv2d(8, CLASSES * 16, 1), nn.PixelShuffle(4))

    def forward(self, x: Tensor) -> Tensor:
        fine, stem = self.detail(x), self.stem(x)
        deep = self.semantic(torch.cat([self.left(stem), self.right(stem)], 1))
        deep = deep + self.mean(deep.mean((2, 3), keepdim=True))
        high = self.fine_keep(fine) * torch.sigmoid(like(self.deep_up(deep), fine))
        low = self.fine_down(fine) * torch.sigmoid(self.deep_keep(deep))
        return like(self.last(high + like(low, high)), x)


class DDRNet(nn.Module):
    """A fine and a coarse branch that exchange twice; the deepest map pooled at several grains (DAPPM)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, 6, stride=2), conv(6, 8, stride=2), Residual(8, 8, 2))
        self.coarse = nn.ModuleList([Residual(8, 10, 2), Residual(10, 12, 2)])
        self.fine = nn.ModuleList([Residual(8, 8), Residual(8, 8)])
        self.up = nn.ModuleList([nn.Conv2d(10, 8, 1), nn.Conv2d(12, 8, 1)])
        self.down = nn.ModuleList([conv(8, 10, stride=2), nn.Sequential(conv(8, 8, stride=2), conv(8, 12, stride=2))])
        self.grains = nn.ModuleList([nn.AvgPool2d(3, 2, 1), nn.AdaptiveAvgPool2d(1)])
        self.reduce = nn.ModuleList([conv(12, 6, 1), conv(12, 6, 1), conv(12, 6, 1)])
        self.process = nn.ModuleList([conv(6, 6), conv(6, 6)])
        self.mix, self.short = conv(18, 8, 1), nn.Conv2d(12, 8, 1)
        self.last = nn.Sequential(conv(8, 8), nn.Conv2d(8, CLASSES, 1))

    def forward(self, x: Tensor) -> Tensor:
        coarse = fine = self.stem(x)
        for index in range(2):
            coarse, fine = self.coarse[index](F.relu(coarse)), self.fine[index](F.relu(fine))
            coarse, fine = coarse + self.down[index](fine), fine + like(self.up[index](coarse), fine)
        return like(self.last(F.relu(fine) + like(self.pooled(coarse), fine)), x)

    def pooled(self, x: Tensor) -> Tensor:
        """Coarser and coarser means, each added to what the finer one gave."""
        found = [self.reduce[0](x)]
        for grain, reduce, process in zip(self.grains, self.reduce[1:], self.process, strict=True):
            found.append(process(like(reduce(grain(x)), x) + found[-1]))
        return self.mix(torch.cat(found, 1)) + self.short(x)


class HRNet(nn.Module):
    """Branches at strides 4, 8 and 16 side by side; every one reads every other, again and again."""

    def __init__(self, rounds: int = 2) -> None:
        super().__init__()
        widths = (4, 6, 8)
        self.stem = nn.Sequential(conv(3, 6, stride=2), conv(6, 4, stride=2))
        self.split = nn.ModuleList(
            [nn.Identity(), conv(4, 6, stride=2), nn.Sequential(conv(4, 6, stride=2), conv(6, 8, stride=2))]
        )
        self.own = nn.ModuleList(nn.ModuleList(Residual(width, width) for width in widths) for _ in range(rounds))
        self.exchange = nn.ModuleList(
            nn.ModuleDict({f"{a}{b}": self._way(widths, a, b) for a in range(3) for b in range(3) if a != b})
            for _ in range(rounds)
        )
        self.last = nn.Sequential(conv(sum(widths), 8, 1), nn.Conv2d(8, CLASSES, 1))

    @staticmethod
    def _way(widths: tuple[int, ...], a: int, b: int) -> nn.Module:
        if a > b:
            return nn.Conv2d(widths[a], widths[b], 1)
        steps = [conv(widths[a], widths[a], stride=2) for _ in range(b - a - 1)]
        return nn.Sequential(*steps, nn.Conv2d(widths[a], widths[b], 3, 2, 1))

    def forward(self, x: Tensor) -> Tensor:
        stem = self.stem(x)
        maps = [way(stem) for way in self.split]
        for own, exchange in zip(self.own, self.exchange, strict=True):
            maps = [block(each) for block, each in zip(own, maps, strict=True)]
            maps = [F.relu(sum(self._given(exchange, maps, a, b) for a in range(3))) for b in range(3)]
        found = torch.cat([maps[0], *(like(each, maps[0]) for each in maps[1:])], 1)
        return like(self.last(found), x)

    @staticmethod
    def _given(exchange: nn.ModuleDict, maps: list[Tensor], a: int, b: int) -> Tensor:
        if a == b:
            return maps[b]
        way = exchange[f"{a}{b}"](maps[a])
        return like(way, maps[b]) if a > b else way


class Block(nn.Module):
    """A transformer's block on [1, tokens, width]: attention as einsum or as the fused function, then two layers."""

    def __init__(self, width: int, heads: int = 2, fused: bool = False) -> None:
        super().__init__()
        self.heads, self.fused = heads, fused
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.layers = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        if self.fused:
            found = F.scaled_dot_product_attention(q, k, v)
        else:
            weights = torch.einsum("bhnc,bhmc->bhnm", q, k) / math.sqrt(width // self.heads)
            found = torch.einsum("bhnm,bhmc->bhnc", weights.softmax(-1), v)
        x = x + self.out(found.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.layers(self.norm2(x))


class ViT(nn.Module):
    """Patches, a class token, positions interpolated to the picture's grid, blocks: every block's tokens."""

    def __init__(self, width: int = 8, depth: int = 4, fused: bool = False) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, width, 4, 4))
        self.blocks = nn.ModuleList(Block(width, fused=fused) for _ in range(depth))

    def forward(self, x: Tensor) -> tuple[list[Tensor], int, int]:
        x = self.patches(x)
        height, width = x.shape[-2:]
        x = x + F.interpolate(self.positions, size=(height, width), mode="bicubic", align_corners=False)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x.flatten(2).transpose(1, 2)], 1)
        found = []
        for block in self.blocks:
            x = block(x)
            found.append(x)
        return found, height, width


def as_map(tokens: Tensor, height: int, width: int) -> Tensor:
    """Tokens [1, 1 + height * width, c] as a map [1, c, height, width]; the class token is left out."""
    return tokens[:, 1:].transpose(1, 2).reshape(tokens.shape[0], -1, height, width)


class Segmenter(nn.Module):
    """A plain ViT and class embeddings that attend with its patches: scores are their products."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = ViT()
        self.classes = nn.Parameter(torch.randn(1, CLASSES, 8))
        self.decoder, self.norm = Block(8), nn.LayerNorm(CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        found, height, width = self.encoder(x)
        tokens = torch.cat([found[-1][:, 1:], self.classes.expand(x.shape[0], -1, -1)], 1)
        tokens = self.decoder(tokens)
        patches, classes = tokens[:, :-CLASSES], tokens[:, -CLASSES:]
        scores = self.norm(F.normalize(patches, dim=-1) @ F.normalize(classes, dim=-1).transpose(1, 2))
        return like(scores.transpose(1, 2).reshape(x.shape[0], CLASSES, height, width), x)


class SETR(nn.Module):
    """A plain ViT whose last map is convolved and enlarged step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = ViT(fused=True)
        self.steps = nn.ModuleList([conv(8, 8), conv(8, 8)])
        self.last = nn.Conv2d(8, CLASSES, 1)

    def forward(self, x: Tensor) -> Tensor:
        found, height, width = self.encoder(x)
        scores = as_map(found[-1], height, width)
        for step in self.steps:
            scores = F.interpolate(step(scores), scale_factor=2, mode="bilinear")
        return like(self.last(scores), x)


class DPT(nn.Module):
    """Maps reassembled from four depths of a ViT at four strides, fused from the coarsest on; gives depth."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = ViT()
        self.assemble = nn.ModuleList(
            [nn.ConvTranspose2d(8, 8, 4, 4), nn.ConvTranspose2d(8, 8, 2, 2), nn.Identity(), nn.Conv2d(8, 8, 3, 2, 1)]
        )
        self.skips = nn.ModuleList(Residual(8, 8) for _ in range(4))
        self.fuses = nn.ModuleList(Residual(8, 8) for _ in range(4))
        self.last = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 1), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        found, height, width = self.encoder(x)
        maps = [part(as_map(each, height, width)) for part, each in zip(self.assemble, found, strict=True)]
        fused = self.fuses[-1](self.skips[-1](maps[-1]))
        for index in (2, 1, 0):
            fused = self.fuses[index](like(fused, maps[index]) + self.skips[index](maps[index]))
        return like(self.last(fused), x)


BRANCHES: dict[str, Callable[[], nn.Module]] = {
    "lr-aspp": LRASPP,
    "bisenet": BiSeNet,
    "bisenetv2": BiSeNetV2,
    "ddrnet": DDRNet,
    "hrnet": HRNet,
    "segmenter": Segmenter,
    "setr": SETR,
    "dpt": DPT,
}
