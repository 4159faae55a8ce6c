"""Multinomial logistic regression by L-BFGS, in numpy: convex, deterministic, and without a learning rate."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from clockseg.errors import TrainingError
from clockseg.types import Array

PENALTY = 1e-4
"""Factor of half the squared weights, added to the loss; for features scaled to variance 1."""
ITERATIONS = 60


class Fit(NamedTuple):
    """``weight`` [classes, channels] and ``bias`` [classes] for unscaled features; ``loss``: the final one."""

    weight: Array
    bias: Array
    loss: float


def fit(features: Array, targets: Array, weights: Array, *, iterations: int = ITERATIONS) -> Fit:
    """Return the head that minimizes the weighted cross-entropy of softmax(features @ weight.T + bias) against ``targets``.

    ``features``: float [n, channels]; ``targets``: [n, classes], rows that sum to 1; ``weights``: [n], above 0.
    ``TrainingError`` where features aren't finite.

    >>> found = fit(np.array([[0.], [1.], [2.], [3.]]), np.eye(2)[[0, 0, 1, 1]], np.ones(4))
    >>> (np.array([[1.2], [1.8]]) @ found.weight.T + found.bias).argmax(axis=1).tolist()
    [0, 1]
    """
    x, mean, scale = _standardised(features)
    t = np.asarray(targets, np.float32)
    w = (np.asarray(weights, np.float64) / np.sum(weights)).astype(np.float32)[:, None]
    shape = (x.shape[1] + 1, t.shape[1])

    def loss(flat: Array) -> tuple[float, Array]:
        theta = flat.reshape(shape)
        scores = x @ theta[:-1].astype(np.float32) + theta[-1].astype(np.float32)
        scores -= scores.max(axis=1, keepdims=True)
        shares = np.exp(scores)
        total = shares.sum(axis=1, keepdims=True)
        value = float((w * t * (np.log(total) - scores)).sum(dtype=np.float64))
        apart = w * (shares / total - t)
        slope = np.vstack([x.T @ apart, apart.sum(axis=0)]).astype(np.float64)
        slope[:-1] += PENALTY * theta[:-1]
        return value + PENALTY / 2 * float((theta[:-1] ** 2).sum()), slope.ravel()

    start = np.zeros(shape)
    # Start from the classes' shares; a class that never occurs gets a small share instead of none.
    start[-1] = np.log((w * t).sum(axis=0) + 1e-6)
    flat, value = minimise(loss, start.ravel(), iterations=iterations)
    theta = flat.reshape(shape)
    weight = (theta[:-1] / scale[:, None]).T
    return Fit(weight.astype(np.float32), (theta[-1] - weight @ mean).astype(np.float32), value)


def _standardised(features: Array) -> tuple[Array, Array, Array]:
    """Return features of mean 0 and variance 1 (0 for a constant channel), their means and scales."""
    mean, scale = features.mean(axis=0, dtype=np.float64), features.std(axis=0, dtype=np.float64)
    if not (np.isfinite(mean).all() and np.isfinite(scale).all()):
        raise TrainingError("the features are not all finite; check the network.")
    scale = np.where(scale > 1e-6 * max(1.0, float(scale.max(initial=0))), scale, np.inf)
    return ((features - mean) / scale).astype(np.float32), mean, scale


def minimise(function: Callable[[Array], tuple[float, Array]], start: Array, *, iterations: int) -> tuple[Array, float]:
    """Return the minimum of a convex ``function``, which gives its value and gradient, as place and value (L-BFGS, Nocedal 1980).

    It ends when the gradient is a thousandth of the first one, or after so many iterations.
    """
    place, (value, slope) = start, function(start)
    first = float(np.linalg.norm(slope))
    steps: deque[tuple[Array, Array, float]] = deque(maxlen=12)
    for _ in range(iterations):
        if float(np.linalg.norm(slope)) <= 1e-3 * first:
            break
        towards = _direction(slope, steps)
        if not steps:
            towards /= max(1.0, first)
        length = 1.0
        while length > 1e-6:
            there = place + length * towards
            found, new_slope = function(there)
            if found <= value + 1e-4 * length * float(slope @ towards):
                break
            length /= 2
        else:
            break
        moved, turned = there - place, new_slope - slope
        if (along := float(moved @ turned)) > 1e-12:
            steps.append((moved, turned, 1 / along))
        place, value, slope = there, found, new_slope
    return place, value


def _direction(slope: Array, steps: deque[tuple[Array, Array, float]]) -> Array:
    """Return the descent direction from the curvature along the last steps (the two-loop recursion)."""
    towards, shares = -slope, []
    for moved, turned, share in reversed(steps):
        shares.append(share * float(moved @ towards))
        towards = towards - shares[-1] * turned
    if steps:
        moved, turned, share = steps[-1]
        towards = towards / (share * float(turned @ turned))
    for (moved, turned, share), done in zip(steps, reversed(shares), strict=True):
        towards = towards + (done - share * float(turned @ towards)) * moved
    return towards
