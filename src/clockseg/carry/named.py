"""Carries as text, as the command line, plans and summaries write them."""

from __future__ import annotations

from typing import Any

from clockseg.carry.auto import Auto
from clockseg.carry.codec import Codec
from clockseg.carry.flow import Flow
from clockseg.carry.names import named
from clockseg.carry.warp import Estimator, Warp
from clockseg.clockwork.carry import Carry, Of, identity
from clockseg.errors import UsageError


def parse_carry(text: str, *, imports: bool = True) -> Carry:
    """Return the carry that ``text`` describes; ``imports=False`` refuses package.module:object.

    >>> print(parse_carry("warp(flow, scale=0.25)"))
    warp(flow(scale=0.25))
    """
    return as_carry(named(text, CARRIES, what="carry", imports=imports), text)


def as_carry(found: Any, text: str) -> Carry:
    """Return ``found`` if it is a carry, or call it if it needs no arguments; else ``UsageError``.

    >>> print(as_carry(_warp, "warp"))
    warp(flow)
    """
    made: Any = _warp() if found is _warp else found
    if isinstance(made, type) or not isinstance(made, Carry):
        raise UsageError(f"carry {text!r} is {made!r}, no carry; known: identity, warp(flow), warp(codec), warp(auto).")
    return made


def _warp(motion: Any = Flow, *, of: Of = "auto", **options: Any) -> Warp:
    """Return a warp; options of the motion estimator may be given beside it: ``warp(flow, scale=0.5)``."""
    made: Estimator = motion(**options) if isinstance(motion, type) else motion
    if options and not isinstance(motion, type):
        raise UsageError(f"warp({motion}, {', '.join(options)}=..): give options once, such as warp(flow, scale=0.5).")
    return Warp(made, of)


CARRIES: dict[str, Any] = {"identity": identity, "warp": _warp, "flow": Flow, "codec": Codec, "auto": Auto}
"""The names from which a carry is written on the command line."""
