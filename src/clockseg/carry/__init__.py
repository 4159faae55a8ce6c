"""Carry: what becomes of what is held while a stage rests."""

from clockseg.carry.carry import Carry, Of
from clockseg.carry.flow import Flow
from clockseg.carry.identity import Identity, identity
from clockseg.carry.motion import Motion, Sight
from clockseg.carry.named import parse_carry
from clockseg.carry.warp import Estimator, Warp

__all__ = ["Carry", "Estimator", "Flow", "Identity", "Motion", "Of", "Sight", "Warp", "identity", "parse_carry"]
