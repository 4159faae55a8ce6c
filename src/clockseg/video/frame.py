"""Frame: one decoded picture with its number and its time."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from clockseg._types import Image
from clockseg.carry.vectors import Vectors


@dataclass(frozen=True, eq=False)
class Frame:
    """One picture of a clip.

    ``index`` counts the decoded frames of the input from 0. ``image`` is uint8 RGB [h, w, 3], C-contiguous, turned
    upright. ``pts`` is the input's own timestamp in units of ``time_base`` (seconds); it and ``pts_seconds`` are None
    where the input has no times (images, raw streams). ``decode_seconds`` is what decoding and converting it took.
    ``vectors``: what the codec says of its motion, where asked for; None where it tells nothing.

    >>> import numpy as np
    >>> Frame(index=0, image=np.zeros((2, 3, 3), np.uint8)).size
    (3, 2)
    """

    index: int
    image: Image
    pts: int | None = None
    time_base: Fraction | None = None
    decode_seconds: float = 0.0
    vectors: Vectors | None = None

    @property
    def pts_seconds(self) -> float | None:
        """Time of the frame in seconds, on the input's own time line.

        >>> import numpy as np
        >>> Frame(index=3, image=np.zeros((2, 3, 3), np.uint8), pts=120, time_base=Fraction(1, 1000)).pts_seconds
        0.12
        """
        if self.pts is None or self.time_base is None:
            return None
        return float(self.pts * self.time_base)

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) in pixels."""
        height, width = self.image.shape[:2]
        return width, height
