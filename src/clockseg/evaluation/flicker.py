"""Flicker: the temporal inconsistency of labels, beyond the motion of the picture.

Flicker is 1 - mIoU of the labels of a frame against those of the frame before, warped by optical flow, over the pixels whose
flow is consistent in both directions and the classes that hold at least 0.1 % of them. It needs no human labels. Labels that
follow the picture perfectly have none; those of the uncut network on every frame have some, which is the value to compare with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from clockseg.carry.motion import Motion, Sight, grey, grid, optical_flow, sampled
from clockseg.evaluation.metrics import Confusion, Deviation, confusion, deviation, finite
from clockseg.libraries import opencv
from clockseg.types import Array, Image, Labels

LARGEST = 480
"""The most pixels of the longer side of the flow's grid, which has at most half the frame's size."""
APART = 1.0
"""The most pixels of the flow's grid between a place and its image after the flow to the frame before and back."""
LEAST, MOST = 0.1, 0.6
"""Two frames show different scenes, and are left out, if less than ``LEAST`` of the picture is consistent, or more than ``MOST``
of it differs by more than 12 grey levels after warping. Measured within six clips, four frames apart: at least 0.32, at most
0.36; across cuts: at most 0.02, at least 0.74."""


class Correspondence(NamedTuple):
    """Position of each pixel in the frame before, float32 [h, w, 2], and where it is reliable, bool [h, w]."""

    places: Array
    sure: Array


class Following:
    """Correspondences of each frame of one clip with the frame before."""

    def __init__(self) -> None:
        self._before: tuple[tuple[int, ...], Sight] | None = None

    def see(self, image: Image) -> Correspondence | None:
        """Add a frame, uint8 RGB [h, w, 3]; return None at the first frame, one of another size, and after a cut."""
        height, width = image.shape[:2]
        before, now = self._before, Sight(grey(image, min(0.5, LARGEST / max(height, width))))
        self._before = image.shape, now
        if before is None or before[0] != image.shape:
            return None
        motion = Motion(optical_flow(now.grey, before[1].grey, finest=1), before[1], now)
        sure = consistent(motion.flow, optical_flow(before[1].grey, now.grey, finest=1))
        if sure.mean() < LEAST or motion.unexplained() > MOST:
            return None
        enlarged = opencv().resize(sure.view(np.uint8), (width, height), interpolation=opencv().INTER_NEAREST)
        return Correspondence(motion.places(height, width), enlarged.view(bool))


def consistent(there: Array, back: Array, apart: float = APART) -> Array:
    """Check two flows [h, w, 2] for consistency: bool [h, w], True where ``there`` then ``back`` ends within ``apart`` pixels.

    Places that were outside of the earlier picture are not consistent.
    """
    height, width = there.shape[:2]
    places = grid(there) + there
    missed = there + sampled(back, places)
    x, y = places[..., 0], places[..., 1]
    inside = (x >= -0.5) & (y >= -0.5) & (x <= width - 0.5) & (y <= height - 0.5)
    return np.asarray(inside & (np.square(missed).sum(axis=2) <= apart * apart))


def flickering(labels: Labels, before: Labels, found: Correspondence, classes: int) -> Confusion:
    """Return the confusion of ``labels`` [h, w] with those of the frame before, warped to this one."""
    # OpenCV warps no wider integers.
    wide = before if before.dtype.itemsize <= 2 else before.astype(np.float64)
    moved = sampled(wide, found.places, nearest=True)
    return confusion(labels, moved.astype(labels.dtype, copy=False), classes, where=found.sure)


def flicker_facts(counted: Confusion | Deviation) -> dict[str, Any]:
    """Return plain values, 0..1, None if no pixel was counted.

    ``flicker``: 1 - mIoU over the classes of at least 0.1 % of the pixels, ``pixels``: the share that changed their label. For
    numbers ``flicker`` alone: the mean absolute difference from the warped frame before over the mean absolute number.
    """
    if isinstance(counted, Deviation):
        return {"flicker": counted.apart / counted.size if counted.size else None}
    return {"flicker": finite(1 - counted.mean_iu_of()), "pixels": finite(1 - counted.pixel_acc)}


def drift(values: Array, before: Array, found: Correspondence) -> Deviation:
    """Return the deviation of the frame before, warped, from numbers, [h, w] or [channels, h, w]; all channels count alike."""
    planes = [one.reshape(-1, *one.shape[-2:]).astype(np.float32) for one in (values, before)]
    sums = Deviation()
    for now, last in zip(*planes, strict=True):
        moved = sampled(last, found.places)
        where = found.sure & np.isfinite(moved) & np.isfinite(now)
        sums += deviation(moved[where], now[where])
    return sums


class Flickers:
    """The flicker of several outputs on one clip, with one motion estimate per frame; ``classes``: None for numbers."""

    def __init__(self, outputs: int, classes: int | None) -> None:
        self.counted: list[Any] = [Deviation() if classes is None else Confusion.none(classes)] * outputs
        self._classes = classes
        self._following = Following()
        self._before: Sequence[Labels] = ()

    def see(self, image: Image, outputs: Sequence[Labels]) -> None:
        """Add a frame, with its label maps [h, w] or maps of numbers."""
        found = self._following.see(image)
        if found is not None:
            pairs = zip(self.counted, outputs, self._before, strict=True)
            self.counted = [sum + self._apart(now, before, found) for sum, now, before in pairs]
        self._before = list(outputs)

    def _apart(self, now: Array, before: Array, found: Correspondence) -> Any:
        return drift(now, before, found) if self._classes is None else flickering(now, before, found, self._classes)
