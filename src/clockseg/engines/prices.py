"""What a network's frames cost, whatever schedule decides what runs: a price a part, and what ran at each frame.

``clockseg.engines.priced`` finds the prices; a ``Record``, of a session or of a replayed recording, says what fired. What
fuses and finishes runs by the session's own rule: a group runs again if anything that it reads was made anew or moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import add

from clockseg.clockwork.trace import Record
from clockseg.errors import UsageError

FINISH = "finish"
CONCLUDE = "conclude"
CORRECTION = "correction"
WHOLE = "whole"
"""The uncut network, beside its parts."""


@dataclass(frozen=True)
class Price:
    """What running costs: multiply-adds, bytes that operations read and write, seconds (None: not measured). Addable.

    >>> Price(100, 8, 0.5) + Price(20, 2, 0.25)
    Price(multiply_adds=120, moved=10, seconds=0.75)
    >>> 2 * Price(100, 8)
    Price(multiply_adds=200, moved=16, seconds=None)
    """

    multiply_adds: int = 0
    moved: int = 0
    seconds: float | None = None

    def __add__(self, other: Price) -> Price:
        if not isinstance(other, Price):
            return NotImplemented
        known = self.seconds is not None and other.seconds is not None
        seconds = (self.seconds or 0.0) + (other.seconds or 0.0) if known else None
        return Price(self.multiply_adds + other.multiply_adds, self.moved + other.moved, seconds)

    def __mul__(self, runs: float) -> Price:
        seconds = None if self.seconds is None else runs * self.seconds
        return Price(round(runs * self.multiply_adds), round(runs * self.moved), seconds)

    __rmul__ = __mul__


NOTHING = Price(seconds=0.0)


@dataclass(frozen=True)
class Prices:
    """The price of each part of a network at one working size.

    ``stages``: of bodies with their heads; ``groups``, and what each of them ``reads``, in the order they run;
    ``finish``: of what makes the output of ``last``; ``whole``: of the uncut network. ``conclude`` and ``correction``: of what
    makes an output of scores that were moved, where the network has them. ``size``: (WIDTH, HEIGHT).

    >>> from clockseg.clockwork.schedule import alternating
    >>> from clockseg.clockwork.session import run
    >>> from clockseg.clockwork.network import Group, Stage, StagedNetwork
    >>> net = StagedNetwork("two", (Stage("a", str), Stage("b", str)), (Group("sum", ("a", "b"), str.__add__),))
    >>> prices = Prices({"a": Price(60), "b": Price(30)}, {"sum": Price(10)}, {"sum": ("a", "b")})
    >>> [prices.frame(record).multiply_adds for _, record in run(net, "wxyz", alternating)]
    [100, 70, 100, 70]
    """

    stages: Mapping[str, Price]
    groups: Mapping[str, Price] = field(default_factory=dict)
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    finish: Price = NOTHING
    whole: Price | None = None
    size: tuple[int, int] | None = None
    conclude: Price | None = None
    correction: Price | None = None

    @property
    def last(self) -> str:
        """What ``finish`` reads: the last group, or without groups the last stage."""
        return [*self.stages, *self.groups][-1]

    @property
    def full(self) -> Price:
        """Of a frame on which every part runs."""
        return reduce(add, (*self.stages.values(), *self.groups.values(), self.finish))

    def ran(self, record: Record) -> tuple[str, ...]:
        """The stages, the groups, and what made the output, as far as they ran at this frame, in order.

        >>> from clockseg.clockwork.trace import Seconds
        >>> prices = Prices({"a": Price(60), "b": Price(30)}, {"sum": Price(10)}, {"sum": ("a", "b")})
        >>> prices.ran(Record(False, (False, True), (None, None), (0, 3), Seconds((0, 1))))
        ('b', 'sum', 'finish')
        """
        if len(record.fired) != len(self.stages):
            raise UsageError(
                f"a record of {len(record.fired)} stages, and prices of {len(self.stages)} ({', '.join(self.stages)}); "
                "give the prices of the network that ran."
            )
        return tuple(self._ran(record))

    def _ran(self, record: Record) -> Iterator[str]:
        moved = record.moved or (False,) * len(record.fired)
        changed = {name for name, *new in zip(self.stages, record.fired, moved, strict=True) if any(new)}
        yield from (name for name, fired in zip(self.stages, record.fired, strict=True) if fired)
        if record.carried:
            # Nothing is fused; moved labels are the output as they are.
            yield from {"fused": (FINISH if self.conclude is None else CONCLUDE,), "corrected": (CORRECTION,)}.get(
                record.carried, ()
            )
            return
        for name in self.groups:
            if changed.intersection(self.reads[name]):
                changed.add(name)
                yield name
        if self.last in changed:
            yield FINISH

    def frame(self, record: Record) -> Price:
        """What this frame cost; ``seconds`` as they were measured part by part, without clocks and motion."""
        moved = {CONCLUDE: self.conclude or NOTHING, CORRECTION: self.correction or NOTHING}
        parts = {**self.stages, **self.groups, FINISH: self.finish, **moved}
        return reduce(add, (parts[name] for name in self.ran(record)), NOTHING)

    def total(self, records: Iterable[Record]) -> Price:
        """What these frames cost together: of a session, of ``run`` or of ``replay``."""
        return reduce(add, map(self.frame, records), NOTHING)
