"""The schedules that a plan may choose, a clock as text with a placeholder for its number and a carry, and the cost of their frames.

Costs are measured with sessions and the uncut network in turn on the same frames.
"""

from __future__ import annotations

import random
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from clockseg.carry import parse_carry
from clockseg.clocks import ALWAYS, Clock, Every, both, either
from clockseg.clocks.rates import frame_oracle
from clockseg.clocks.spec import is_carried, parse_schedule, spelled
from clockseg.clockwork.clock import facts
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule, schedule_for
from clockseg.clockwork.trace import Record
from clockseg.errors import UsageError
from clockseg.execution.recording import needs
from clockseg.showing.stream import stream
from clockseg.video.clip import Frame

Family: TypeAlias = tuple[int, str, str]
"""The number of a variant, a clock and a carry, whose schedules cost the same on a frame on which the same stages fire."""
RATES = (2, 3, 4, 6, 8, 12, 16)
PLACE = "{}"
CAP = 16
"""Frames after which a clock on change fires in any case."""
PERIOD = 3
"""While it is measured, a clock fires on every third frame, one after it on every sixth."""
WARM = 4
"""Frames run once before measuring, since engines compile and allocate on the first."""


class Kind(NamedTuple):
    """A clock as text, in which ``{}`` stands for a number, and the numbers to try first, in order.

    ``steps``: the number is a whole one, such as a period.
    """

    template: str
    numbers: tuple[float, ...]
    steps: bool = True

    def text(self, number: float) -> str:
        """Return the clock with this number."""
        return self.template.replace(PLACE, f"{number:.4g}")


class Candidate(NamedTuple):
    """A schedule: a clock of this kind with this number, under this carry."""

    kind: Kind
    number: float
    carry: str

    @property
    def text(self) -> str:
        """The schedule as ``parse_schedule`` reads it."""
        return spelled(self.kind.text(self.number), parse_carry(self.carry))

    def family(self, variant: int) -> Family:
        """Return the key of what this candidate costs on a variant."""
        return variant, self.kind.template, self.carry


ORACLE = Kind("frame_oracle", (1,))
SKIP = Kind("skip_frame({})", RATES)
CARRIES = ("identity", "warp(flow)", "warp(flow, scale=0.25)", "interpolate(flow)")
VECTORS = ("warp(codec)", "interpolate(codec)")
"""Tried if the video has motion vectors that refer to earlier frames only."""
_CAPPED = f"at_least_every({CAP})"
CHANGES = (
    Kind(f'either(difference({{}}, of="pixels"), {_CAPPED})', (0.02, 0.05, 0.1, 0.2, 0.4), steps=False),
    Kind(f"either(motion_residual({{}}), {_CAPPED})", (0.03, 0.06, 0.12, 0.24, 0.48), steps=False),
    Kind(f"budget(motion_residual, network_rate={{}}, cap={CAP})", (0.125, 0.17, 0.25, 0.33, 0.5), steps=False),
)
"""Clocks on change, for any number of stages."""


def clocks(stages: int) -> list[Kind]:
    """Return the clocks for a network of so many stages, apart from ``frame_oracle`` and ``skip_frame``.

    >>> [kind.template for kind in clocks(3)[3:]]
    ['fixed_rate((1, 1, {}))', 'fixed_rate((1, {}, {}))', 'adaptive({})', 'adaptive({}, watch=1)']
    """
    found = list(CHANGES)
    for fresh in reversed(range(1, stages)):
        rates = ", ".join(["1"] * fresh + [PLACE] * (stages - fresh))
        found.append(Kind(f"fixed_rate(({rates}))", (2, 4, 8)))
    adaptive = Kind("adaptive({})", (0.005, 0.01, 0.02, 0.05, 0.1), steps=False)
    if stages > 1:
        found.append(adaptive)
    if stages > 2:
        found.append(adaptive._replace(template="adaptive({}, watch=1)"))
    return found


def asked_for(text: str) -> Kind:
    """Return a clock that a user gave: ``learned("clock.onnx", {})``, or a schedule without a placeholder.

    ``UsageError`` for one with a carry, since a plan tries carries of its own.
    """
    if is_carried(text):
        raise UsageError(
            f"{text}: a plan chooses the carry itself; give the clock alone, without carried(..). A carry of your own is compared "
            "by `clockseg evaluate`."
        )
    return Kind(text, (0.05, 0.1, 0.2, 0.4, 0.8) if PLACE in text else (1,), steps=False)


def schedule_of(net: StagedNetwork, candidate: Candidate) -> Schedule:
    """Return the schedule; ``UsageError`` if this network can't run it, or it can't be replayed from a recording."""
    made = schedule_for(parse_schedule(candidate.text), len(net))
    needs(net, [made], outputs=True)
    return made


def possible(net: StagedNetwork, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates that this network can run: an adaptive clock, for one, needs a stage with class scores."""
    found = []
    for candidate in candidates:
        try:
            schedule_of(net, candidate)
        except UsageError:
            continue
        found.append(candidate)
    return found


@dataclass(frozen=True)
class Costs:
    """Seconds per frame of each family, by the stages that fired and what was carried; ``uncut``: of the uncut reference."""

    uncut: float
    seconds: Mapping[Family, Mapping[tuple[tuple[bool, ...], str], float]]

    def of(self, family: Family, record: Record) -> float:
        """Return the cost of a frame in multiples of the uncut reference's."""
        known = self.seconds[family]
        found = known.get((record.fired, record.propagated))
        # A kind of frame that was never measured, such as a refill, counts as the most expensive one.
        return (max(known.values()) if found is None else found) / self.uncut

    def plus(self, other: Costs) -> Costs:
        """Return the costs with families from another run, scaled by the reference's time in each."""
        if not self.seconds:
            return other
        scale = self.uncut / other.uncut
        more = {family: {way: scale * one for way, one in known.items()} for family, known in other.seconds.items()}
        return Costs(self.uncut, {**self.seconds, **more})


def measured(
    reference: StagedNetwork, families: Mapping[Family, tuple[StagedNetwork, Schedule]], samples: Sequence[Frame]
) -> Costs:
    """Medians over ``samples``, consecutive frames, each through the uncut ``reference`` and every family's network."""
    streams = {family: stream(net, forced(schedule)) for family, (net, schedule) in families.items()}
    uncut = stream(reference.uncut(), frame_oracle)
    every = [uncut, *streams.values()]
    for one in every:
        for sample in samples[:WARM]:
            one.push(sample.image, vectors=sample.vectors)
        one.end()
    records: dict[int, list[Record]] = {id(one): [] for one in every}
    for number, sample in enumerate(samples):
        # The order matters to the processor's caches.
        for one in random.Random(number).sample(every, len(every)):
            records[id(one)] += [shown.record for shown in one.push(sample.image, vectors=sample.vectors)]
    for one in every:
        records[id(one)] += [shown.record for shown in one.end()]
    seconds = {family: _medians(records[id(one)]) for family, one in streams.items()}
    return Costs(_medians(records[id(uncut)])[(True,), ""], seconds)


def _medians(records: Sequence[Record]) -> dict[tuple[tuple[bool, ...], str], float]:
    """Medians of seconds by the stages that fired and what was carried, without the first frame, which is a fill."""
    spent: dict[tuple[tuple[bool, ...], str], list[float]] = defaultdict(list)
    for record in records[1:]:
        spent[record.fired, record.propagated].append(record.seconds.network)
    return {way: statistics.median(seconds) for way, seconds in spent.items()}


def forced(schedule: Schedule) -> Schedule:
    """Return ``schedule`` with clocks that are asked but fire at fixed periods, so that every kind of frame occurs."""
    made: list[Clock] = []
    period = PERIOD
    for clock in schedule.clocks:
        if clock == ALWAYS:
            made.append(clock)
        elif facts(clock).period and made and clock == schedule.clocks[len(made) - 1]:
            # Equal periods fire together; other clocks that are equal look at different maps.
            made.append(made[-1])
        else:
            # A combination asks all of its clocks, so that their time counts.
            made.append(Every(period) if facts(clock).period else both(either(clock, ALWAYS), Every(period)))
            period *= 2
    return replace(schedule, clocks=tuple(made))
