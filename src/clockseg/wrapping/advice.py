"""The schedule for a network that was wrapped without one."""

from __future__ import annotations

from clockseg.carry import Flow, Warp
from clockseg.clockwork.schedule import Named, carried, skip_frame

PERIOD = 3
"""The whole network runs on every third frame."""


def advised(*, sees: bool) -> Named:
    """Return every third frame, moved along in between if there are pictures to find motion in (``sees``)."""
    return carried(skip_frame(PERIOD), Warp(Flow())) if sees else skip_frame(PERIOD)
