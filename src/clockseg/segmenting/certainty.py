"""The confidence of a network in its labels, and a warning where it is far below that on its own kind of video."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from clockseg.clockwork.network import StagedNetwork

PLAINLY = 0.8
"""A network's labels count as unreliable below this share of its confidence on its own validation data."""
TIMES = 3.0
"""They also count as unreliable if 1 - confidence is more than this many times as large: the mean confidence of `street` is 0.95 on
its own clip, 0.89 on other traffic and 0.75 to 0.83 on animals, rooms and sports."""


def stated(net: StagedNetwork) -> float | None:
    """Return the mean confidence on its own validation data that a network's sidecar states, if it does."""
    return None if net.sidecar is None else net.sidecar.confidence


def looked_at(number: int) -> bool:
    """Return true for the key frames whose confidence is measured: number 0, 1, 2, 4, 8, and so on.

    >>> [number for number in range(20) if looked_at(number)]
    [0, 1, 2, 4, 8, 16]
    """
    return number & (number - 1) == 0


def mean_confidence(net: StagedNetwork, image: Any) -> float:
    """Return the mean over all pixels of the largest class probability, 0..1, with every stage run on this frame.

    The network must give class scores, as one that states a confidence does.
    """
    return confidence_of(net.fused(net.fusion(image)))


def confidence_of(maps: Any) -> float:
    """Return the mean of the largest class probability, 0..1; ``maps``: class scores [1, classes, h, w], or a mapping with them."""
    scores = next(iter(maps.values())) if isinstance(maps, Mapping) else maps
    found = np.asarray(scores, np.float32)
    return float((1 / np.exp(found - found.max(axis=1, keepdims=True)).sum(axis=1)).mean())


def doubt(here: float | None, own: float | None) -> str | None:
    """Return the warning for a mean confidence ``here`` against the network's own, or None if there is no reason to warn.

    >>> doubt(0.41, 0.86)
    'the labels are probably unreliable: mean confidence 0.41, compared with 0.86 on video like the training data'
    >>> doubt(0.8, 0.86), doubt(0.9, 0.95)
    (None, None)
    """
    if here is None or own is None or here >= max(PLAINLY * own, 1 - TIMES * (1 - own)):
        return None
    return f"the labels are probably unreliable: mean confidence {here:.2f}, compared with {own:.2f} on video like the training data"
