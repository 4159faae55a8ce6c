"""Detection of scene cuts, at which no cached value is worth keeping."""

from __future__ import annotations

from typing import Any

import numpy as np

from clockseg.types import Array

UNEXPLAINED = 0.5
"""Share of the picture that motion since the frame before can't explain. Ordinary motion leaves less than 0.2; cuts, 0.75."""
APART = {True: 0.05, False: 0.08}
"""Mean difference of two thumbnails over 255, with motion known and without. Ordinary motion: below 0.04; cuts: 0.12."""
JUMP = 2.0
"""How many times that of the frames just before it has to be: no cut is in what goes on, such as a whip pan or a strobe."""
SIDE = 16
"""Cells of a thumbnail along each side: so coarse that what moves within the picture hardly shows."""
MEMORY = 0.125
"""The weight of one frame in the mean of those before."""


def scene_cut(motion: Any, now: Any, before: Any, usual: float) -> tuple[bool, float]:
    """Return True if a shot begins with this frame, and the updated ``usual`` change, which starts at 0.0.

    ``motion``: since the frame before (``clockseg.carry.Motion``); or None, and the pictures ``now`` and ``before``, uint8
    [h, w, 3]. A cut is told from motion by both: what motion leaves unexplained, and a coarse difference of the pictures.

    >>> dark, light = np.zeros((2, 48, 64, 3), np.uint8) + np.uint8([[[[0]]], [[[99]]]])
    >>> scene_cut(None, light, dark, 0.0)[0], scene_cut(None, light, light, 0.0)[0]
    (True, False)
    """
    if motion is None:
        signal = apart = _apart(np.asarray(now), np.asarray(before))
    else:
        signal = motion.unexplained()
        apart = _apart(motion.now.grey, motion.then.grey) if signal >= UNEXPLAINED else 0.0
    cut = apart >= APART[motion is not None] and signal > JUMP * usual
    return cut, usual + MEMORY * (signal - usual)


def _apart(now: Array, before: Array) -> float:
    """The mean difference of two pictures' thumbnails, 0..1."""
    if now.shape != before.shape or now.ndim < 2:
        return 0.0
    return float(np.abs(_thumbnail(now) - _thumbnail(before)).mean() / 255)


def _thumbnail(picture: Array) -> Array:
    """Means over about ``SIDE`` by ``SIDE`` cells of the picture, of all its channels together."""
    # Four by four pixels of a cell are enough of its mean.
    step = [max(1, side // (SIDE * 4)) for side in picture.shape[:2]]
    some = picture[:: step[0], :: step[1]]
    rows, columns = (max(1, side // SIDE) for side in some.shape[:2])
    whole = some[: some.shape[0] // rows * rows, : some.shape[1] // columns * columns]
    cells = whole.reshape(whole.shape[0] // rows, rows, whole.shape[1] // columns, columns, -1)
    return np.asarray(cells.mean(axis=(1, 3, 4)))
