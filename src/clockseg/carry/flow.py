"""Motion from optical flow: OpenCV's DIS (Kroeger et al., Fast Optical Flow using Dense Inverse Search, ECCV 2016)."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from clockseg.carry.motion import Motion, Sight
from clockseg.errors import UsageError
from clockseg.libraries import opencv
from clockseg.types import Array, Image

SMALLEST = 16
"""Shorter side in pixels below which DIS has no pyramid; smaller pictures are enlarged."""


@dataclass(frozen=True)
class Flow:
    """Motion between pictures, by DIS at ``scale`` of the working size (above 0, at most 1).

    On one core, a picture of 480x360 at the default scale takes 1.7 ms. ``fine``: smaller and
    denser patches, in twice the time.

    >>> str(Flow(0.25)), Flow(2)
    Traceback (most recent call last):
        ...
    clockseg.errors.UsageError: flow at the scale 2; give a number above 0 and at most 1, such as 0.5.
    """

    scale: float = 0.5
    fine: bool = False
    reads_vectors: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if isinstance(self.scale, bool) or not isinstance(self.scale, (int, float)) or not 0 < self.scale <= 1:
            raise UsageError(f"flow at the scale {self.scale!r}; give a number above 0 and at most 1, such as 0.5.")

    def see(self, picture: Image, share: tuple[float, float], vectors: Any) -> Sight:
        """Return the picture, uint8 RGB [h, w, 3] or grey [h, w], in grey, scaled down."""
        cv2 = opencv()
        height, width = picture.shape[:2]
        scale = max(self.scale, min(1.0, SMALLEST / min(height, width)))
        size = max(SMALLEST, round(width * scale)), max(SMALLEST, round(height * scale))
        return Sight(_grey(cv2, picture, size), share)

    def observe(self, before: Sight, now: Sight) -> Motion:
        """Return the motion from ``now`` back to ``before``."""
        return Motion(self.between(now.grey, before.grey), before, now)

    def between(self, now: Array, before: Array) -> Array:
        """Return the flow from ``now`` to ``before``, both grey, uint8 [h, w]: float32 [h, w, 2] in pixels."""
        return np.asarray(_dis(self.fine, now.shape).calc(now, before, None))

    def __str__(self) -> str:
        words = [*([] if self.scale == 0.5 else [f"scale={self.scale:g}"]), *(["fine=True"] if self.fine else [])]
        return f"flow({', '.join(words)})" if words else "flow"


def _grey(cv2: Any, picture: Image, size: tuple[int, int]) -> Array:
    """Resize, then convert: three channels at half the size convert faster than one at full size is resized."""
    if (picture.shape[1], picture.shape[0]) != size:
        smaller = size[0] < picture.shape[1]
        picture = cv2.resize(picture, size, interpolation=cv2.INTER_AREA if smaller else cv2.INTER_LINEAR)
    return np.asarray(picture if picture.ndim == 2 else cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY))


SIZES = 4
"""Picture sizes for which a thread keeps its DIS instances."""
_own = threading.local()


def _dis(fine: bool, shape: tuple[int, ...]) -> Any:
    """Return one instance per thread, since it has buffers, and per size, since a tiny picture changes its settings for good."""
    found: dict[Any, Any] = _own.__dict__.setdefault("dis", {})
    made = found.pop((fine, shape), None) or _made(fine)
    while len(found) >= SIZES:
        del found[next(iter(found))]
    found[fine, shape] = made
    return made


def _made(fine: bool) -> Any:
    cv2 = opencv()
    made = cv2.DISOpticalFlow_create(
        cv2.DISOPTICAL_FLOW_PRESET_MEDIUM if fine else cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST
    )
    # The presets stop at a quarter of the picture, which costs a point of mIoU at one frame in four; refining costs
    # more than it gains (docs/motion.md).
    made.setFinestScale(1)
    made.setVariationalRefinementIterations(0)
    return made
