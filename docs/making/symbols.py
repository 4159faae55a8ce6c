"""Values that remember what they were made of: run anything on them, and what read what can be drawn or told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from clockseg.clockwork.network import Part


@dataclass(frozen=True, eq=False)
class Made:
    """A value: the part it was made by, and the values it was made of.

    >>> part("B")(part("A")(Made("x"))).of[0].by
    'A'
    """

    by: str
    of: tuple[Made, ...] = ()


def part(name: str) -> Part:
    """A part of a network that makes a value of what it is given."""
    return lambda *values: Made(name, values)


@dataclass(frozen=True, eq=False)
class Sum:
    """What + and * by a bit leave of values; none of them is 0. For ``clockseg.paper.equations``, which need both.

    >>> [made.by for made in (1 * Sum.of("a") + 0 * Sum.of("b") + 0).terms]
    ['a']
    """

    terms: tuple[Made, ...] = ()
    __array_ufunc__ = None

    @classmethod
    def of(cls, name: str) -> Sum:
        """One value that is made of nothing."""
        return cls((Made(name),))

    def through(self, name: str) -> Sum:
        """What a function without a constant term makes of it."""
        return Sum((Made(name, self.terms),)) if self.terms else self

    def tanh(self) -> Sum:
        """What ``np.tanh`` calls."""
        return self.through("tanh")

    def __add__(self, other: Any) -> Sum:
        return Sum(self.terms + other.terms) if isinstance(other, Sum) else self

    def __mul__(self, weight: Any) -> Sum:
        return self if weight else Sum()

    __radd__ = __add__
    __rmul__ = __mul__


class Cell(NamedTuple):
    """One module (1 is the first) at one frame: whether it fired, the frame it reflects, and the (module, frame) it read.

    Module 0 is the frame itself. One that holds reads nothing.
    """

    module: int
    t: int
    fired: bool
    reflects: int
    reads: tuple[tuple[int, int], ...]


def cells(frames: Iterable[tuple[Made, Sequence[Made]]]) -> list[Cell]:
    """Who read whom: ``frames`` gives, for each frame, its picture and the value of each module after it.

    >>> x = Made("x")
    >>> cells([(x, [part("A")(x)])])
    [Cell(module=1, t=0, fired=True, reflects=0, reads=((0, 0),))]
    """
    found: list[Cell] = []
    places: dict[Made, tuple[int, int]] = {}
    for t, (picture, values) in enumerate(frames):
        places[picture] = (0, t)
        for module, value in enumerate(values, start=1):
            fired = value not in places
            reads = tuple(places[read] for read in value.of) if fired else ()
            places[value] = (module, t)
            found.append(Cell(module, t, fired, _newest(value, places), reads))
    return found


def _newest(value: Made, places: dict[Made, tuple[int, int]]) -> int:
    """The newest frame that the value was made of."""
    return max(_newest(read, places) for read in value.of) if value.of else places[value][1]
