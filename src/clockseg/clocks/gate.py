"""Schedules by gates: clocks that decide for the last stages, while those before them always fire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from clockseg.clocks import (
    ALWAYS,
    AtLeastEvery,
    Both,
    Budget,
    Change,
    Clock,
    Confidence,
    Difference,
    Either,
    Every,
    Invert,
    Learned,
    MotionResidual,
    Paced,
)
from clockseg.clocks.change import Reference
from clockseg.clocks.every import whole_number
from clockseg.clockwork.schedule import Schedule
from clockseg.errors import UsageError


@dataclass(frozen=True)
class Gate:
    """Clocks that gate the stages after stage ``after``; the stages up to it always fire.

    One clock gates them all: the first of them asks, the rest follow (nested firing). Several: one for each of the
    last stages. ``after=None``: the clocks gate the last ones.

    >>> Gate((AtLeastEvery(8),))(3).clocks
    (Every(period=1), Every(period=1), AtLeastEvery(frames=8))
    """

    clocks: tuple[Clock, ...]
    after: int | None = None

    def __call__(self, stages: int) -> Schedule:
        """The schedule for so many stages."""
        first = stages - len(self.clocks) if self.after is None else self.after
        if first < 0:
            raise UsageError(f"{len(self.clocks)} thresholds for a network of {stages} stages; give at most {stages}.")
        if first + len(self.clocks) > stages:
            raise UsageError(
                f"watch={first}, but nothing comes after stage {first} in a network of {stages} stages; "
                f"there is no such stage to gate. Give a stage before the last: 1 to {stages - 1}."
            )
        follow = (ALWAYS,) * (stages - first - len(self.clocks))
        return Schedule((ALWAYS,) * first + self.clocks + follow)


def adaptive(
    *thresholds: float,
    watch: int | None = None,
    reference: Reference = "fired",
    strict: bool = False,
    classes: tuple[str | int, ...] = (),
) -> Gate:
    """The paper's adaptive clock (section 4.3): fires when the watched labels changed by at least the threshold, 0..1.

    One threshold gates every stage after the watched one (``watch``: a stage's number; by default the last but one).
    Several give each of the last stages its own, watching the stage before it: with ``adaptive(t2, t3)`` a frame of a
    three-stage network may stop after stage 1, 2 or 3. ``reference="previous"`` compares with the frame before instead
    of the last firing; ``strict`` fires at ``>`` instead of ``>=``. ``classes``: counts only changes from or to these, names
    or ids, over the places that show one of them (``clockseg.clocks.maps.change_of``).

    >>> len(adaptive(0.25)(3)), len(adaptive(0.1, 0.25)(3).clocks)
    (3, 3)
    """
    if not thresholds:
        raise UsageError("adaptive() needs a threshold, 0..1, such as adaptive(0.25).")
    if len(thresholds) > 1 and watch is not None:
        raise UsageError("adaptive with several thresholds watches the stage before each; leave watch out.")
    if watch is not None:
        whole_number(watch, "adaptive's watch (a stage's number)")
    clocks = tuple(Change(threshold, watch, reference, strict, classes) for threshold in thresholds)
    return Gate(clocks, after=watch)


def difference(
    threshold: float,
    *,
    of: Literal["labels", "scores", "features", "pixels"] = "labels",
    watch: int | None = None,
    reference: Reference = "fired",
    classes: tuple[str | int, ...] = (),
) -> Gate:
    """A change clock on labels (as ``adaptive``), scores, features, or pixels, which gate the whole network.

    >>> difference(0.1, of="pixels")(3).clocks[0].of
    'pixels'
    """
    if of == "labels":
        return adaptive(threshold, watch=watch, reference=reference, classes=classes)
    if classes:
        raise UsageError(f'difference(of={of!r}) knows no classes; leave them out, or give of="labels".')
    if of == "pixels" and watch is not None:
        raise UsageError('difference(of="pixels") watches the picture; leave watch out.')
    if watch is not None:
        whole_number(watch, "difference's watch (a stage's number)")
    return Gate((Difference(threshold, of, watch, reference),), after=0 if of == "pixels" else watch)


def confidence(threshold: float, *, sense: Literal["below", "above"] = "below", watch: int | None = None) -> Gate:
    """Fires by the mean softmax peak of the watched map of this frame alone: below the threshold, or at and above it.

    >>> confidence(0.8)(3).clocks[2].sense
    'below'
    """
    return Gate((Confidence(threshold, sense, watch),), after=watch)


def paced(gate: Gate, rate: float, *, gain: float = 0.2) -> Gate:
    """``adaptive`` or ``difference`` with a threshold that moves, so that the share ``rate`` of frames fires (``Paced``).

    >>> paced(adaptive(0.02), 0.5)(3).clocks[2].rate
    0.5
    """
    (rows, after) = _gates((gate,), "paced")
    return Gate(tuple(Paced(row[0], rate, gain) for row in rows), after)  # type: ignore[arg-type]  # it refuses others


def motion_residual(threshold: float) -> Gate:
    """Fires the whole network when motion leaves that much of the picture unexplained, 0..1 (``MotionResidual``).

    >>> motion_residual(0.1)(3).clocks[0]
    MotionResidual(threshold=0.1)
    """
    return Gate((MotionResidual(threshold),), after=0)


def learned(file: str, threshold: float = 0.1) -> Gate:
    """Fires where the graph in ``file`` expects at least that share of labels to change, 0..1 (``Learned``).

    It gates the whole network; where it reads features or scores of a stage, the stages after that one.

    >>> learned("nowhere.onnx")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    clockseg.errors.UsageError: learned('nowhere.onnx'): give the path of a clock, NAME.onnx, ...
    """
    clock = Learned(file, threshold)
    return Gate((clock,), after=clock.watch or 0)


def budget(
    signal: Gate | Callable[[float], Gate] | None = None,
    *,
    network_rate: float | None = None,
    fps: float | None = None,
    cap: int | None = None,
) -> Gate:
    """Keeps to a share of frames, or to frames a second: it finds its own threshold (``Budget``) and refills at cuts.

    ``signal``: what tells when firing is worth it, ``motion_residual``, ``adaptive``, ``difference(0, of="scores")`` or
    another gate, which also says what it gates; by default the whole network, by what motion leaves unexplained, or, where
    the carry finds no motion, by the difference of pictures. ``cap``: frames after which it fires in any case.

    >>> budget(network_rate=0.25, cap=12)(3).clocks[0].cap
    12
    """
    if signal is None:
        return Gate((Budget(network_rate, fps, cap),), after=0)
    gate = signal if isinstance(signal, Gate) or not callable(signal) else signal(0.0)
    rows, after = _gates((gate,), "budget")
    return Gate(tuple(Budget(network_rate, fps, cap, row[0]) for row in rows), after)


def every(n: int) -> Gate:
    """Fires when t = 0 mod ``n``: for ``either`` and ``both``; alone it gates the last stage.

    >>> every(4)(3).clocks
    (Every(period=1), Every(period=1), Every(period=4))
    """
    return Gate((Every(n),))


def at_least_every(n: int) -> Gate:
    """Fires after ``n`` frames without: a cap on staleness, as in ``either(adaptive(0.25), at_least_every(8))``.

    >>> at_least_every(8)(3).clocks[2]
    AtLeastEvery(frames=8)
    """
    return Gate((AtLeastEvery(n),))


def _gates(gates: tuple[Any, ...], name: str) -> tuple[tuple[tuple[Clock, ...], ...], int | None]:
    for gate in gates:
        if not isinstance(gate, Gate):
            raise UsageError(
                f"{name} takes clocks: adaptive, difference, confidence, every, at_least_every and what is made of them, "
                f"not {gate!r}."
            )
    if not gates:
        raise UsageError(f"{name}() takes at least one clock, such as {name}(adaptive(0.25), at_least_every(8)).")
    count = max(len(gate.clocks) for gate in gates)
    for gate in gates:
        if len(gate.clocks) not in (1, count):
            raise UsageError(f"{name} of {len(gate.clocks)} and of {count} clocks; give equal numbers, or one.")
    columns = [gate.clocks if len(gate.clocks) == count else gate.clocks * count for gate in gates]
    places = {gate.after for gate in gates if gate.after is not None}
    if len(places) > 1:
        raise UsageError(
            f"{name} of clocks that gate from different stages on (after {sorted(places)}); give one watch."
        )
    return tuple(zip(*columns, strict=True)), next(iter(places), None)


def either(*gates: Gate) -> Gate:
    """Fires when any of the clocks does.

    >>> len(either(adaptive(0.25), at_least_every(8))(3).clocks[2].clocks)
    2
    """
    rows, after = _gates(gates, "either")
    return Gate(tuple(Either(row) for row in rows), after)


def both(*gates: Gate) -> Gate:
    """Fires when all of the clocks do.

    >>> len(both(adaptive(0.25), every(2))(3).clocks[2].clocks)
    2
    """
    rows, after = _gates(gates, "both")
    return Gate(tuple(Both(row) for row in rows), after)


def invert(gate: Gate) -> Gate:
    """Fires when the clock does not; the stages before it still always fire.

    >>> invert(every(2))(3).clocks[2]
    Invert(clock=Every(period=2))
    """
    (rows, after) = _gates((gate,), "invert")
    return replace(gate, clocks=tuple(Invert(row[0]) for row in rows), after=after)
