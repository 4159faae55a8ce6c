"""What `scene` learns: the teacher's class probabilities."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from recipes.street.fit import Loss, class_weights, enlarged
from recipes.street.network import Scores
from recipes.street.recipe import Recipe


def loss_on_probabilities(shares: Tensor, recipe: Recipe) -> Loss:
    """Return the loss against class probabilities [n, h / 4, w / 4, classes]; `shares`: of each class in all of them."""
    weights = class_weights(shares, recipe.rare)

    def loss(scores: Scores, images: Tensor, soft: Tensor) -> Tensor:
        return distillation_loss(scores, soft.permute(0, 3, 1, 2).float(), weights.to(images.device), recipe)

    return loss


def distillation_loss(scores: Scores, soft: Tensor, weights: Tensor, recipe: Recipe) -> Tensor:
    """Cross-entropy and overlap of the fused scores with the probabilities, and cross-entropy of each stage's scores.

    `soft`: [n, classes, h / 4, w / 4], all 0 where nothing is known. Against the Kullback-Leibler divergence the
    cross-entropy lacks only the teacher's own entropy, which has no gradient.
    """
    weighted = soft * weights.view(-1, 1, 1)
    total_weight = soft.sum().clamp(min=1)
    log_share = F.log_softmax(enlarged(scores.fused, soft.shape[2:]), 1)
    total = -(weighted * log_share).sum() / total_weight
    total = total + recipe.overlap * soft_overlap_loss(log_share.exp(), soft)
    for weight, own in zip(recipe.aux, scores.own, strict=True):
        own_share = F.log_softmax(enlarged(own, soft.shape[2:]), 1)
        total = total - weight * (weighted * own_share).sum() / total_weight
    return total


def soft_overlap_loss(shares: Tensor, soft: Tensor) -> Tensor:
    """1 - soft intersection over union with the probabilities, its mean over the classes that the batch shows.

    The smaller of both probabilities is the intersection and the larger the union, so that equal ones lose nothing.
    """
    known = soft.sum(1, keepdim=True)
    shares = shares * known
    both = torch.minimum(shares, soft).sum((0, 2, 3))
    either = torch.maximum(shares, soft).sum((0, 2, 3))
    there = soft.amax((0, 2, 3)) > 0.5
    return ((1 - both / either.clamp(min=1e-6)) * there).sum() / there.sum().clamp(min=1)
