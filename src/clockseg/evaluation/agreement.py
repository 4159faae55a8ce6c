"""How far label maps agree with those of a reference: what of a confusion the scores need, small enough to keep many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clockseg.evaluation.metrics import AGREEMENT_SHARE
from clockseg.types import Array, Labels


@dataclass(frozen=True, eq=False)
class Agreement:
    """Pixels of each class, int64 [classes]: ``right`` (in both maps), in the ``truth``, and as ``shown``; addable.

    >>> one = agreement(np.uint8([[0, 0, 1]]), np.uint8([[0, 1, 1]]), 2)
    >>> (one + one).pixel_acc, round(one.mean_iu, 3)
    (0.6666666666666666, 0.5)
    """

    right: Array
    truth: Array
    shown: Array

    def __add__(self, other: Agreement) -> Agreement:
        if not isinstance(other, Agreement):
            return NotImplemented
        return Agreement(self.right + other.right, self.truth + other.truth, self.shown + other.shown)

    @property
    def pixel_acc(self) -> float:
        """The share of pixels that agree; NaN without any."""
        pixels = self.truth.sum()
        return float(self.right.sum() / pixels) if pixels else float("nan")

    @property
    def mean_iu(self) -> float:
        """The mean intersection over union of the classes that hold at least 0.1 % of the reference's pixels."""
        large = (self.truth > 0) & (self.truth >= AGREEMENT_SHARE * self.truth.sum())
        either = (self.truth + self.shown - self.right)[large]
        return float((self.right[large] / either).mean()) if large.any() else float("nan")


def agreement(truth: Labels, shown: Labels, classes: int) -> Agreement:
    """Of two label maps of one shape, whose ids are below ``classes``.

    >>> agreement(np.uint8([1, 1]), np.uint8([1, 0]), 3).right.tolist()
    [0, 1, 0]
    """
    counts = (np.bincount(part.ravel(), minlength=classes) for part in (truth[truth == shown], truth, shown))
    return Agreement(*counts)


def no_agreement(classes: int) -> Agreement:
    """No pixels: what a sum starts from.

    >>> no_agreement(2).truth.tolist()
    [0, 0]
    """
    return Agreement(*np.zeros((3, classes), np.int64))
