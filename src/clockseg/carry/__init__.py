"""Carry: what becomes of what is held while a stage rests."""

from clockseg.carry.carry import Carry
from clockseg.carry.identity import Identity, identity

__all__ = ["Carry", "Identity", "identity"]
