"""Carries as text, as the command line, plans and summaries write them."""

from __future__ import annotations

from typing import Any

from clockseg.carry.auto import Auto
from clockseg.carry.codec import Codec
from clockseg.carry.flow import Flow
from clockseg.carry.interpolate import Interpolate
from clockseg.carry.warp import Estimator, Warp
from clockseg.clocks.expressions import object_named
from clockseg.clockwork.carry import Carry, Of, as_carry, identity
from clockseg.errors import UsageError


def parse_carry(text: str, *, imports: bool = True) -> Carry:
    """Return the carry that ``text`` describes; ``imports=False`` refuses package.module:object.

    >>> print(parse_carry("warp(flow, scale=0.25)"))
    warp(flow(scale=0.25))
    """
    return carry_of(object_named(text, CARRIES, what="carry", imports=imports), text)


def carry_of(found: Any, text: str) -> Carry:
    """Return ``found`` if it is a carry, or call it if it needs no arguments; else ``UsageError``.

    >>> print(carry_of(_warp, "warp"))
    warp(flow)
    """
    made: Any = found() if found in (_warp, _interpolate) else found
    try:
        return as_carry(made)
    except UsageError as error:
        raise UsageError(f"carry {text!r}: {error}") from None


def _warp(motion: Any = Flow, *, of: Of = "auto", **options: Any) -> Warp:
    """Return a warp; options of the motion estimator may be given beside it: ``warp(flow, scale=0.5)``."""
    return Warp(_estimator("warp", motion, options), of)


def _interpolate(motion: Any = Flow, *, keys: int = 2, **options: Any) -> Interpolate:
    """Return an interpolation; options of the motion estimator may be given beside it, as for a warp."""
    return Interpolate(_estimator("interpolate", motion, options), keys)


def _estimator(carry: str, motion: Any, options: dict[str, Any]) -> Estimator:
    if options and not isinstance(motion, type):
        raise UsageError(
            f"{carry}({motion}, {', '.join(options)}=..): give options once, as in {carry}(flow, scale=0.5)."
        )
    made: Estimator = motion(**options) if isinstance(motion, type) else motion
    return made


CARRIES: dict[str, Any] = {
    "identity": identity,
    "warp": _warp,
    "interpolate": _interpolate,
    "flow": Flow,
    "codec": Codec,
    "auto": Auto,
}
"""The names from which a carry is written on the command line."""
