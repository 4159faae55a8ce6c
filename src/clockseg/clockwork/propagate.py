"""Frames that are not fused: the last output, or the last fused scores, is propagated instead, as ``Carry.of`` says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clockseg.clockwork.lazy import FINISH, MOTION, Lazy
from clockseg.clockwork.network import StagedNetwork

if TYPE_CHECKING:
    from clockseg.clockwork.step import CurrentFrame, Finished


def propagation(net: StagedNetwork, of: str, fired: Sequence[bool]) -> str:
    """Return ``Record.propagated`` of a frame: "output", "fused", "corrected", or "" if its values are fused.

    ``of``: ``Carry.of``, other than "held".
    """
    if any(fired):
        return ""
    if net.correction is not None and of != "output":
        return "corrected"
    return "fused" if of == "fused" else "output"


def propagate(frame: CurrentFrame, how: str, finished: Finished) -> Lazy:
    """Return what ``finish`` would give, made of the last ``finished`` value and the motion since, as ``propagation`` says."""
    net = frame.net
    if how == "output":
        return frame.by_carry("move", finished.output, finished.motion)
    scores = Lazy(MOTION, "fused", net.fused, (finished.value,))
    moved = frame.by_carry("move", scores, finished.motion)
    if how == "fused" or net.correction is None:
        return Lazy(FINISH, "conclude", net.conclude or net.finish, (moved,))
    unexplained = frame.by_carry("unexplained", moved, finished.motion)
    return Lazy(FINISH, "correction", net.correction, (frame.prepared, moved, unexplained))
