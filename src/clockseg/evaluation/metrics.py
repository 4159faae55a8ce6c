"""Scores of label maps, from a confusion matrix that is summed over frames and clips, and the error of maps of numbers.

Mean IU is mIoU; f.w. IU weighs each class by its share of the true pixels. As in the authors' code there is one confusion for
the whole run, true labels outside the classes are dropped, and classes absent from both are left out of the mean.
Maps of numbers, such as depth or edges, have no classes to count, so agreement is a relative error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from clockseg.errors import DataError, UsageError
from clockseg.libraries import opencv
from clockseg.types import Array

BandKind: TypeAlias = Literal["foreground", "classes"]

AGREEMENT_SHARE = 0.001
"""Agreement's mIoU is over classes that hold at least this share of the oracle's pixels."""

NAN = math.nan


@dataclass(frozen=True, eq=False)
class Confusion:
    """Confusion matrix: pixels of each true class by predicted class; addable.

    ``counts``: int64 [classes, classes], rows the truth, columns the prediction. Every score is 0..1, NaN where it is
    not defined (no pixels, a class absent from truth and prediction).

    >>> both = Confusion(np.array([[3, 1], [2, 4]]))
    >>> both.pixel_acc, both.iu.tolist(), round(both.mean_iu, 10), round(both.fw_iu, 10)
    (0.7, [0.5, 0.5714285714285714], 0.5357142857, 0.5428571429)
    >>> (both + both).mean_iu == both.mean_iu
    True
    """

    counts: Array

    def __post_init__(self) -> None:
        # int64, so that no sum saturates: a float32 count stops growing at 2^24 pixels, a hundred frames.
        counts = np.array(self.counts, dtype=np.int64)
        if counts.ndim != 2 or counts.shape[0] != counts.shape[1] or counts.min(initial=0) < 0:
            raise UsageError(f"a confusion of shape {counts.shape}; give counts of 0 or more, [classes, classes].")
        counts.flags.writeable = False
        object.__setattr__(self, "counts", counts)

    @classmethod
    def none(cls, classes: int) -> Confusion:
        """Return the confusion of no pixels, to which others are added."""
        return cls(np.zeros((classes, classes), np.int64))

    def __len__(self) -> int:
        """The number of classes."""
        return len(self.counts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Confusion) and np.array_equal(self.counts, other.counts)

    def __hash__(self) -> int:
        return hash(self.counts.tobytes())

    def __add__(self, other: Confusion) -> Confusion:
        if not isinstance(other, Confusion):
            return NotImplemented
        if len(self) != len(other):
            raise UsageError(f"confusions of {len(self)} and {len(other)} classes can't be added.")
        return Confusion(self.counts + other.counts)

    @property
    def pixels(self) -> int:
        """Number of pixels counted."""
        return int(self.counts.sum())

    @property
    def pixel_acc(self) -> float:
        """The share of pixels predicted right."""
        return float(np.trace(self.counts) / self.pixels) if self.pixels else NAN

    @property
    def class_acc(self) -> Array:
        """Per class: the share of its true pixels predicted right; NaN for a class absent from the truth."""
        return _share(np.diag(self.counts), self.counts.sum(axis=1))

    @property
    def mean_acc(self) -> float:
        """The mean of ``class_acc`` over the classes in the truth."""
        return _mean(self.class_acc)

    @property
    def iu(self) -> Array:
        """Per class: intersection over union; 0 for a class only predicted, NaN for one absent from both."""
        right = np.diag(self.counts)
        return _share(right, self.counts.sum(axis=0) + self.counts.sum(axis=1) - right)

    @property
    def mean_iu(self) -> float:
        """The mean of ``iu`` over the classes that are in the truth or the prediction (mIoU)."""
        return _mean(self.iu)

    @property
    def fw_iu(self) -> float:
        """``iu`` weighted by each class's share of the true pixels."""
        truth = self.counts.sum(axis=1)
        there = truth > 0
        return float((truth[there] * self.iu[there]).sum() / self.pixels) if self.pixels else NAN

    def mean_iu_of(self, least: float = AGREEMENT_SHARE) -> float:
        """Return the mean of ``iu`` over the classes that hold at least the share ``least`` of the true pixels.

        For agreement: a class that the oracle gives to a handful of pixels would swing a plain mean.

        >>> Confusion(np.array([[9990, 0, 0], [9, 0, 0], [1, 0, 0]])).mean_iu_of(0.001)
        0.999
        """
        truth = self.counts.sum(axis=1)
        return _mean(self.iu[(truth > 0) & (truth >= least * self.pixels)])


def confusion(truth: Array, predicted: Array, classes: int, *, where: Array | None = None) -> Confusion:
    """Return the confusion of two label maps of one shape; pixels whose true label is outside 0..classes-1 are dropped.

    ``where``: bool of that shape, the pixels to count. Predicted labels outside the classes are a ``DataError``: map
    them first. About half a millisecond for 480x360 of uint8.

    >>> confusion(np.array([0, 0, 1, 255]), np.array([0, 1, 1, 0]), 2).counts.tolist()
    [[1, 1], [0, 1]]
    """
    truth, predicted = np.asarray(truth), np.asarray(predicted)
    if truth.shape != predicted.shape:
        raise DataError(f"truth of shape {truth.shape}, prediction of shape {predicted.shape}; give equal shapes.")
    if truth.dtype.kind not in "uib" or predicted.dtype.kind not in "uib":
        raise DataError(f"labels of {truth.dtype} and {predicted.dtype}; label maps are whole numbers.")
    if where is not None:
        truth, predicted = truth[where], predicted[where]
    if truth.itemsize > 1 or predicted.itemsize > 1 or {truth.dtype.kind, predicted.dtype.kind} - {"u", "b"}:
        return _confusion_of_any(truth, predicted, classes)
    # Both in a byte: count all 256 x 256 pairs without filtering, then look at what is outside.
    pairs = np.left_shift(truth.ravel(), 8, dtype=np.uint16) | predicted.ravel()
    counts = np.bincount(pairs, minlength=1 << 16).reshape(256, 256)
    if counts[:, classes:].any():
        raise _outside(int(np.flatnonzero(counts.sum(axis=0))[-1]), classes)
    return Confusion(counts[:classes, :classes])


def _confusion_of_any(truth: Array, predicted: Array, classes: int) -> Confusion:
    if predicted.size and not 0 <= predicted.min() <= predicted.max() < classes:
        low, high = int(predicted.min()), int(predicted.max())
        raise _outside(low if low < 0 else high, classes)
    scored = (truth >= 0) & (truth < classes)
    pairs = truth[scored].astype(np.int64) * classes + predicted[scored].astype(np.int64)
    return Confusion(np.bincount(pairs, minlength=classes * classes).reshape(classes, classes))


def _outside(label: int, classes: int) -> DataError:
    return DataError(
        f"a predicted label is {label}, there are {classes} classes (0 to {classes - 1}); "
        "the network has other classes than the labels, or gives something else than labels."
    )


def boundary_band(truth: Array, width: int = 5, *, kind: BandKind = "foreground", ignore: int = 255) -> Array:
    """Return the pixels near a boundary of ``truth`` [h, w], as bool [h, w]: a straight edge gives ``2 * width`` pixels.

    A pixel is in the band if the disk of radius ``width`` (dx^2 + dy^2 <= width^2) around it holds both

    * ``kind="foreground"``: foreground (label > 0 and not ``ignore``) and anything else: the authors' "10 px band",
      dilation XOR erosion of one mask, for labels whose class 0 is the background (PASCAL, DAVIS). No boundary between
      two touching objects; ``ignore`` counts as background here.
    * ``kind="classes"``: two classes, of labels without a background (CamVid, Cityscapes); ``ignore`` is no class.

    The picture's edge is no boundary. Ignored pixels in the band are dropped by the confusion.

    >>> half = np.zeros((40, 40), np.uint8); half[:, 20:] = 1
    >>> int(boundary_band(half).sum()), int(boundary_band(half, kind="classes").sum())
    (400, 400)
    """
    truth = np.asarray(truth)
    if truth.ndim != 2 or truth.dtype.kind not in "ui":
        raise UsageError(f"a boundary band of {truth.dtype} of shape {truth.shape}; give one label map [h, w].")
    if kind == "foreground":
        highest = lowest = ((truth > 0) & (truth != ignore)).astype(np.uint8)
    elif kind == "classes":
        # Ignored pixels can't be an extreme: the least for the maximum, the most for the minimum.
        highest, lowest = (np.where(truth == ignore, fill, truth).astype(np.float64) for fill in (-np.inf, np.inf))
    else:
        raise UsageError(f"boundary kind {kind!r}; there are 'foreground' and 'classes'.")
    cv2, (dy, dx) = opencv(), np.ogrid[-width : width + 1, -width : width + 1]
    disk = (dx * dx + dy * dy <= width * width).astype(np.uint8)
    # Pixels outside the picture are left out. That equals reflected borders, the default of the authors' library.
    return np.asarray(cv2.dilate(highest, disk) > cv2.erode(lowest, disk))


def band_kind(classes: tuple[str, ...]) -> BandKind:
    """Return ``foreground`` if class 0 is named background, else ``classes``.

    >>> band_kind(("background", "object")), band_kind(("sky", "road"))
    ('foreground', 'classes')
    """
    return "foreground" if classes and classes[0].lower() == "background" else "classes"


def finite(score: float) -> float | None:
    """Return a score, or None if it is not finite.

    >>> finite(0.5), finite(NAN)
    (0.5, None)
    """
    return score if math.isfinite(score) else None


def _share(part: Array, whole: Array) -> Array:
    shares = np.full(len(part), np.nan)
    np.divide(part, whole, out=shares, where=whole > 0)
    return shares


def _mean(values: Array) -> float:
    there = values[~np.isnan(values)]
    return float(there.mean()) if there.size else NAN


@dataclass(frozen=True)
class Deviation:
    """Difference of maps of numbers from a reference, summed over frames; addable.

    ``apart``: the sum of absolute differences; ``size``: the sum of the reference's absolute values; ``worst``: the
    largest relative error of a frame; ``frames``: the number of frames.

    >>> one = deviation(np.array([1.0, 3.0]), np.array([1.0, 4.0]))
    >>> (one + one).relative_error, one.worst
    (0.2, 0.2)
    """

    apart: float = 0.0
    size: float = 0.0
    worst: float = 0.0
    frames: int = 0

    def __add__(self, other: Deviation) -> Deviation:
        if not isinstance(other, Deviation):
            return NotImplemented
        worst = max(self.worst, other.worst)
        return Deviation(self.apart + other.apart, self.size + other.size, worst, self.frames + other.frames)

    @property
    def relative_error(self) -> float:
        """mean |a - b| / mean |b|, at least 0; NaN without frames, infinite against nothing but zeros."""
        return _ratio(self.apart, self.size) if self.frames else math.nan

    def facts(self) -> dict[str, Any]:
        """Return plain values, None without frames."""
        worst = self.worst if self.frames else math.nan
        return {"relative_error": finite(self.relative_error), "worst_frame": finite(worst)}


def deviation(values: Array, truth: Array) -> Deviation:
    """Compare one frame's ``values`` with ``truth``, arrays of one shape; places where the truth is not finite don't count.

    Several channels give one figure, so scale them alike or compare them one by one.
    """
    a, b = np.asarray(values, np.float64), np.asarray(truth, np.float64)
    if a.shape != b.shape:
        raise DataError(f"maps of shapes {list(a.shape)} and {list(b.shape)} can't be compared; give equal shapes.")
    known = np.isfinite(b)
    if not known.all():
        a, b = a[known], b[known]
    apart, size = float(np.abs(a - b).sum()), float(np.abs(b).sum())
    return Deviation(apart, size, _ratio(apart, size), 1)


def _ratio(apart: float, size: float) -> float:
    # A value that is not finite where the truth is finite is as wrong as can be.
    if not math.isfinite(apart):
        return math.inf
    return apart / size if size else math.inf if apart else 0.0
