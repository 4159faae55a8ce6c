"""Frames that are not fused: the last output, or the last fused scores, is propagated instead, as ``Carry.of`` says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clockseg.clockwork.lazy import FINISH, MOTION, Lazy
from clockseg.clockwork.network import StagedNetwork

if TYPE_CHECKING:
    from clockseg.clockwork.step import Cell, CurrentFrame, Finished


def propagation(net: StagedNetwork, of: str, fired: Sequence[bool]) -> str:
    """Return ``Record.propagated`` of a frame: "output", "fused", "corrected", or "" if its values are fused.

    ``of``: ``Carry.of``, other than "held".
    """
    if all(fired):
        return ""
    if net.correction is not None and of != "output":
        # A correction that reads the frame applies where nothing fires, one that reads a stage where that one does.
        reads = net.correction.reads
        if not any(fired) if reads is None else fired[net.names.index(reads)]:
            return "corrected"
    return "" if any(fired) else "fused" if of == "fused" else "output"


def propagate(frame: CurrentFrame, how: str, now: Sequence[Cell], finished: Finished) -> Lazy:
    """Return what ``finish`` would give, made of the last ``finished`` value and the motion since, as ``propagation`` says."""
    net = frame.net
    if how == "output":
        return frame.by_carry("move", finished.output, finished.motion)
    scores = Lazy(MOTION, "fused", net.fused, (finished.value,))
    moved = frame.by_carry("move", scores, finished.motion)
    if how == "fused" or net.correction is None:
        return Lazy(FINISH, "conclude", net.conclude or net.finish, (moved,))
    unexplained = frame.by_carry("unexplained", moved, finished.motion)
    reads = net.correction.reads
    seen = frame.prepared() if reads is None else now[net.names.index(reads)].trunk
    return Lazy(FINISH, "correction", net.correction.part, (seen, moved, unexplained))
