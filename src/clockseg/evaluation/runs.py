"""Running schedules beside the uncut network on the same clips, so that their times can be compared.

The uncut network and every schedule process each frame before any of them sees the next one, in an order that is shuffled
from frame to frame: whatever else the machine does meanwhile affects all of them alike.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Named, Schedule, frame_oracle, schedule_for
from clockseg.clockwork.trace import Progress, Tally
from clockseg.clockwork.watching import check
from clockseg.datasets.clips import Clip, ClipFrame
from clockseg.errors import UsageError
from clockseg.evaluation.cost import NOTHING, Meter, Price
from clockseg.evaluation.energy import counting
from clockseg.showing.stream import Shown, Stream, stream

Schedules: TypeAlias = Mapping[str, Schedule | Named] | Sequence[tuple[str, Schedule | Named]]
"""Schedules by name; pairs where a name may occur twice."""
Baselines: TypeAlias = Sequence[tuple[str, StagedNetwork] | tuple[str, StagedNetwork, Schedule | Named]]
"""Other networks by name: each runs uncut on every frame, or under the schedule given with it."""


@dataclass(frozen=True)
class Spent:
    """Cost of frames beside their seconds, summed over the frames after each clip's first; addable.

    ``price``: multiply-adds and bytes of the parts that ran; None if a part is not a graph. ``joules``: energy of the whole
    machine meanwhile; None if it has no counter.

    >>> spent = Spent().add(Price(100, 8), None).add(Price(50, 4), None)
    >>> spent.multiply_adds_per_frame, spent.joules_per_frame is None, spent.relative_multiply_adds(spent)
    (75.0, True, 1.0)
    >>> (spent + spent).frames, Spent().multiply_adds_per_frame is None
    (4, True)
    """

    frames: int = 0
    price: Price | None = NOTHING
    joules: float | None = 0.0

    def add(self, price: Price | None, joules: float | None) -> Spent:
        """Add one frame."""
        return self + Spent(1, price, joules)

    def __add__(self, other: Spent) -> Spent:
        if not isinstance(other, Spent):
            return NotImplemented
        price = None if self.price is None or other.price is None else self.price + other.price
        joules = None if self.joules is None or other.joules is None else self.joules + other.joules
        return Spent(self.frames + other.frames, price, joules)

    @property
    def multiply_adds_per_frame(self) -> float | None:
        """Mean multiply-adds per frame; None without frames, or if a part is not a graph."""
        return None if self.price is None or not self.frames else self.price.multiply_adds / self.frames

    @property
    def joules_per_frame(self) -> float | None:
        """Mean energy per frame in joules; None without frames, or if the machine has no counter."""
        return None if self.joules is None or not self.frames else self.joules / self.frames

    def relative_multiply_adds(self, every_frame: Spent) -> float | None:
        """Multiply-adds as a share of those of the uncut network on the same frames."""
        mine, whole = self.multiply_adds_per_frame, every_frame.multiply_adds_per_frame
        return mine / whole if mine is not None and whole else None


class Compared:
    """Base of evaluations of one schedule against the uncut network; addable over clips of the same schedule.

    Subclasses are dataclasses with at least these fields, and with whatever they score. ``tally`` and ``uncut``: firings and
    seconds of the schedule and of the uncut network; ``spent`` and ``uncut_spent``: their multiply-adds and joules.
    """

    schedule: str
    carry: str
    tally: Tally
    uncut: Tally
    spent: Spent
    uncut_spent: Spent

    @property
    def relative_time(self) -> float | None:
        """Seconds as a share of the uncut network's, both without each clip's first frame; None if there are none."""
        return self.tally.seconds / self.uncut.seconds if self.uncut.seconds else None

    @property
    def relative_multiply_adds(self) -> float | None:
        """Multiply-adds as a share of the uncut network's; None if a part is not a graph."""
        return self.spent.relative_multiply_adds(self.uncut_spent)

    def cost_facts(self) -> dict[str, Any]:
        """Return firings and costs as plain values, None where there is nothing to report."""
        return {
            "fire_rate": self.tally.fire_rate,
            "network_rate": self.tally.network_rate,
            "seconds_per_frame": self.tally.seconds_per_frame,
            "relative_time": self.relative_time,
            "multiply_adds_per_frame": self.spent.multiply_adds_per_frame,
            "relative_multiply_adds": self.relative_multiply_adds,
            "joules_per_frame": self.spent.joules_per_frame,
        }


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
        self.tallies = [Tally(tuple(stage.name for stage in one.net.stages)) for one in self.streams]
        self.spent = [Spent() for _ in self.streams]
        self._meters = [Meter(one.net) for one in self.streams]
        self._energy = counting(net.engine)
        self._shown: list[deque[Any]] = [deque() for _ in self.streams]
        self._done = 0
        self._shape: Any = None

    @property
    def reads_vectors(self) -> bool:
        """True if a carry reads the codec's motion vectors."""
        return any(one.schedule.carry.reads_vectors for one in self.streams)

    def __call__(self, image: Any, *, vectors: Any = None, item: Any = None) -> list[tuple[Any, list[Any]]]:
        """Run one frame, and return the frames that are done in all streams: each ``item``, and all outputs for it."""
        order = list(range(len(self.streams)))
        # The order matters to caches. A shuffle, not a rotation: a rotation would fall in step with fixed periods.
        random.Random(self._done).shuffle(order)
        self._done += 1
        self._compile(image, vectors)
        for index in order:
            self._energy.spent()
            shown = self.streams[index].push(image, vectors=vectors, item=(item, image))
            self._told(index, shown, self._energy.spent())
        return list(self._ready())

    def end(self) -> list[tuple[Any, list[Any]]]:
        """End the clip, and return the frames that are left."""
        for index, one in enumerate(self.streams):
            self._energy.spent()
            self._told(index, one.end(), self._energy.spent())
        return list(self._ready())

    def _told(self, index: int, shown: Sequence[Shown], joules: float | None) -> None:
        """Count the frames that one stream has done. ``joules``: what was spent since the ones before, told of the first."""
        for number, one in enumerate(shown):
            first = self.tallies[index].frames == 0
            self.tallies[index] = self.tallies[index].add(one.record, first=first)
            if not first:
                price = self._meters[index].frame(one.record, one.item[1])
                self.spent[index] = self.spent[index].add(price, 0.0 if number and joules is not None else joules)
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


Result = TypeVar("Result", bound=Compared)
Scored = TypeVar("Scored", bound=Compared, covariant=True)


class Scorer(Protocol[Scored]):
    """Scores the outputs of one clip."""

    def see(self, frame: ClipFrame, outputs: Sequence[tuple[Any, StagedNetwork]]) -> None:
        """Score one frame: the output of the uncut network, then of every schedule, each with its network."""
        ...

    def results(self) -> Sequence[Scored]:
        """Return one evaluation per schedule; the costs are filled in by the caller."""
        ...


def evaluate_clips(
    net: StagedNetwork,
    schedules: Schedules,
    clips: Iterable[Clip],
    *,
    baselines: Baselines,
    scorer: Callable[[Clip | None, Sequence[tuple[str, Stream]]], Scorer[Result]],
    progress: Callable[[Progress], None] | None,
    warn: Callable[[str], None],
) -> tuple[Result, ...]:
    """Run schedules and baselines over all clips and return one evaluation each, in the order given.

    ``scorer`` makes the scorer of a clip (None: of no frames at all). Sessions start anew with every clip.
    """
    pairs = list(schedules.items()) if isinstance(schedules, Mapping) else list(schedules)
    own = [(name, schedule_for(schedule, len(net))) for name, schedule in pairs]
    beside = list(_baselines(baselines))
    for each, schedule in [*((net, schedule) for _, schedule in own), *((one, it) for _, one, it in beside)]:
        check(each, schedule)

    def fresh() -> list[tuple[str, Stream]]:
        found = [(name, stream(net, schedule)) for name, schedule in own]
        return found + [(name, stream(each, schedule)) for name, each, schedule in beside]

    totals: list[Result] = []
    for clip in clips:
        streams = fresh()
        found = _evaluate_clip(net, streams, clip, scorer(clip, streams), progress, warn)
        totals = [total + one for total, one in zip(totals, found, strict=True)] if totals else found  # type: ignore[operator]
    return tuple(totals or scorer(None, fresh()).results())


def _baselines(baselines: Baselines) -> Iterable[tuple[str, StagedNetwork, Schedule]]:
    for name, net, *schedule in baselines:
        each = net if schedule else net.uncut()
        yield name, each, schedule_for(schedule[0] if schedule else frame_oracle, len(each))


def _evaluate_clip(
    net: StagedNetwork,
    streams: Sequence[tuple[str, Stream]],
    clip: Clip,
    scorer: Scorer[Result],
    progress: Callable[[Progress], None] | None,
    warn: Callable[[str], None],
) -> list[Result]:
    runs = Interleaving(net, [one for _, one in streams])
    expected = len(clip.taken) if clip.taken is not None else clip.limit
    # Decoding and networks take turns: a thread that decodes ahead would take time from what is timed.
    frames = clip.frames(problem=lambda text: warn(f"{clip.path}: {text}"), vectors=runs.reads_vectors)
    done = 0
    for ready in chain((runs(frame.image, vectors=frame.vectors, item=frame) for frame in frames), [None]):
        for frame, outputs in runs.end() if ready is None else ready:
            scorer.see(frame, [(output, one.net) for output, one in zip(outputs, runs.streams, strict=True)])
            done += 1
            if progress is not None:
                progress(Progress(clip.name, done, expected, runs.tallies[-len(streams)]))
    costs = [{"tally": a, "spent": b} for a, b in zip(runs.tallies, runs.spent, strict=True)]
    uncut = {f"uncut{'' if name == 'tally' else '_' + name}": value for name, value in costs[0].items()}
    return [replace(one, **cost, **uncut) for one, cost in zip(scorer.results(), costs[1:], strict=True)]  # type: ignore[type-var]
