"""The scale of colours of maps of numbers: one for the whole video, from a few frames of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from itertools import islice

import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.errors import VideoError
from clockseg.types import Array
from clockseg.video import Clip

SAMPLES = 8
"""Frames from which the scale is taken, evenly spaced over a video, or the first ones of a folder of images."""
ENDS = (1.0, 99.0)
"""Percentiles of all numbers of these frames that are drawn in the darkest and the brightest colour."""
_MOST = 20_000


def value_scale(
    net: StagedNetwork,
    open: Callable[[Fraction | None], Clip],
    *,
    begin: float | None,
    end: float | None,
) -> tuple[float, float] | None:
    """Return the numbers for the darkest and the brightest colour; None if no frame gives finite numbers.

    ``open`` opens the clip from a moment on, in seconds; ``begin`` and ``end``: the part of it that is segmented, None if it has
    no times. The network runs on each of the ``SAMPLES`` frames.
    """
    moments: list[Fraction | None] = [None]
    if begin is not None and end is not None and end > begin:
        places = [begin + (end - begin) * (number + 0.5) / SAMPLES for number in range(SAMPLES)]
        moments = [Fraction(place).limit_denominator(1000) for place in places]
    found: list[Array] = []
    for moment in moments:
        with open(moment) as clip, closing(iter(clip)) as frames:  # type: ignore[type-var]
            try:
                found += [_numbers(net, frame.image) for frame in islice(frames, 1 if moment is not None else SAMPLES)]
            except VideoError:
                continue
    numbers = np.concatenate(found) if found else np.zeros(0)
    if not numbers.size:
        return None
    low, high = np.percentile(numbers, ENDS)
    return float(low), float(high)


def _numbers(net: StagedNetwork, image: Array) -> Array:
    """Return finite numbers of the first channel of a frame's output, none if it is no map."""
    values = np.asarray(net(image))
    if values.dtype.kind != "f" or values.ndim not in (2, 3):
        return np.zeros(0)
    flat = (values if values.ndim == 2 else values[0]).ravel()
    flat = flat[:: max(1, flat.size // _MOST)]
    return np.asarray(flat[np.isfinite(flat)], np.float64)
