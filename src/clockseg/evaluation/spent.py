"""What frames took beside seconds: multiply-adds, bytes and joules, summed over clips."""

from __future__ import annotations

from dataclasses import dataclass

from clockseg.engines.prices import NOTHING, Price


@dataclass(frozen=True)
class Spent:
    """Sums over the frames after each clip's first; addable. None where one of the frames has no such figure.

    ``price``: of the parts that ran (``clockseg.engines.prices``). ``joules``: of the whole machine meanwhile (``clockseg.evaluation.energy``).

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
        """With one more frame."""
        return self + Spent(1, price, joules)

    def __add__(self, other: Spent) -> Spent:
        if not isinstance(other, Spent):
            return NotImplemented
        price = None if self.price is None or other.price is None else self.price + other.price
        joules = None if self.joules is None or other.joules is None else self.joules + other.joules
        return Spent(self.frames + other.frames, price, joules)

    @property
    def multiply_adds_per_frame(self) -> float | None:
        """The mean; None without frames, or where a part isn't a graph."""
        return None if self.price is None or not self.frames else self.price.multiply_adds / self.frames

    @property
    def joules_per_frame(self) -> float | None:
        """The mean; None without frames, or where the machine doesn't tell."""
        return None if self.joules is None or not self.frames else self.joules / self.frames

    def relative_multiply_adds(self, every_frame: Spent) -> float | None:
        """These multiply-adds over those of the uncut network on the same frames."""
        mine, all = self.multiply_adds_per_frame, every_frame.multiply_adds_per_frame
        return mine / all if mine is not None and all else None
