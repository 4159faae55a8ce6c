"""Sums over the frames of a clip or a piece, and the figures of its summary."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from clockseg.clockwork.trace import FullPass, Record, Tally
from clockseg.evaluation.cost import Price
from clockseg.evaluation.flicker import flicker_facts
from clockseg.evaluation.metrics import Confusion
from clockseg.evaluation.runs import Spent


@dataclass(frozen=True)
class Figures:
    """Sums over the frames of pieces, each with its own session; addable, and convertible to plain values and back.

    ``decoded``: frames of the input, taken or not. ``network_seconds``: of all parts, clocks and motion. ``spent`` and
    ``uncut``: costs of what ran and of the uncut network. ``calm``: the counts from which flicker is computed, None if it
    was not requested.

    >>> one = Figures(Tally(("a",), 1, 3, (1,)), decoded=3)
    >>> (one + one).tally.frames, Figures.from_facts(one.facts()) == one
    (6, True)
    """

    tally: Tally
    decoded: int = 0
    network_seconds: float = 0.0
    full: FullPass = field(default_factory=FullPass)
    spent: Spent = field(default_factory=Spent)
    uncut: Spent = field(default_factory=Spent)
    calm: Confusion | None = None

    def add(
        self, record: Record, *, first: bool, price: Price | None, whole: Price | None, joules: float | None
    ) -> Figures:
        """Return the figures with one more frame; ``first`` if its session begins with it."""
        known = replace(
            self,
            tally=self.tally.add(record, first=first),
            network_seconds=self.network_seconds + record.seconds.network,
            full=self.full.add(record, first=first),
        )
        if first:
            return known
        return replace(known, spent=self.spent.add(price, joules), uncut=self.uncut.add(whole, None))

    def __add__(self, other: Figures) -> Figures:
        if not isinstance(other, Figures):
            return NotImplemented
        calm = None if self.calm is None or other.calm is None else self.calm + other.calm
        return Figures(
            self.tally + other.tally,
            self.decoded + other.decoded,
            self.network_seconds + other.network_seconds,
            self.full + other.full,
            self.spent + other.spent,
            self.uncut + other.uncut,
            calm,
        )

    def summary(self, wall_seconds: float) -> dict[str, Any]:
        """Return the figures for ``summary.json``."""
        tally, full = self.tally, self.full.seconds
        mean = tally.seconds_per_frame
        return {
            "frames": tally.frames,
            "fire_rate": tally.fire_rate,
            "network_rate": tally.network_rate,
            "network_seconds": round(self.network_seconds, 6),
            "wall_seconds": round(wall_seconds, 6),
            "fps": round(tally.frames / wall_seconds, 3),
            "relative_time_estimate": None if mean is None else round(mean / full, 4),
            "multiply_adds_per_frame": _rounded(self.spent.multiply_adds_per_frame, 0),
            "relative_multiply_adds": _rounded(self.spent.relative_multiply_adds(self.uncut), 4),
            "joules_per_frame": _rounded(self.spent.joules_per_frame, 4),
            "flicker": None if self.calm is None else flicker_facts(self.calm),
        }

    def facts(self) -> dict[str, Any]:
        """Return the figures as plain values for JSON."""
        return {
            "tally": asdict(self.tally),
            "decoded": self.decoded,
            "network_seconds": self.network_seconds,
            "full": asdict(self.full),
            "spent": asdict(self.spent),
            "uncut": asdict(self.uncut),
            "calm": None if self.calm is None else self.calm.counts.tolist(),
        }

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Figures:
        """Restore figures from the values of ``facts``; ``KeyError`` or ``TypeError`` for anything else."""
        calm = facts["calm"]
        return cls(
            Tally(**_tuples(facts["tally"])),
            facts["decoded"],
            facts["network_seconds"],
            FullPass(**_tuples(facts["full"])),
            _spent(facts["spent"]),
            _spent(facts["uncut"]),
            None if calm is None else Confusion(calm),
        )


def _tuples(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in facts.items()}


def _spent(facts: dict[str, Any]) -> Spent:
    price = facts["price"]
    return Spent(facts["frames"], None if price is None else Price(**price), facts["joules"])


def _rounded(value: float | None, places: int) -> float | None:
    return None if value is None else round(value, places or None)
