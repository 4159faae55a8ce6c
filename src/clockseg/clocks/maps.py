"""Signals that clocks compute: changes of label maps, of other maps and of pictures, and scene cuts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clockseg.errors import UsageError
from clockseg.types import Array

SMALLEST_SHARE = 0.001
"""Smallest share of a map that classes count as covering, so that a few stray cells are no large change."""
UNEXPLAINED = 0.5
"""Smallest share of the picture that motion leaves unexplained at a cut. Ordinary motion leaves under 0.2, cuts 0.75."""
APART = {True: 0.05, False: 0.08}
"""Smallest mean difference of thumbnails over 255 at a cut, with motion known and without. Motion: below 0.04; cuts: 0.12."""
JUMP = 2.0
"""Smallest ratio of a cut's change to that of the frames before it; lower in a whip pan or under a strobe."""
SIDE = 16
"""Cells of a thumbnail along each side: so coarse that motion within the picture hardly shows."""
USUAL_WEIGHT = 0.125
"""The weight of one frame in the running mean of changes."""


def labels(scores: Array) -> Array:
    """Return the label map of a score map: the argmax over classes, the lowest index on ties.

    ``scores`` [n, classes, h, w] -> [n, h, w]; a map of integers is returned as it is.

    >>> labels(np.array([[[[0., 5.]], [[1., 2.]]]])).tolist()
    [[[1, 0]]]
    """
    scores = np.asarray(scores)
    if scores.dtype.kind in "uib":
        return scores
    if scores.ndim != 4:
        raise UsageError(
            f"labels need a score map, [n, classes, h, w]; this array has shape {scores.shape}. "
            'This network gives no class scores there: watch difference(threshold, of="features").'
        )
    # Class by class over whole rows: several times as fast as argmax along an axis with a stride.
    best = scores[:, 0].copy()
    found = np.zeros(best.shape, np.uint8 if scores.shape[1] <= 256 else np.int32)
    for index in range(1, scores.shape[1]):
        better = scores[:, index] > best
        found[better] = index
        np.maximum(best, scores[:, index], out=best)
    return found


def _pair(now: Array, before: Array) -> tuple[Array, Array]:
    """Return both as arrays; ``UsageError`` if their shapes differ."""
    now, before = np.asarray(now), np.asarray(before)
    if now.shape != before.shape:
        raise UsageError(f"maps of shapes {now.shape} and {before.shape} can't be compared; give equal shapes.")
    return now, before


def change(now: Array, before: Array, classes: Sequence[int] = ()) -> float:
    """Return the share of cells in which two label maps differ, 0..1 (paper, section 4.3).

    ``classes``: only cells that show one of these in either map count. For a single class the change is then 1 - intersection
    over union. Classes count as covering at least ``SMALLEST_SHARE`` of the map.

    >>> change(np.array([1, 2, 3, 4]), np.array([1, 2, 3, 9]))
    0.25
    >>> change(np.array([0, 1, 1, 2]), np.array([0, 1, 0, 3]), [1])
    0.5
    """
    now, before = _pair(now, before)
    differ = now != before
    if not classes:
        return float(np.count_nonzero(differ)) / now.size
    either = np.isin(now, classes) | np.isin(before, classes)
    changed, shown = int(np.count_nonzero(either & differ)), int(np.count_nonzero(either))
    return changed / max(shown, SMALLEST_SHARE * now.size, 1.0)


def relative_difference(a: Array, b: Array) -> float:
    """Return sum |a - b| / (half of sum (|a| + |b|)), 0..2; 0 if both are zero.

    >>> relative_difference(np.array([3., 1.]), np.array([1., 1.]))
    0.6666666666666666
    """
    first, second = _pair(a, b)
    if first.dtype == second.dtype == np.uint8:  # pictures: the same sums in integers, several times as fast
        apart = (np.maximum(first, second) - np.minimum(first, second)).sum(dtype=np.int64)
        scale = (first.sum(dtype=np.int64) + second.sum(dtype=np.int64)) / 2
    else:
        # The same memory layout for all, since the order of additions changes the last digit.
        first, second = np.ascontiguousarray(first, np.float32), np.ascontiguousarray(second, np.float32)
        apart = np.abs(first - second).sum(dtype=np.float64)
        scale = (np.abs(first).sum(dtype=np.float64) + np.abs(second).sum(dtype=np.float64)) / 2
    return float(apart / scale) if scale else 0.0


def scene_cut(motion: Any, now: Any, before: Any, usual: float) -> tuple[bool, float]:
    """Return True if a shot begins with this frame, and the updated ``usual`` change, which starts at 0.0.

    ``motion``: since the frame before (``clockseg.carry.Motion``), or None; then the pictures ``now`` and ``before``, uint8
    [h, w, 3], decide, if there are any. With motion, a cut needs both: a large share that motion leaves unexplained, and
    different thumbnails.
    """
    if motion is None and now is None:
        return False, usual
    if motion is None:
        signal = apart = _apart(np.asarray(now), np.asarray(before))
    else:
        signal = motion.unexplained()
        apart = _apart(motion.now.grey, motion.then.grey) if signal >= UNEXPLAINED else 0.0
    cut = apart >= APART[motion is not None] and signal > JUMP * usual
    return cut, usual + USUAL_WEIGHT * (signal - usual)


def _apart(now: Array, before: Array) -> float:
    """Return the mean difference of two pictures' thumbnails, 0..1."""
    if now.shape != before.shape or now.ndim < 2:
        return 0.0
    return float(np.abs(_thumbnail(now) - _thumbnail(before)).mean() / 255)


def _thumbnail(picture: Array) -> Array:
    """Return the means over about ``SIDE`` by ``SIDE`` cells of the picture, over all channels."""
    # Four by four pixels of each cell are enough.
    step = [max(1, side // (SIDE * 4)) for side in picture.shape[:2]]
    some = picture[:: step[0], :: step[1]]
    rows, columns = (max(1, side // SIDE) for side in some.shape[:2])
    whole = some[: some.shape[0] // rows * rows, : some.shape[1] // columns * columns]
    cells = whole.reshape(whole.shape[0] // rows, rows, whole.shape[1] // columns, columns, -1)
    return np.asarray(cells.mean(axis=(1, 3, 4)))
