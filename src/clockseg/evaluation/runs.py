"""Running schedules beside the uncut network on the same clips, so that their times can be compared.

The uncut network and every schedule process each frame before any of them sees the next one, in an order that is shuffled
from frame to frame: whatever else the machine does meanwhile affects all of them alike.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from clockseg.clocks.rates import frame_oracle
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.trace import Tally
from clockseg.errors import UsageError
from clockseg.evaluation.cost import Meter
from clockseg.showing.seeing import Shown, Stream
from clockseg.showing.stream import stream
from clockseg.video.planar import rgb


@dataclass(frozen=True)
class Spent:
    """Cost of frames beside their seconds, summed over the frames after each clip's first; addable.

    ``multiply_adds``: of the parts that ran; None if a part is not a graph.

    >>> spent = Spent().add(100).add(50)
    >>> spent.multiply_adds_per_frame, spent.relative_multiply_adds(spent)
    (75.0, 1.0)
    >>> (spent + spent).frames, Spent().multiply_adds_per_frame is None
    (4, True)
    """

    frames: int = 0
    multiply_adds: int | None = 0

    def add(self, multiply_adds: int | None) -> Spent:
        """Add one frame."""
        return self + Spent(1, multiply_adds)

    def __add__(self, other: Spent) -> Spent:
        if not isinstance(other, Spent):
            return NotImplemented
        known = self.multiply_adds is not None and other.multiply_adds is not None
        total = (self.multiply_adds or 0) + (other.multiply_adds or 0) if known else None
        return Spent(self.frames + other.frames, total)

    @property
    def multiply_adds_per_frame(self) -> float | None:
        """Mean multiply-adds per frame; None without frames, or if a part is not a graph."""
        return None if self.multiply_adds is None or not self.frames else self.multiply_adds / self.frames

    def relative_multiply_adds(self, every_frame: Spent) -> float | None:
        """Multiply-adds as a share of those of the uncut network on the same frames."""
        mine, whole = self.multiply_adds_per_frame, every_frame.multiply_adds_per_frame
        return mine / whole if mine is not None and whole else None


def added(first: Any, second: Any, *, same: Sequence[str]) -> Any:
    """Add two evaluations field by field; ``UsageError`` unless the fields ``same`` are equal in both."""
    if type(first) is not type(second):
        return NotImplemented
    mine, theirs = ([getattr(one, name) for name in same] for one in (first, second))
    names = [each.name for each in fields(first) if each.name not in same]
    pairs = {name: (getattr(first, name), getattr(second, name)) for name in names}
    if mine != theirs or any((a is None) != (b is None) for a, b in pairs.values()):
        raise UsageError(f"evaluations of {mine} and {theirs} can't be added: give the same {', '.join(same)}.")
    return replace(first, **{name: None if a is None else a + b for name, (a, b) in pairs.items()})


class Interleaving:
    """One clip through the uncut ``net`` and ``streams``, in that order in all lists.

    ``tallies``: firings and seconds; ``spent``: other costs, without the first frame.

    >>> from clockseg.clockwork.network import Stage
    >>> net = StagedNetwork("one", (Stage("a", len),))
    >>> runs = Interleaving(net, [stream(net, frame_oracle)])
    >>> [outputs for _, outputs in runs(["x", "y"])], [tally.frames for tally in runs.tallies]
    ([[2, 2]], [1, 1])
    """

    def __init__(self, net: StagedNetwork, streams: Sequence[Stream]) -> None:
        self.streams: list[Stream] = [stream(net.uncut(), frame_oracle), *streams]
        self.tallies = [Tally(one.net.names) for one in self.streams]
        self.spent = [Spent() for _ in self.streams]
        self._meters = [Meter(one.net) for one in self.streams]
        self._shown: list[deque[Any]] = [deque() for _ in self.streams]
        self._done = 0
        self._shape: Any = None

    @property
    def reads_vectors(self) -> bool:
        """True if a carry reads the codec's motion vectors."""
        return any(one.schedule.carry.reads_vectors for one in self.streams)

    def __call__(self, image: Any, *, vectors: Any = None, item: Any = None) -> list[tuple[Any, list[Any]]]:
        """Run one frame, and return the frames that are done in all streams: each ``item``, and all outputs for it."""
        # A decoded picture is converted once, and not on the time of whichever stream is the first to read it.
        rgb(image)
        order = list(range(len(self.streams)))
        # The order matters to caches. A shuffle, not a rotation: a rotation would fall in step with fixed periods.
        random.Random(self._done).shuffle(order)
        self._done += 1
        self._compile(image, vectors)
        for index in order:
            self._told(index, self.streams[index].push(image, vectors=vectors, item=(item, image)))
        return list(self._ready())

    def end(self) -> list[tuple[Any, list[Any]]]:
        """End the clip, and return the frames that are left."""
        for index, one in enumerate(self.streams):
            self._told(index, one.end())
        return list(self._ready())

    def _told(self, index: int, shown: Sequence[Shown]) -> None:
        """Count the frames that one stream has done."""
        for one in shown:
            first = self.tallies[index].frames == 0
            self.tallies[index] = self.tallies[index].add(one.record, first=first)
            if not first:
                self.spent[index] = self.spent[index].add(self._meters[index].frame(one.record, one.item[1]))
            self._shown[index].append((one.item[0], one.output))

    def _ready(self) -> Iterator[tuple[Any, list[Any]]]:
        while all(self._shown):
            row = [waiting.popleft() for waiting in self._shown]
            yield row[0][0], [output for _, output in row]

    def _compile(self, image: Any, vectors: Any) -> None:
        """Run each stream once on a frame of a new size, so that compiling is not part of what is timed."""
        if self._shape != np.shape(image):
            self._shape = np.shape(image)
            for one in self.streams:
                one.compile(image, vectors=vectors)
