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
from clockseg.evaluation.cost import Meter
from clockseg.showing.seeing import Shown, Stream
from clockseg.showing.stream import stream
from clockseg.video.clip import Frame
from clockseg.video.colour import rgb


class Lane:
    """A stream, and the sums of what it has done.

    ``tally``: firings and seconds; ``multiply_adds``: of the frames after the first, NaN if a part is not a graph;
    ``waiting``: frames with their outputs that other streams have not done yet.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream, self.tally, self.multiply_adds = stream, Tally(stream.net.names), 0.0
        self.waiting = deque[tuple[Frame, Any]]()
        self._meter = Meter(stream.net)

    def take(self, shown: Sequence[Shown]) -> None:
        """Count the frames that the stream has done."""
        for frame, output, record in shown:
            first = self.tally.frames == 0
            self.tally = self.tally.add(record, first=first)
            if not first:
                prices = self._meter.prices(frame.picture)
                self.multiply_adds += math.nan if prices is None else prices.frame(record)
            self.waiting.append((frame, output))


class Interleaving:
    """One clip through the uncut ``net`` and ``streams``, which have their ``lanes`` in that order.

    >>> from clockseg.clockwork.network import Stage
    >>> net = StagedNetwork("one", (Stage("a", len),))
    >>> runs = Interleaving(net, [stream(net, frame_oracle)])
    >>> [outputs for _, outputs in runs([Frame(0, "x"), Frame(1, "y")])]
    [[1, 1], [1, 1]]
    >>> [lane.tally.frames for lane in runs.lanes]
    [2, 2]
    """

    def __init__(self, net: StagedNetwork, streams: Sequence[Stream]) -> None:
        self.lanes = [Lane(one) for one in (stream(net.uncut(), frame_oracle), *streams)]

    def __call__(self, frames: Iterable[Frame]) -> Iterator[tuple[Frame, list[Any]]]:
        """Run the frames, and yield each that is done in all streams, with all outputs for it."""
        shape: tuple[int, ...] | None = None
        for number, frame in enumerate(frames):
            # A decoded picture is converted once, and not on the time of whichever stream is the first to read it.
            rgb(frame.picture)
            if shape != np.shape(frame.picture):
                shape = np.shape(frame.picture)
                # Compiling for a frame of a new size is not part of what is timed.
                for lane in self.lanes:
                    lane.stream.compile(frame.picture, vectors=frame.vectors)
            # The order matters to caches. A shuffle, not a rotation: a rotation would fall in step with fixed periods.
            for lane in random.Random(number).sample(self.lanes, len(self.lanes)):
                lane.take(lane.stream.push(frame.picture, vectors=frame.vectors, item=frame))
            yield from self._ready()
        for lane in self.lanes:
            lane.take(lane.stream.end())
        yield from self._ready()

    def _ready(self) -> Iterator[tuple[Frame, list[Any]]]:
        while all(lane.waiting for lane in self.lanes):
            row = [lane.waiting.popleft() for lane in self.lanes]
            yield row[0][0], [output for _, output in row]
