"""Sums over the frames of a clip or a piece, the figures of its summary, and a warning where a network is out of its depth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.trace import Record, Tally
from clockseg.evaluation.cost import Price
from clockseg.evaluation.flicker import flicker_facts
from clockseg.evaluation.metrics import Confusion
from clockseg.evaluation.runs import Spent
from clockseg.evaluation.values import Deviation
from clockseg.execution.machine import machine, versions

T = TypeVar("T", int, float)


@dataclass(frozen=True)
class FullPass:
    """Cost of a frame on which every stage fires: the mean of each part over the frames on which it ran; addable.

    ``first``: the parts of the first frame, a full pass, which stands for those that do not run again; ``sums`` and
    ``counts``: of the frames after the first of each clip.

    >>> from clockseg.clockwork.trace import Seconds
    >>> full = FullPass().add(Record(True, (True, True), (None, None), (0, 0), Seconds((2.0, 1.0), fuse=0.5)), first=True)
    >>> full = full.add(Record(False, (True, False), (None, None), (1, 0), Seconds((4.0, 0.0), fuse=0.7)), first=False)
    >>> full.seconds, (full + full).seconds
    (5.7, 5.7)
    """

    first: tuple[float, ...] = ()
    sums: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()

    def add(self, record: Record, *, first: bool) -> FullPass:
        """Return this with one more frame; ``first`` if it is the first of its clip."""
        parts = (*record.seconds.stages, record.seconds.fuse, record.seconds.finish)
        if first:
            return self + FullPass(parts, (0.0,) * len(parts), (0,) * len(parts))
        ran = (*record.fired, any(record.fired), any(record.fired))
        spent = tuple(part if counts else 0.0 for part, counts in zip(parts, ran, strict=True))
        return self + FullPass(self.first, spent, tuple(map(int, ran)))

    def __add__(self, other: FullPass) -> FullPass:
        if not (self.first and other.first):
            return self if self.first else other
        return FullPass(self.first, _sums(self.sums, other.sums), _sums(self.counts, other.counts))

    @property
    def seconds(self) -> float:
        """Seconds of a frame on which every stage fires."""
        parts = zip(self.first, self.sums, self.counts, strict=True)
        return sum(total / count if count else first for first, total, count in parts)


BUSY = ("decoding", "motion", "network", "showing", "writing")
"""The activities of a run, which overlap. Showing is fusing and making outputs, writing is drawing and encoding."""
WAITED = ("frames", "writing")
"""What the network waited for: decoded frames with their motion, and room in the queue to the writer."""


@dataclass(frozen=True)
class Figures:
    """Sums over the frames of pieces, each with its own session; addable, and convertible to plain values and back.

    ``decoded``: frames of the input, taken or not. ``network_seconds``: of all parts, clocks and motion. ``spent`` and
    ``uncut``: costs of what ran and of the uncut network, multiply-adds of all frames and energy of those after the first.
    ``calm``: the counts from which flicker is computed, None if it was not requested. ``confidences``: the mean confidence on
    each frame on which it was measured. ``busy`` and ``waited``: seconds of each of ``BUSY`` and ``WAITED``.

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
    calm: Confusion | Deviation | None = None
    confidences: tuple[float, ...] = ()
    busy: tuple[float, ...] = (0.0,) * len(BUSY)
    waited: tuple[float, ...] = (0.0,) * len(WAITED)

    def add(
        self,
        record: Record,
        *,
        first: bool,
        price: Price | None,
        whole: Price | None,
        joules: float | None,
        decode_seconds: float = 0.0,
    ) -> Figures:
        """Return the figures with one more frame; ``first`` if its session begins with it."""
        spent = record.seconds
        busy = (decode_seconds, spent.motion, sum(spent.stages) + spent.clock, spent.fuse + spent.finish, 0.0)
        known = replace(
            self,
            busy=_sums(self.busy, busy),
            tally=self.tally.add(record, first=first),
            network_seconds=self.network_seconds + record.seconds.network,
            full=self.full.add(record, first=first),
        )
        # Energy counts from the second frame, as seconds do: the first one pays for what is compiled.
        joules = 0.0 if first and joules is not None else joules
        return replace(known, spent=self.spent.add(price, joules), uncut=self.uncut.add(whole, None))

    def __add__(self, other: Figures) -> Figures:
        if not isinstance(other, Figures):
            return NotImplemented
        calm: Any = None if self.calm is None or other.calm is None else self.calm + other.calm  # type: ignore[operator]
        return Figures(
            self.tally + other.tally,
            self.decoded + other.decoded,
            self.network_seconds + other.network_seconds,
            self.full + other.full,
            self.spent + other.spent,
            self.uncut + other.uncut,
            calm,
            self.confidences + other.confidences,
            _sums(self.busy, other.busy),
            _sums(self.waited, other.waited),
        )

    @property
    def confidence(self) -> float | None:
        """The mean confidence over the frames on which it was measured, 0..1; None if it never was."""
        return sum(self.confidences) / len(self.confidences) if self.confidences else None

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
            "joules_per_frame": _rounded(replace(self.spent, frames=tally.later).joules_per_frame, 4),
            "flicker": None if self.calm is None else flicker_facts(self.calm),
            "confidence": _rounded(self.confidence, 3),
            "busy_seconds": {name: round(one, 3) for name, one in zip(BUSY, self.busy, strict=True)},
            "waited_seconds": {name: round(one, 3) for name, one in zip(WAITED, self.waited, strict=True)},
        }

    def facts(self) -> dict[str, Any]:
        """Return the figures as plain values for JSON."""
        told = asdict(self)
        if isinstance(self.calm, Confusion):
            told["calm"] = {"counts": self.calm.counts.tolist()}
        return told

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Figures:
        """Restore figures from the values of ``facts``; ``KeyError`` or ``TypeError`` for anything else."""
        calm = facts["calm"]
        return cls(
            **_tuples(facts)
            | {
                "tally": Tally(**_tuples(facts["tally"])),
                "full": FullPass(**_tuples(facts["full"])),
                "spent": _spent(facts["spent"]),
                "uncut": _spent(facts["uncut"]),
                "calm": None if calm is None else Deviation(**calm) if "apart" in calm else Confusion(**calm),
            }
        )


def _sums(first: tuple[T, ...], second: tuple[T, ...]) -> tuple[T, ...]:
    return tuple(a + b for a, b in zip(first, second, strict=True))


def _tuples(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in facts.items()}


def _spent(facts: dict[str, Any]) -> Spent:
    price = facts["price"]
    return Spent(facts["frames"], None if price is None else Price(**price), facts["joules"])


def _rounded(value: float | None, places: int) -> float | None:
    return None if value is None else round(value, places or None)


def run_facts(net: StagedNetwork, schedule: str, carry: str) -> dict[str, Any]:
    """Return the part of a summary that says what ran: the network, its schedule, the libraries and the machine."""
    said = net.sidecar
    return {
        "network": net.name,
        "schedule": schedule,
        "carry": carry,
        "engine": net.engine,
        "classes": [] if said is None else list(said.classes),
        "palette": [] if said is None else [list(colour) for colour in said.palette],
        "versions": versions(),
        "machine": machine(),
    }


PLAINLY = 0.8
"""A network's labels count as unreliable below this share of its confidence on its own validation data."""
TIMES = 3.0
"""They also count as unreliable if 1 - confidence is more than this many times as large: the mean confidence of `street` is 0.95 on
its own clip, 0.89 on other traffic and 0.75 to 0.83 on animals, rooms and sports."""


def stated(net: StagedNetwork) -> float | None:
    """Return the mean confidence on its own validation data that a network's sidecar states, if it does."""
    return None if net.sidecar is None else net.sidecar.confidence


def looked_at(number: int) -> bool:
    """Return true for the key frames whose confidence is measured: number 0, 1, 2, 4, 8, and so on.

    >>> [number for number in range(20) if looked_at(number)]
    [0, 1, 2, 4, 8, 16]
    """
    return number & (number - 1) == 0


def confidence_of(maps: Any) -> float:
    """Return the mean of the largest class probability, 0..1; ``maps``: class scores [1, classes, h, w], or a mapping with them."""
    scores = next(iter(maps.values())) if isinstance(maps, Mapping) else maps
    found = np.asarray(scores, np.float32)
    return float((1 / np.exp(found - found.max(axis=1, keepdims=True)).sum(axis=1)).mean())


def doubt(here: float | None, own: float | None) -> str | None:
    """Return the warning for a mean confidence ``here`` against the network's own, or None if there is no reason to warn.

    >>> doubt(0.41, 0.86)
    'the labels are probably unreliable: mean confidence 0.41, compared with 0.86 on video like the training data'
    >>> doubt(0.8, 0.86), doubt(0.9, 0.95)
    (None, None)
    """
    if here is None or own is None or here >= max(PLAINLY * own, 1 - TIMES * (1 - own)):
        return None
    return f"the labels are probably unreliable: mean confidence {here:.2f}, compared with {own:.2f} on video like the training data"
