"""Interpolation: frames between two key frames are made from both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn

from clockseg.carry.codec import Auto
from clockseg.carry.warp import AlongMotion, Estimator, Warp
from clockseg.clockwork.carry import Carry, Of
from clockseg.errors import UsageError


@dataclass(frozen=True)
class Interpolate(AlongMotion):
    """Makes a frame on which nothing fires from the key frames before and after it, each warped to it.

    A key frame is one on which any stage fires. Score maps are warped and averaged before labels are made of them, weighted by
    how well motion explains the picture and by the distance in time (``clockseg.showing``). ``motion``: the motion estimator.
    ``keys``: 1 shows a key frame as the network gives it; 2 averages it with the key frames before and after it too, which is
    more accurate and flickers less.

    Outputs come late, by at most one interval between key frames, so this is for files: for ``clockseg.segment``,
    ``evaluate``, ``plan`` and ``run``, and for ``live --lookahead``. A ``Session`` answers at once, so it can't use it.

    >>> from clockseg.carry.flow import Flow
    >>> print(Interpolate(Flow()), Interpolate(Flow(0.25), keys=1))
    interpolate(flow) interpolate(flow(scale=0.25), keys=1)
    """

    motion: Estimator
    keys: int = 2
    of: ClassVar[Of] = "output"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keys not in (1, 2) or isinstance(self.keys, bool):
            raise UsageError(f"interpolate(keys={self.keys!r}); give 1 or 2.")

    def refuse(self, *given: Any, **named: Any) -> NoReturn:
        """Raise ``UsageError``: whoever asks for the output at once does not know the next key frame."""
        raise UsageError(
            f"{self} needs the key frame after a frame too, so a Session, which answers at once, can't use it. "
            "Use clockseg.run(net, frames, schedule), which yields late, or the carry warp(flow)."
        )

    see = observe = compose = move = refuse


def at_once(carry: Carry) -> Carry:
    """Return a carry whose outputs need no later frame: ``warp`` in place of ``interpolate``, with the same motion estimator.

    >>> from clockseg.carry.flow import Flow
    >>> print(at_once(Interpolate(Flow())))
    warp(flow)
    """
    return Warp(carry.motion) if isinstance(carry, Interpolate) else carry


def settled(carry: Carry, vectors: Any) -> Carry:
    """Return ``carry``, with ``auto`` replaced by its choice for a stream whose frames have these vectors.

    >>> print(settled(Warp(Auto(), of="held"), None))
    warp(flow, of="held")
    """
    if isinstance(carry, Warp | Interpolate) and isinstance(carry.motion, Auto):
        return replace(carry, motion=carry.motion.choice(vectors))
    return carry
