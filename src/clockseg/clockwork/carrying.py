"""A frame on which not every stage fires, under a carry that moves more than what each stage holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from clockseg.clockwork.carry import Carry
from clockseg.clockwork.network import StagedNetwork, Value
from clockseg.clockwork.schedule import Schedule


class Fused(NamedTuple):
    """What was fused last: the value that ``finish`` reads, what it gave, and the motion composed since."""

    value: Value
    output: Value
    motion: Any = None


class Carried(NamedTuple):
    """What stands for the output on a frame on which nothing is fused: the output itself, how it came, seconds it took."""

    how: str
    output: Value
    motion: Any
    moving: float = 0.0
    mending: float = 0.0


def moves_whole(schedule: Schedule) -> bool:
    """Whether frames on which nothing fires are made from what was fused last, rather than from what stages hold."""
    return schedule.carry.of != "held"


def how(net: StagedNetwork, carry: Carry, fired: Sequence[bool]) -> str:
    """What is moved in place of fusing anew (``Record.carried``); "" where something is fused.

    A correction that reads the frame mends frames on which nothing fires; one that reads a stage, those on which this one
    does and another doesn't.
    """
    if carry.of == "held" or all(fired):
        return ""
    correction = net.correction if carry.of in ("auto", "fused") else None
    reads = None if correction is None else correction.reads
    fresh = any(fired) if reads is None else fired[[stage.name for stage in net.stages].index(reads)]
    if correction is not None and fresh == (reads is not None):
        return "corrected"
    return "" if any(fired) else "fused" if carry.of == "fused" else "output"


@dataclass(frozen=True)
class Carrying:
    """Brings what was fused last to this frame; ``see`` gives what the correction reads of it."""

    net: StagedNetwork
    carry: Carry
    see: Callable[[], Value]

    def output(self, fused: Fused, way: str) -> Carried:
        """What the network would give, about; the very output of the last frame where nothing moved."""
        start = time.perf_counter()
        if way == "output":
            moved = self.carry.move(fused.output, fused.motion)
            return Carried(way, moved, fused.motion, time.perf_counter() - start)
        moved = self.carry.move(self.net.fused(fused.value), fused.motion)
        if way == "corrected" and self.net.correction is not None:
            unexplained = self.carry.unexplained(moved, fused.motion)
            between = time.perf_counter()
            found = self.net.correction.part(self.see(), moved, unexplained)
        else:
            between = time.perf_counter()
            found = (self.net.conclude or self.net.finish)(moved)
        return Carried(way, found, fused.motion, between - start, time.perf_counter() - between)
