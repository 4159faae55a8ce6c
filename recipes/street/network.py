"""`street`, the bundled segmentation network: three stages on a mobile encoder, fused by skips.

    stage 1   picture -> stride 8      head: q4 (stride 4), q8 (stride 8), scores_1
    stage 2   stride 8 -> stride 16    head: p2, scores_2
    stage 3   stride 16 -> context     head: p3, scores_3
    fuse      (p2, p3) at stride 16, then q8 at stride 8, then q4 at stride 4, then x4 to the picture's size

The body of each stage passes on one tensor, its cut; a head reads its own stage alone and only the
fusion reads several, so the cut rule (`clockseg.graph`) finds the stages by the three cuts' names.
As in Shelhamer et al., "Clockwork Convnets" (2016), each stage gives class scores of its own, which are
what a clock watches; unlike there the fusion adds features, and scores are made from the sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clockseg.errors import UsageError
from clockseg.networks.framing import Framing
from clockseg.types import Size
from recipes.street.encoder import MEAN, STD, EfficientNetLite, conv_bn, encoder_state, imagenet_file

GREY = (127, 127, 127)
"""RGB of what no frame covers; what the encoder reads as zero."""
MULTIPLE = 32
CUTS = ("stride8", "stride16", "context")


@dataclass(frozen=True)
class Shape:
    """The architecture of `street`; the default is the bundled network, `LARGE` its larger variant.

    `encoder`: 0, 1 or 2, the EfficientNet-Lite. `features`: channels of the fusion at strides 16, 8 and 4. `context`:
    channels of the context; `dilations`: those of its convolutions, at stride 32. `until`: "stride8" or "stride16" is
    the network cut off there (`TruncatedStreet`), which has neither fusion nor context.
    """

    encoder: int = 0
    features: tuple[int, int, int] = (64, 48, 32)
    context: int = 128
    classes: int = 11
    until: str | None = None
    dilations: tuple[int, ...] = (1, 2, 4)

    @property
    def cuts(self) -> tuple[str, ...]:
        """The names of the cuts, one a stage."""
        return CUTS if self.until is None else (self.until,)


LARGE = Shape(encoder=2, features=(160, 112, 64), context=256, dilations=(1, 2, 4, 6))
"""`street-large`: EfficientNet-Lite2, a wider fusion, a context that reaches further."""


class Scores(NamedTuple):
    """The network's output: `fused` at the picture's size, and the stages' own scores, each at its stride."""

    fused: Tensor
    own: tuple[Tensor, ...]


class Trunk(NamedTuple):
    """The outputs of the bodies; the last three are the cuts."""

    stride4: Tensor
    stride8: Tensor
    stride16: Tensor
    context: Tensor


class Heads(NamedTuple):
    """The inputs of the fusion: two tensors of stage 1 (strides 4 and 8), one each of stages 2 and 3."""

    q4: Tensor
    q8: Tensor
    p2: Tensor
    p3: Tensor


class Context(nn.Module):
    """Context features: dilated convolutions and the mean of the whole picture, then a gate from that mean.

    Everything is at stride 32, so it costs little.
    """

    def __init__(self, inputs: int, channels: int, dilations: tuple[int, ...] = (1, 2, 4)) -> None:
        super().__init__()
        self.narrow = conv_bn(inputs, channels, 1)
        self.around = nn.ModuleList(
            nn.Conv2d(channels, channels, 3, padding=d, dilation=d, groups=channels, bias=False) for d in dilations
        )
        self.norm = nn.BatchNorm2d(channels)
        self.mean = nn.Conv2d(channels, channels, 1)
        self.gate = nn.Conv2d(channels, channels, 1)
        self.mix = conv_bn(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.narrow(x)
        mean = x.mean((2, 3), keepdim=True)
        y = self.norm(sum(conv(x) for conv in self.around)) + x + self.mean(mean)
        return self.mix(F.relu(y)) * torch.sigmoid(self.gate(mean))


class Upscore(nn.ConvTranspose2d):
    """Bilinear enlargement by an even factor, as FCN's upscore layers: a fixed transposed convolution a channel.

    In OpenVINO it takes half the time of a Resize of as many scores.
    """

    def __init__(self, channels: int, factor: int = 4) -> None:
        side = 2 * factor
        super().__init__(channels, channels, side, stride=factor, padding=factor // 2, groups=channels, bias=False)
        half = (torch.arange(factor) + 0.5) / factor
        row = torch.cat([half, half.flip(0)])
        kernels = torch.outer(row, row).expand(channels, 1, side, side).clone()
        self.weight = nn.Parameter(kernels, requires_grad=False)


def up2(x: Tensor) -> Tensor:
    """Twice as large, bilinear."""
    return F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)


def score(channels: int, classes: int) -> nn.Sequential:
    """Class scores from a head's features."""
    return nn.Sequential(nn.ReLU(), nn.Conv2d(channels, classes, 1))


def depthwise_conv(inputs: int, outputs: int) -> nn.Sequential:
    """3x3 on each channel, then 1x1 across them."""
    return nn.Sequential(conv_bn(inputs, inputs, 3, groups=inputs, relu6=False), conv_bn(inputs, outputs, 1))


class Street(nn.Module):
    """The network; [n, 3, h, w] normalised RGB, h and w multiples of 32 -> `Scores`."""

    def __init__(self, shape: Shape = Shape(), drop: float = 0.0) -> None:
        super().__init__()
        self.shape = shape
        self.encoder = EfficientNetLite(shape.encoder, drop)
        _, at4, at8, _, at16, _, at32 = self.encoder.channels
        d16, d8, d4 = shape.features
        self.context = Context(at32, shape.context, shape.dilations)
        self.q4 = conv_bn(at4, d4, 1, relu6=False)
        self.q8 = conv_bn(at8, d8, 1, relu6=False)
        self.p2 = conv_bn(at16, d16, 1, relu6=False)
        self.p3 = conv_bn(shape.context, d16, 1, relu6=False)
        self.score_1 = score(d8, shape.classes)
        self.score_2 = score(d16, shape.classes)
        self.score_3 = score(d16, shape.classes)
        self.fuse16 = nn.Sequential(conv_bn(d16, d16, 3), conv_bn(d16, d8, 1, relu6=False))
        self.fuse8 = conv_bn(d8, d4, 3)
        self.fuse4 = depthwise_conv(d4, d4)
        self.score = nn.Conv2d(d4, shape.classes, 1)
        self.upscore = Upscore(shape.classes)

    def stage1(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Body of stage 1: the trunk at strides 4 and 8; the second is the cut."""
        at4 = self.encoder.to_stride4(image)
        return at4, self.encoder.rows[2](at4)

    def stage2(self, at8: Tensor) -> Tensor:
        """Body of stage 2: the trunk at stride 16."""
        return self.encoder.rows[4](self.encoder.rows[3](at8))

    def stage3(self, at16: Tensor) -> Tensor:
        """Body of stage 3: the context, at stride 32."""
        return self.context(self.encoder.rows[6](self.encoder.rows[5](at16)))

    def fuse(self, heads: Heads) -> Tensor:
        """Scores at stride 4 from the heads of all stages."""
        at16 = self.fuse16(F.relu(heads.p2 + up2(heads.p3)))
        at8 = self.fuse8(F.relu(heads.q8 + up2(at16)))
        return self.score(self.fuse4(F.relu(heads.q4 + up2(at8))))

    def trunk(self, image: Tensor) -> Trunk:
        """The bodies of all stages."""
        at4, stride8 = self.stage1(image)
        stride16 = self.stage2(stride8)
        return Trunk(at4, stride8, stride16, self.stage3(stride16))

    def heads(self, trunk: Trunk) -> Heads:
        """The features that each stage gives to the fusion."""
        return Heads(self.q4(trunk.stride4), self.q8(trunk.stride8), self.p2(trunk.stride16), self.p3(trunk.context))

    def scores(self, heads: Heads) -> Scores:
        """Each stage's own scores, and the fused ones at stride 4."""
        return Scores(self.fuse(heads), (self.score_1(heads.q8), self.score_2(heads.p2), self.score_3(heads.p3)))

    def coarse(self, image: Tensor) -> Scores:
        """As `forward`, with the fused scores at stride 4: what training works with."""
        return self.scores(self.heads(self.trunk(image)))

    def forward(self, image: Tensor) -> Scores:
        scores = self.coarse(image)
        return scores._replace(fused=self.upscore(scores.fused))

    def named(self, image: Tensor) -> dict[str, Tensor]:
        """Return the tensors that are named in the exported graph: its outputs, then cuts and cached values."""
        trunk = self.trunk(image)
        heads = self.heads(trunk)
        fused, own = self.scores(heads)
        outputs = {"scores": self.upscore(fused)} | {f"scores_{stage}": scores for stage, scores in enumerate(own, 1)}
        return outputs | dict(zip(CUTS, trunk[1:])) | heads._asdict() | {"coarse": fused}


def framing(working: Size) -> Framing:
    """Return the framing: fitted into `working` (width, height), padded with grey to a multiple of 32."""
    return Framing(*working, pad_multiple=MULTIPLE, pad_value=GREY)


def normalise(images: Tensor) -> Tensor:
    """[n, h, w, 3] uint8 RGB -> [n, 3, h, w] float: what the encoder's weights expect, (pixel - 127) / 128."""
    mean, std = (torch.tensor(values, device=images.device).view(3, 1, 1) for values in (MEAN, STD))
    return (images.permute(0, 3, 1, 2).float() / 255 - mean) / std


def load_imagenet(encoder: EfficientNetLite) -> None:
    """Puts the ImageNet weights into the encoder."""
    encoder.load_state_dict(encoder_state(imagenet_file(encoder.variant), encoder.variant, len(encoder.rows)))


UNTIL = {"stride8": (3, 8), "stride16": (5, 16)}
"""Stages after which the network may end: the number of encoder rows, and the stride of the last one."""


class TruncatedStreet(nn.Module):
    """`street` ended after its first or second stage: the paper's stage baselines, trained for that stage alone.

    A 1x1 convolution scores the stage's features and a fixed bilinear transposed convolution enlarges the scores (x8 or
    x16). Input as for `Street`; the result has no stage scores.
    """

    def __init__(self, shape: Shape, drop: float = 0.0) -> None:
        super().__init__()
        if shape.until not in UNTIL:
            raise UsageError(f"street cut off at {shape.until!r}; allowed are {' and '.join(UNTIL)}.")
        rows, stride = UNTIL[shape.until]
        self.shape = shape
        self.encoder = EfficientNetLite(shape.encoder, drop, rows)
        self.score = nn.Conv2d(self.encoder.channels[-1], shape.classes, 1)
        self.upscore = Upscore(shape.classes, stride)

    def coarse(self, image: Tensor) -> Scores:
        """As `forward`, with the scores at the last stride: what training works with."""
        return Scores(self.score(self.encoder(image)[-1]), ())

    def forward(self, image: Tensor) -> Scores:
        return Scores(self.upscore(self.coarse(image).fused), ())

    def named(self, image: Tensor) -> dict[str, Tensor]:
        """Return the tensors that are named in the exported graph: its outputs, then the cut."""
        trunk = self.encoder(image)[-1]
        scores = self.score(trunk)
        return {"scores": self.upscore(scores), "scores_1": scores, self.shape.cuts[0]: trunk}


AnyStreet: TypeAlias = Street | TruncatedStreet


def build(shape: Shape, drop: float = 0.0) -> AnyStreet:
    """The network of this shape, with random weights."""
    return Street(shape, drop) if shape.until is None else TruncatedStreet(shape, drop)
