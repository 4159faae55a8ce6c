"""A schedule for a network that has just been wrapped: how much change of its features is worth a firing."""

from __future__ import annotations

from torch import Tensor

from clockseg.carry import Flow, Warp
from clockseg.clocks.gate import at_least_every, difference, either
from clockseg.clocks.maps import relative_difference
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Named, carried, skip_frame
from clockseg.networks.cut_schedule import MOST_HELD, MOVE
from clockseg.types import Array

PERIOD = 3
"""The whole network runs on every third frame, where what it gave moves along in between, or it couldn't be divided."""
LEAST = 0.01


def advised(net: StagedNetwork, frame: Tensor, *, sees: bool) -> Named:
    """What suits ``net``. ``sees``: whether there are pictures to find motion in.

    If so, every third frame, moved along in between: what costs least for what it loses (docs/motion.md). Else the stages
    behind the first fire when its features change as they do where ``frame`` moves by 0.5 % of its width, and every 8 frames in
    any case: what ``clockseg cut`` recommends, measured on the frame itself.
    """
    if sees:
        return carried(skip_frame(PERIOD), Warp(Flow()))
    if len(net) < 2:
        return skip_frame(PERIOD)
    step = max(1, round(MOVE * frame.shape[-1]))
    before, after = (_features(net, one) for one in (frame, frame.roll(step, dims=-1)))
    threshold = max(LEAST, round(relative_difference(before, after), 2))
    return either(difference(threshold, of="features", watch=1), at_least_every(MOST_HELD))


def _features(net: StagedNetwork, frame: Tensor) -> Array:
    # A copy: engines use the memory again.
    stage = net.stages[0]
    found: Array = stage.features(stage.body(net.prepare(frame))).copy()
    return found
