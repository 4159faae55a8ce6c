"""Carry: how cached values are propagated to the current frame."""

from clockseg.carry.codec import Auto, Codec, Vectors
from clockseg.carry.motion import Flow, Motion, Sight
from clockseg.carry.warp import Estimator, Interpolate, Warp, at_once, parse_carry, settled
from clockseg.clockwork.carry import Carry, Identity, Of, identity

__all__ = [
    "Auto",
    "Carry",
    "Codec",
    "Estimator",
    "Flow",
    "Identity",
    "Interpolate",
    "Motion",
    "Of",
    "Sight",
    "Vectors",
    "Warp",
    "at_once",
    "identity",
    "parse_carry",
    "settled",
]
