"""Carry: how cached values are propagated to the current frame."""

from clockseg.carry.codec import Auto, Codec
from clockseg.carry.flow import Flow
from clockseg.carry.interpolate import Interpolate, at_once, settled
from clockseg.carry.motion import Motion, Sight
from clockseg.carry.spec import parse_carry
from clockseg.carry.vectors import Vectors
from clockseg.carry.warp import Estimator, Warp
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
