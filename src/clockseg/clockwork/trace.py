"""The record of one frame: firings, signals and seconds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple


@dataclass(frozen=True)
class Seconds:
    """Seconds of one frame by purpose. Preparing the frame counts as stage 1, or as motion under a carry that estimates it."""

    stages: tuple[float, ...]
    clock: float = 0.0
    motion: float = 0.0
    fuse: float = 0.0
    finish: float = 0.0

    @cached_property
    def network(self) -> float:
        """The sum of all: the network's time, from which relative times are computed."""
        return sum(self.stages) + self.clock + self.motion + self.fuse + self.finish


class Record(NamedTuple):
    """The record of one frame.

    ``fired`` and ``signal`` (None if the clock gave none): one per stage in order. ``reflects``: the frame (counted from the
    last fill) that each stage's value belongs to. ``held_moved``: per stage, True if the carry moved its held value, so that it
    had to be fused again; empty counts as none. ``propagated``: how the output was made if nothing was fused: "output" (the
    last one was propagated) or "interpolated"; else "".
    """

    fill: bool
    fired: tuple[bool, ...]
    signal: tuple[float | None, ...]
    reflects: tuple[int, ...]
    seconds: Seconds
    held_moved: tuple[bool, ...] = ()
    propagated: str = ""
