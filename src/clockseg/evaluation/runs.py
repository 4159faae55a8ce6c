"""Running schedules beside the uncut network on the same clips, so that their times can be compared.

The uncut network and every schedule process each frame before any of them sees the next one, in an order that is shuffled
from frame to frame: whatever else the machine does meanwhile affects all of them alike.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Named, Schedule, frame_oracle, schedule_for
from clockseg.clockwork.session import Session
from clockseg.clockwork.trace import Progress, Tally
from clockseg.clockwork.watching import check
from clockseg.datasets.clips import Clip, ClipFrame
from clockseg.errors import UsageError
from clockseg.evaluation.cost import NOTHING, Meter, Price
from clockseg.evaluation.energy import counting

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
    """One clip through the uncut ``net`` and ``sessions``, in that order in all lists.

    ``tallies``: firings and seconds; ``spent``: other costs, without the first frame.

    >>> from clockseg.clockwork.network import Stage
    >>> net = StagedNetwork("one", (Stage("a", len),))
    >>> runs = Interleaving(net, [Session(net, frame_oracle)])
    >>> runs(["x", "y"]), [tally.frames for tally in runs.tallies]
    ([2, 2], [1, 1])
    """

    def __init__(self, net: StagedNetwork, sessions: Sequence[Session]) -> None:
        self.sessions = [Session(net.uncut(), frame_oracle), *sessions]
        self.tallies = [Tally(tuple(stage.name for stage in session.net.stages)) for session in self.sessions]
        self.spent = [Spent() for _ in self.sessions]
        self._meters = [Meter(session.net) for session in self.sessions]
        self._energy = counting(net.engine)

    @property
    def reads_vectors(self) -> bool:
        """True if a session's carry reads the codec's motion vectors."""
        return any(session.schedule.carry.reads_vectors for session in self.sessions)

    def __call__(self, image: Any, *, vectors: Any = None) -> list[Any]:
        """Return the outputs for this frame: the uncut network's, then every session's."""
        done = self.tallies[0].frames
        outputs: list[Any] = [None] * len(self.sessions)
        order = list(range(len(self.sessions)))
        # The order matters to caches. A shuffle, not a rotation: a rotation would fall in step with fixed periods.
        random.Random(done).shuffle(order)
        self._compile(image)
        for index in order:
            self._energy.spent()
            outputs[index] = self.sessions[index](image, vectors=vectors)
            joules, record = self._energy.spent(), self.sessions[index].record
            self.tallies[index] = self.tallies[index].add(record, first=done == 0)
            if done:
                self.spent[index] = self.spent[index].add(self._meters[index].frame(record, image), joules)
        return outputs

    def _compile(self, image: Any) -> None:
        """Run each network once on a frame of a new size, so that compiling is not part of what is timed."""
        memory = self.sessions[0].memory
        if memory is None or memory.shape != np.shape(image):
            for net in {id(session.net): session.net for session in self.sessions}.values():
                net(image)


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
    session: Callable[[StagedNetwork, Schedule], Session],
    scorer: Callable[[Clip | None, Sequence[tuple[str, Session]]], Scorer[Result]],
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

    def fresh() -> list[tuple[str, Session]]:
        found = [(name, session(net, schedule)) for name, schedule in own]
        return found + [(name, Session(each, schedule)) for name, each, schedule in beside]

    totals: list[Result] = []
    for clip in clips:
        sessions = fresh()
        found = _evaluate_clip(net, sessions, clip, scorer(clip, sessions), progress, warn)
        totals = [total + one for total, one in zip(totals, found, strict=True)] if totals else found  # type: ignore[operator]
    return tuple(totals or scorer(None, fresh()).results())


def _baselines(baselines: Baselines) -> Iterable[tuple[str, StagedNetwork, Schedule]]:
    for name, net, *schedule in baselines:
        each = net if schedule else net.uncut()
        yield name, each, schedule_for(schedule[0] if schedule else frame_oracle, len(each))


def _evaluate_clip(
    net: StagedNetwork,
    sessions: Sequence[tuple[str, Session]],
    clip: Clip,
    scorer: Scorer[Result],
    progress: Callable[[Progress], None] | None,
    warn: Callable[[str], None],
) -> list[Result]:
    runs = Interleaving(net, [one for _, one in sessions])
    expected = len(clip.taken) if clip.taken is not None else clip.limit
    # Decoding and networks take turns: a thread that decodes ahead would take time from what is timed.
    frames = clip.frames(problem=lambda text: warn(f"{clip.path}: {text}"), vectors=runs.reads_vectors)
    for done, frame in enumerate(frames, start=1):
        outputs = runs(frame.image, vectors=frame.vectors)
        scorer.see(frame, [(output, one.net) for output, one in zip(outputs, runs.sessions, strict=True)])
        if progress is not None:
            progress(Progress(clip.name, done, expected, runs.tallies[-len(sessions)]))
    costs = [{"tally": a, "spent": b} for a, b in zip(runs.tallies, runs.spent, strict=True)]
    uncut = {f"uncut{'' if name == 'tally' else '_' + name}": value for name, value in costs[0].items()}
    return [replace(one, **cost, **uncut) for one, cost in zip(scorer.results(), costs[1:], strict=True)]  # type: ignore[type-var]
