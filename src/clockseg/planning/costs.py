"""Cost of frames, measured with sessions and the uncut network in turn on the same frames."""

from __future__ import annotations

import random
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from clockseg.clocks import ALWAYS, Clock, Every, both, either
from clockseg.clocks.rates import frame_oracle
from clockseg.clockwork.clock import facts
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule
from clockseg.clockwork.trace import Record
from clockseg.planning.candidates import Family
from clockseg.showing.stream import stream
from clockseg.video.clip import Frame

PERIOD = 3
"""While it is measured, a clock fires on every third frame, one after it on every sixth."""
WARM = 4
"""Frames run once before measuring, since engines compile and allocate on the first."""


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
