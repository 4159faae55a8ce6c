"""Frame: one decoded picture with its number and its time."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from clockseg.carry.vectors import Vectors
from clockseg.types import Image


@dataclass(frozen=True, eq=False)
class Frame:
    """One picture of a clip.

    ``index`` counts the decoded frames of the input, or of the span of it that was asked for, from 0. ``image`` is uint8 RGB
    [h, w, 3], C-contiguous, turned upright. ``pts`` is the input's own timestamp in units of ``time_base`` (seconds); it and
    ``pts_seconds`` are None where the input has no times (images, raw streams). ``duration``, in the same units: how long it
    is shown, where the input says. ``decode_seconds`` is what decoding and converting it took. ``vectors``: what the codec
    says of its motion, where asked for; None where it tells nothing. ``pixel_aspect``: the width of a pixel by its height; the
    picture is as stored, a player stretches it.

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
    duration: int | None = None
    pixel_aspect: Fraction = Fraction(1)

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
    def duration_seconds(self) -> float | None:
        """How long the frame is shown; None where the input doesn't say.

        >>> import numpy as np
        >>> Frame(0, np.zeros((2, 3, 3), np.uint8), pts=0, time_base=Fraction(1, 100), duration=50).duration_seconds
        0.5
        """
        if self.duration is None or self.time_base is None:
            return None
        return float(self.duration * self.time_base)

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) in pixels."""
        height, width = self.image.shape[:2]
        return width, height
