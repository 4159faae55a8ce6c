"""`street` cut off behind its first or its second stage: networks of their own, the paper's stage baselines.

    until stride8    picture -> stride 8     score, upscore (x8)
    until stride16   picture -> stride 16    score, upscore (x16)

A pipeline of `street` gives a frame's labels when its first stage is done with that frame; so does a network that ends
there. Shelhamer et al. (2016) compare the two: a plain 1x1 score on what the stage gives, a fixed bilinear enlargement,
and weights trained for that alone.
"""

from __future__ import annotations

from typing import TypeAlias

from torch import Tensor, nn

from clockseg.errors import UsageError
from clockseg.networks.efficientnet_lite import EfficientNetLite
from clockseg.networks.street import Scores, Shape, Street, Upscore

UNTIL = {"stride8": (3, 8), "stride16": (5, 16)}
"""Where one may cut off: so many of the encoder's rows, and the stride they end at."""


class TruncatedStreet(nn.Module):
    """The network; [n, 3, h, w] normalised RGB, h and w multiples of 32 -> `Scores`, with none of a stage's own."""

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
        """What has a name in the exported graph: its outputs, then what is cut at."""
        trunk = self.encoder(image)[-1]
        scores = self.score(trunk)
        return {"scores": self.upscore(scores), "scores_1": scores, self.shape.cuts[0]: trunk}


AnyStreet: TypeAlias = Street | TruncatedStreet


def build(shape: Shape, drop: float = 0.0) -> AnyStreet:
    """The network of this shape, with random weights."""
    return Street(shape, drop) if shape.until is None else TruncatedStreet(shape, drop)
