"""A torch network that is in use already, run on a clock without other change, and as it was again."""

from __future__ import annotations

from clockseg.wrapping.wrapped import wrap

__all__ = ["wrap"]
