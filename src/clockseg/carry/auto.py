"""Motion from the codec's vectors in streams where they are better than optical flow, and from flow in all others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from clockseg.carry.codec import Codec
from clockseg.carry.flow import Flow, shrunk
from clockseg.carry.interpolate import Interpolate
from clockseg.carry.motion import Motion, Sight
from clockseg.carry.track import TrackedSight
from clockseg.carry.vectors import Vectors
from clockseg.carry.warp import Warp
from clockseg.clocks.expressions import Written
from clockseg.clockwork.carry import Carry
from clockseg.types import Size


@dataclass(frozen=True)
class Auto(Written):
    """``Codec`` in streams with vectors whose frames refer to earlier ones only, and ``Flow`` in all others.

    The rule follows from measured times of decoding and motion together, and not from a measurement in each run, so that the
    same video always gives the same bytes. Without B-frames, vectors keep more of the accuracy, at 0.85 of flow's processor time
    at 960x540 and 1.2 of it at 512x288. With B-frames they kept less, at twice the time (docs/motion.md).

    >>> print(Auto().choice(None), Auto(scale=0.25))
    flow auto(scale=0.25)
    """

    scale: float = 0.5
    reads_vectors: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Flow(self.scale)

    def choice(self, vectors: Any) -> Codec | Flow:
        """Choose the motion estimator for a frame with these vectors."""
        return Codec(self.scale) if isinstance(vectors, Vectors) and not vectors.reordered else Flow(self.scale)

    def see(self, picture: Any, share: tuple[float, float], vectors: Any, *, size: Size | None = None) -> Sight:
        """Return what the estimator that is chosen for the frame needs."""
        return self.choice(vectors).see(picture, share, vectors, size=size)

    def observe(self, before: Sight, now: Sight) -> Motion:
        """Return the motion from ``now`` back to ``before``."""
        if isinstance(before, TrackedSight) == isinstance(now, TrackedSight):
            return self.choice(now.vectors).observe(before, now)
        # Only one of the two frames has vectors.
        size = now.grey.shape[1], now.grey.shape[0]
        return Flow(self.scale).observe(replace(before, grey=shrunk(before.grey, size)), now)


def settled(carry: Carry, vectors: Any) -> Carry:
    """Return ``carry``, with ``auto`` replaced by its choice for a stream whose frames have these vectors.

    >>> print(settled(Warp(Auto(), of="fused"), None))
    warp(flow, of="fused")
    """
    if isinstance(carry, Warp | Interpolate) and isinstance(carry.motion, Auto):
        return replace(carry, motion=carry.motion.choice(vectors))
    return carry
