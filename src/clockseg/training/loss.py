"""What training minimises."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from clockseg.networks.street import Scores
from clockseg.training.recipe import Recipe


def class_weights(shares: Tensor, power: float) -> Tensor:
    """share ** -power for each class, scaled so that a random labelled pixel weighs 1 on average."""
    weights = shares.clamp(min=1e-4) ** -power
    return weights / (weights * shares).sum()


def segmentation_loss(
    scores: Scores, labels: Tensor, weights: Tensor, recipe: Recipe, ignore: int, teacher: Tensor | None = None
) -> Tensor:
    """Cross-entropy and overlap of the fused scores, cross-entropy of each stage's, and the teachers' answers.

    `scores`: as the network's `coarse` gives them. `labels`: [n, h, w], class ids or `ignore`. `teacher`: the teachers' mean
    class probabilities [n, k, h, w].
    """
    fused, labels = enlarged(scores.fused, labels.shape[1:]), labels.long()
    total = F.cross_entropy(fused, labels, weights, ignore_index=ignore)
    log_share = F.log_softmax(fused, 1)
    if recipe.overlap:
        total = total + recipe.overlap * overlap_loss(log_share.exp(), labels, ignore)
    if teacher is not None:
        total = total + recipe.distil * F.kl_div(log_share, teacher, reduction="sum") / labels.numel()
    coarse = labels[:, 2::4, 2::4]
    for weight, own in zip(recipe.aux, scores.own):
        total = total + weight * F.cross_entropy(enlarged(own, coarse.shape[1:]), coarse, weights, ignore_index=ignore)
    return total


def enlarged(scores: Tensor, size: Sequence[int]) -> Tensor:
    """At `size` (height, width), bilinear, float32: as `Upscore`, but for the border, and faster to train through."""
    return F.interpolate(scores.float(), size=tuple(size), mode="bilinear", align_corners=False)


def overlap_loss(shares: Tensor, labels: Tensor, ignore: int) -> Tensor:
    """1 - soft intersection over union, its mean over the classes that the batch shows (Rahman and Wang, 2016).

    `shares`: softmax probabilities [n, k, h, w]. The metric is mean IU, so small classes count as much as large ones.
    """
    known = labels != ignore
    truth = torch.zeros_like(shares).scatter_(1, labels.where(known, 0)[:, None], 1.0) * known[:, None]
    shares = shares * known[:, None]
    both = (shares * truth).sum((0, 2, 3))
    either = shares.sum((0, 2, 3)) + truth.sum((0, 2, 3)) - both
    there = truth.sum((0, 2, 3)) > 0
    return ((1 - both / either.clamp(min=1)) * there).sum() / there.sum().clamp(min=1)
