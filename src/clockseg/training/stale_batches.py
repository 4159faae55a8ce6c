"""Batches and the loss of a correction: whole frames, mirrored at random, the picture's light varied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from clockseg.graph.sidecar import Input
from clockseg.training.stale_net import Fusion
from clockseg.training.stale_samples import IGNORE, Sample, Target, nearest
from clockseg.types import Array

WRONG = 2.0
"""Extra weight of places where the propagated scores name another class than they should."""


class Batch(NamedTuple):
    """Float32 maps: ``seen`` [n, .., .., ..], ``moved`` and ``wanted`` scores, ``unexplained``, ``inside`` (1 in the picture,
    [n, h, w]); ``labels``: int64 [n, 2 h, 2 w], or None."""

    seen: Tensor
    moved: Tensor
    unexplained: Tensor
    wanted: Tensor
    inside: Tensor
    labels: Tensor | None


@dataclass(frozen=True)
class Batches:
    """Draws batches of ``samples``; ``given``: the network's input. ``labels``: True to learn from human labels as well."""

    samples: Sequence[Sample]
    given: Input
    labels: bool

    def draw(self, random: np.random.Generator, size: int) -> Batch:
        """Return a batch of samples whose maps have one shape."""
        alike = self._of_shape[self.samples[int(random.integers(len(self.samples)))].moved.shape]
        chosen = [alike[place] for place in random.integers(0, len(alike), size)]
        mirror = chosen[0].target.features is None and random.random() < 0.5
        parts = zip(*(self._maps(sample, random) for sample in chosen), strict=True)
        maps = [torch.from_numpy(np.stack([one[..., ::-1] if mirror else one for one in each])) for each in parts]
        seen, moved, unexplained, wanted, inside = (one.float() for one in maps[:5])
        return Batch(seen, moved, unexplained, wanted, inside, maps[5].long() if self.labels else None)

    @cached_property
    def _of_shape(self) -> dict[tuple[int, ...], list[Sample]]:
        found: dict[tuple[int, ...], list[Sample]] = {}
        for sample in self.samples:
            found.setdefault(sample.moved.shape, []).append(sample)
        return found

    def _maps(self, sample: Sample, random: np.random.Generator) -> tuple[Array, ...]:
        target, (height, width) = sample.target, sample.moved.shape[1:]
        inside = np.zeros((height, width), np.float32)
        target.inside(inside)[:] = 1
        labels = np.full((2 * height, 2 * width), IGNORE, np.uint8)
        if self.labels and target.labels is not None:
            labels = nearest(target.labels, labels.shape)
        gain = random.uniform(0.8, 1.25) * random.uniform(0.94, 1.06, 3)
        seen = self.seen(target, gain, random.normal(0, 12))
        return seen, sample.moved, sample.unexplained, target.scores, inside, labels

    def seen(self, target: Target, gain: Array | float = 1.0, level: float = 0.0) -> Array:
        """Return what the fusion reads of a frame: features, or the picture as the network reads it, in another light."""
        if target.features is not None:
            return target.features
        factor, offset = self.given.affine()
        picture = target.image[..., ::-1] if self.given.colour == "bgr" else target.image
        lit = picture * (gain * factor).astype(np.float32) + (level * factor + offset).astype(np.float32)
        return np.ascontiguousarray(lit.transpose(2, 0, 1))


def loss_of(fusion: Fusion, batch: Batch) -> Tensor:
    """Return the Kullback-Leibler divergence from the network's own scores, plus the cross-entropy of labels if given."""
    found = batch.moved + fusion(batch.seen, batch.moved, batch.unexplained)
    weight = batch.inside * (1 + WRONG * (batch.moved.argmax(1) != batch.wanted.argmax(1)))
    logs = functional.log_softmax(found, 1), functional.log_softmax(batch.wanted, 1)
    loss = _mean(functional.kl_div(*logs, log_target=True, reduction="none").sum(1), weight)
    if batch.labels is None:
        return loss
    moved, scores = (_enlarged(one, batch.labels.shape[1:]) for one in (batch.moved, found))
    weight = (batch.labels != IGNORE) * (1 + WRONG * (moved.argmax(1) != batch.labels))
    crossed = functional.cross_entropy(scores, batch.labels, ignore_index=IGNORE, reduction="none")
    return loss + _mean(crossed, weight)


def _mean(values: Tensor, weight: Tensor) -> Tensor:
    return (values * weight).sum() / weight.sum().clamp(min=1)


def _enlarged(scores: Tensor, size: torch.Size) -> Tensor:
    return functional.interpolate(scores, size=size, mode="bilinear", align_corners=False)
