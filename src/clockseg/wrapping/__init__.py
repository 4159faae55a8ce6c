"""Clocked execution of a torch module that is already in use, without other changes to its program."""

from __future__ import annotations

from clockseg.wrapping.wrapped import wrap

__all__ = ["wrap"]
