"""A network running over one video: keeps the memory from frame to frame."""

from __future__ import annotations

from typing import Any

from clockseg.clockwork.lazy import Executor
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import ScheduleLike, check, schedule_for
from clockseg.clockwork.step import Memory, step
from clockseg.clockwork.trace import Record
from clockseg.errors import UsageError


class Session:
    """A network running over one video, frame by frame: ``session(image) -> output``.

    ``schedule``: a ``Schedule``, a function of the number of stages (``alternating``) or a clock (``adaptive(0.25)``). The output
    is the network's own (``street``: a label map, uint8 [h, w] at the frame's size, read-only). ``reset()`` and a
    change of the frames' size start again with a fill.
    ``executor``: the network's own, which runs its parts. ``UsageError`` if the schedule does not fit the network.

    >>> from clockseg.clockwork.network import Stage
    >>> from clockseg.clocks.rates import skip_frame
    >>> session = Session(StagedNetwork("one", (Stage("a", str.upper),)), skip_frame(2))
    >>> [session(frame) for frame in "abcd"]
    ['A', 'A', 'C', 'C']
    """

    def __init__(self, net: StagedNetwork, schedule: ScheduleLike) -> None:
        self.net = net
        self.schedule = schedule_for(schedule, len(net))
        check(net, self.schedule)
        self.memory: Memory | None = None
        self.executor = Executor() if net.executor is None else net.executor(net, self.schedule)

    def __call__(self, image: Any, *, vectors: Any = None) -> Any:
        """Return the output for this frame; ``vectors``: see ``step``."""
        output, self.memory = step(self.net, self.schedule, self.memory, image, vectors=vectors, executor=self.executor)
        if self.memory.record.fill:
            self.executor.rehearse(self.memory, image, vectors)
        return output

    def reset(self) -> None:
        """Drop all cached values: the next frame is a fill and counts as the first of a clip."""
        self.memory = None

    def refill(self) -> None:
        """Drop all cached values but the states of clocks: the next frame is a fill within the clip, as after a scene cut."""
        if self.memory is not None:
            self.memory = self.memory.emptied(self.memory.stages)

    @property
    def record(self) -> Record:
        """The record of the last frame."""
        if self.memory is None:
            raise UsageError("the session has run no frame since its start or reset; give it a frame first.")
        return self.memory.record
