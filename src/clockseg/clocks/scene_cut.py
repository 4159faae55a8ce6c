"""Detection of scene cuts, at which no cached value is worth keeping."""

from __future__ import annotations

from typing import Any

import numpy as np

from clockseg.types import Array

UNEXPLAINED = 0.5
"""Smallest share of the picture that motion leaves unexplained at a cut. Ordinary motion leaves under 0.2, cuts 0.75."""
APART = {True: 0.05, False: 0.08}
"""Smallest mean difference of thumbnails over 255 at a cut, with motion known and without. Motion: below 0.04; cuts: 0.12."""
JUMP = 2.0
"""Smallest ratio of a cut's change to that of the frames before it; lower in a whip pan or under a strobe."""
SIDE = 16
"""Cells of a thumbnail along each side: so coarse that motion within the picture hardly shows."""
MEMORY = 0.125
"""The weight of one frame in the running mean of changes."""


def scene_cut(motion: Any, now: Any, before: Any, usual: float) -> tuple[bool, float]:
    """Return True if a shot begins with this frame, and the updated ``usual`` change, which starts at 0.0.

    ``motion``: since the frame before (``clockseg.carry.Motion``), or None; then the pictures ``now`` and ``before``, uint8
    [h, w, 3], decide, if there are any. With motion, a cut needs both: a large share that motion leaves unexplained, and
    different thumbnails.

    >>> dark, light = np.zeros((2, 48, 64, 3), np.uint8) + np.uint8([[[[0]]], [[[99]]]])
    >>> scene_cut(None, light, dark, 0.0)[0], scene_cut(None, light, light, 0.0)[0]
    (True, False)
    """
    if motion is None and now is None:
        return False, usual
    if motion is None:
        signal = apart = _apart(np.asarray(now), np.asarray(before))
    else:
        signal = motion.unexplained()
        apart = _apart(motion.now.grey, motion.then.grey) if signal >= UNEXPLAINED else 0.0
    cut = apart >= APART[motion is not None] and signal > JUMP * usual
    return cut, usual + MEMORY * (signal - usual)


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
