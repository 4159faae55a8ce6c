"""Running schedules beside the uncut network on the same clips, so that their times can be compared.

The uncut network and every schedule process each frame before any of them sees the next one, in an order that is shuffled
from frame to frame: whatever else the machine does meanwhile affects all of them alike.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from clockseg.clocks.rates import frame_oracle
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.trace import Tally
from clockseg.datasets.clips import ClipFrame
from clockseg.evaluation.cost import Meter
from clockseg.showing.seeing import Shown, Stream
from clockseg.showing.stream import stream
from clockseg.video.colour import rgb


class Interleaving:
    """One clip through the uncut ``net`` and ``streams``, in that order in all lists.

    ``tallies``: firings and seconds; ``multiply_adds``: of the frames after the first, NaN if a part is not a graph.

    >>> from clockseg.clockwork.network import Stage
    >>> net = StagedNetwork("one", (Stage("a", len),))
    >>> runs = Interleaving(net, [stream(net, frame_oracle)])
    >>> [outputs for _, outputs in runs([ClipFrame(0, "x", None), ClipFrame(1, "y", None)])]
    [[1, 1], [1, 1]]
    >>> [tally.frames for tally in runs.tallies]
    [2, 2]
    """

    def __init__(self, net: StagedNetwork, streams: Sequence[Stream]) -> None:
        self.streams: list[Stream] = [stream(net.uncut(), frame_oracle), *streams]
        self.tallies = [Tally(one.net.names) for one in self.streams]
        self.multiply_adds: list[float] = [0 for _ in self.streams]
        self._meters = [Meter(one.net) for one in self.streams]
        self._shown: list[deque[Any]] = [deque() for _ in self.streams]
        self._shape: Any = None

    @property
    def reads_vectors(self) -> bool:
        """True if a carry reads the codec's motion vectors."""
        return any(one.schedule.carry.reads_vectors for one in self.streams)

    def __call__(self, frames: Iterable[ClipFrame]) -> Iterator[tuple[ClipFrame, list[Any]]]:
        """Run the frames, and yield each that is done in all streams, with all outputs for it."""
        for number, frame in enumerate(frames):
            # A decoded picture is converted once, and not on the time of whichever stream is the first to read it.
            rgb(frame.picture)
            self._compile(frame)
            order = list(range(len(self.streams)))
            # The order matters to caches. A shuffle, not a rotation: a rotation would fall in step with fixed periods.
            random.Random(number).shuffle(order)
            for index in order:
                self._told(index, self.streams[index].push(frame.picture, vectors=frame.vectors, item=frame))
            yield from self._ready()
        for index, one in enumerate(self.streams):
            self._told(index, one.end())
        yield from self._ready()

    def _told(self, index: int, shown: Sequence[Shown]) -> None:
        """Count the frames that one stream has done."""
        for one in shown:
            first = self.tallies[index].frames == 0
            self.tallies[index] = self.tallies[index].add(one.record, first=first)
            if not first:
                prices = self._meters[index].prices(one.item.picture)
                self.multiply_adds[index] += math.nan if prices is None else prices.frame(one.record)
            self._shown[index].append((one.item, one.output))

    def _ready(self) -> Iterator[tuple[ClipFrame, list[Any]]]:
        while all(self._shown):
            row = [waiting.popleft() for waiting in self._shown]
            yield row[0][0], [output for _, output in row]

    def _compile(self, frame: ClipFrame) -> None:
        """Run each stream once on a frame of a new size, so that compiling is not part of what is timed."""
        if self._shape != np.shape(frame.picture):
            self._shape = np.shape(frame.picture)
            for one in self.streams:
                one.compile(frame.picture, vectors=frame.vectors)
