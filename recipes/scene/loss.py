"""The loss of `scene` against what it learns: the teacher's class probabilities of the very view that it sees (Beyer et al., 2022)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from recipes.street.fit import Loss, class_weights, enlarged
from recipes.street.network import Scores
from recipes.street.recipe import Recipe


def loss_on_probabilities(shares: Tensor, recipe: Recipe) -> Loss:
    """Return the loss against class probabilities [n, h / 4, w / 4, classes]; `shares`: of each class in all of them."""
    weights = class_weights(shares, recipe.rare).view(-1, 1, 1)

    def loss(scores: Scores, images: Tensor, soft: Tensor) -> Tensor:
        return distillation_loss(scores, soft.permute(0, 3, 1, 2).float(), weights.to(images.device), recipe)

    return loss


def distillation_loss(scores: Scores, soft: Tensor, weights: Tensor, recipe: Recipe) -> Tensor:
    """Cross-entropy and overlap of the fused scores with the probabilities, and cross-entropy of each stage's scores.

    `soft`: [n, classes, h / 4, w / 4]; `weights`: of classes, [classes, 1, 1]. Against the Kullback-Leibler divergence the
    cross-entropy lacks only the teacher's own entropy, which has no gradient.
    """
    weighted = soft * weights
    log_share = F.log_softmax(scores.fused.float(), 1)
    total = cross_entropy(log_share, weighted) + recipe.overlap * soft_overlap_loss(log_share.exp(), soft)
    for weight, own in zip(recipe.aux, scores.own, strict=True):
        total = total + weight * cross_entropy(F.log_softmax(enlarged(own, soft.shape[2:]), 1), weighted)
    return total


def cross_entropy(log_share: Tensor, soft: Tensor) -> Tensor:
    """The mean over places of the cross-entropy; both [n, classes, h, w]."""
    return -(soft * log_share).sum(1).mean()


def soft_overlap_loss(shares: Tensor, soft: Tensor) -> Tensor:
    """1 - soft intersection over union with the probabilities, its mean over the classes that the batch shows.

    The smaller of both probabilities is the intersection and the larger the union, so that equal ones lose nothing.
    """
    both = torch.minimum(shares, soft).sum((0, 2, 3))
    either = torch.maximum(shares, soft).sum((0, 2, 3))
    there = soft.amax((0, 2, 3)) > 0.5
    return ((1 - both / either.clamp(min=1e-6)) * there).sum() / there.sum().clamp(min=1)
