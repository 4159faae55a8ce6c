"""Carries as text, as the command line, plans and summaries write them."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import Any

from clockseg.carry.codec import Auto, Codec
from clockseg.carry.flow import Flow
from clockseg.carry.interpolate import Interpolate
from clockseg.carry.warp import Warp
from clockseg.clocks.expressions import object_named
from clockseg.clockwork.carry import Carry, as_carry, identity
from clockseg.errors import UsageError


def parse_carry(text: str) -> Carry:
    """Return the carry that ``text`` describes.

    >>> print(parse_carry("warp(flow, scale=0.25)"))
    warp(flow(scale=0.25))
    """
    return carry_of(object_named(text, CARRIES, what="carry"), text)


def carry_of(found: Any, text: str) -> Carry:
    """Return ``found`` if it is a carry, or call it if it needs no arguments; else ``UsageError``.

    >>> print(carry_of(CARRIES["warp"], "warp"))
    warp(flow)
    """
    made: Any = found() if found in (CARRIES["warp"], CARRIES["interpolate"]) else found
    try:
        return as_carry(made)
    except UsageError as error:
        raise UsageError(f"carry {text!r}: {error}") from None


def _with_motion(kind: type[Warp | Interpolate], motion: Any = Flow, **options: Any) -> Warp | Interpolate:
    """Return a carry; options of its motion estimator may be given beside it: ``warp(flow, scale=0.5)``."""
    own = {one.name: options.pop(one.name) for one in fields(kind) if one.name in options}
    if options and not isinstance(motion, type):
        name = kind.__name__.lower()
        raise UsageError(
            f"{name}({motion}, {', '.join(options)}=..): give options once, as in {name}(flow, scale=0.5)."
        )
    return kind(motion(**options) if isinstance(motion, type) else motion, **own)


CARRIES: dict[str, Any] = {
    "identity": identity,
    "warp": partial(_with_motion, Warp),
    "interpolate": partial(_with_motion, Interpolate),
    "flow": Flow,
    "codec": Codec,
    "auto": Auto,
}
"""The names from which a carry is written on the command line."""
