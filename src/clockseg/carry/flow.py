"""Motion from optical flow: OpenCV's DIS (Kroeger et al., Fast Optical Flow using Dense Inverse Search, ECCV 2016)."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from clockseg.carry.motion import Motion, Sight
from clockseg.clocks.expressions import Written
from clockseg.errors import UsageError
from clockseg.libraries import opencv
from clockseg.types import Array, Size

SMALLEST = 16
"""Shorter side in pixels below which DIS has no pyramid; smaller pictures are enlarged."""
GRID = 0.5
"""The resolution of the flow by that of the pictures: matching the pixels themselves gains nothing (docs/motion.md)."""


@dataclass(frozen=True)
class Flow(Written):
    """Motion between pictures at ``scale`` of the working size (above 0, at most 1), by DIS on a grid of half of that.

    On one core, a picture of 480x360 at the default scale takes 1.4 ms. ``sparse``: patches further apart, in half of the time.

    >>> str(Flow(0.25)), Flow(2)
    Traceback (most recent call last):
        ...
    clockseg.errors.UsageError: flow at the scale 2; give a number above 0 and at most 1, such as 0.5.
    """

    scale: float = 0.5
    sparse: bool = False
    reads_vectors: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if isinstance(self.scale, bool) or not isinstance(self.scale, (int, float)) or not 0 < self.scale <= 1:
            raise UsageError(f"flow at the scale {self.scale!r}; give a number above 0 and at most 1, such as 0.5.")

    def see(self, picture: Any, share: tuple[float, float], vectors: Any, *, size: Size | None = None) -> Sight:
        """Return the picture in grey on the flow's grid; see ``Estimator.see``."""
        return Sight(grey(picture, GRID * self.scale, size), share)

    def observe(self, before: Sight, now: Sight) -> Motion:
        """Return the motion from ``now`` back to ``before``."""
        return Motion(optical_flow(now.grey, before.grey, sparse=self.sparse), before, now)


def grey(picture: Any, scale: float, size: Size | None = None) -> Array:
    """Return a picture in grey, uint8 [h, w], at ``scale`` of ``size`` (w, h), by default of its own; see ``Estimator.see``."""
    width, height = size or (picture.shape[1], picture.shape[0])
    scale = max(scale, min(1.0, SMALLEST / min(height, width)))
    size = max(SMALLEST, round(width * scale)), max(SMALLEST, round(height * scale))
    if not isinstance(picture, np.ndarray):
        return np.asarray(picture.grey(size))
    cv2 = opencv()
    small = shrunk(picture, size)
    return np.asarray(small if small.ndim == 2 else cv2.cvtColor(small, cv2.COLOR_RGB2GRAY))


def shrunk(picture: Array, size: Size) -> Array:
    """Resize a picture [h, w, ..], first by halves: many times as fast as averaging over other areas, and as good for motion."""
    cv2 = opencv()
    while picture.shape[1] >= 2 * size[0] and picture.shape[0] >= 2 * size[1]:
        half = picture.shape[1] // 2, picture.shape[0] // 2
        even = picture[: 2 * half[1], : 2 * half[0]]
        picture = cv2.resize(even, half, interpolation=cv2.INTER_AREA)
    if (picture.shape[1], picture.shape[0]) == size:
        return picture
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_LINEAR))


def optical_flow(now: Array, before: Array, *, sparse: bool = False, finest: int = 0) -> Array:
    """Return the flow from ``now`` to ``before``, both grey, uint8 [h, w]: float32 [h, w, 2] in pixels.

    ``finest``: how often the pictures are halved before they are matched; the flow is enlarged again.
    """
    return np.asarray(_dis(threading.get_ident(), sparse, finest, now.shape).calc(now, before, None))


@lru_cache(maxsize=16)
def _dis(thread: int, sparse: bool, finest: int, shape: tuple[int, ...]) -> Any:
    """Return one instance per thread, since it has buffers, and per size, since a tiny picture changes its settings for good."""
    cv2 = opencv()
    made = cv2.DISOpticalFlow_create(cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST)
    made.setFinestScale(finest)
    # Refining costs more than it gains.
    made.setVariationalRefinementIterations(0)
    if not finest:
        # Patches matched with their brightness propagate labels better than without their means, as the preset matches them.
        made.setUseMeanNormalization(False)
        made.setGradientDescentIterations(16)
    if sparse:
        made.setPatchStride(6)  # instead of 4
    return made
