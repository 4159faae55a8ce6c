"""Clocks that compare a signal with a threshold: on change, as the paper's adaptive clock (section 4.3), on confidence and on motion.

The signal of a learned clock is in learned.py.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from clockseg.clocks.expressions import Written
from clockseg.clocks.maps import change, labels, relative_difference
from clockseg.clocks.rates import NamedSchedule
from clockseg.clockwork.clock import PICTURE, Clock, Decision, Tick, Watch, class_ids, facts, name_of
from clockseg.clockwork.schedule import gated
from clockseg.errors import UsageError, number, whole_number
from clockseg.types import Array

Of = Literal["labels", "scores", "features", "pixels"]
Reference = Literal["fired", "previous"]
NEVER = 3.0
"""The largest threshold: shares end at 1 and relative differences at 2, so no signal reaches it."""
FULL = 64
"""The residual in grey levels that counts as 1; smaller residuals count proportionally."""


class Thresholded(Written):
    """A clock that fires when its signal is at least ``threshold``: a dataclass that says how to compute the ``signal``.

    ``strict``: it fires only above the threshold. ``below``: it fires below the threshold instead.
    """

    threshold: float
    strict: bool = False
    below: bool = False

    def __post_init__(self) -> None:
        number(self.threshold, "the threshold")

    def signal(self, tick: Tick, state: Any) -> tuple[float, Any]:
        """Return the signal of this frame and the state for the next one."""
        raise NotImplementedError

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Compare the signal with the threshold."""
        signal, state = self.signal(tick, state)
        if self.below:
            return Decision(signal < self.threshold, signal), state
        return Decision(signal > self.threshold if self.strict else signal >= self.threshold, signal), state


def with_threshold(clock: Clock, threshold: float) -> Clock:
    """Return a copy of the clock with another threshold; ``UsageError`` if it has none.

    >>> from clockseg.clockwork.clock import as_clock
    >>> with_threshold(as_clock(lambda tick, threshold=0.5: tick.fires >= threshold), 4).threshold
    4
    """
    known: list[str] = [one.name for one in fields(clock) if one.init] if is_dataclass(clock) else []
    if "threshold" in known and facts(clock).threshold is not None:
        return replace(clock, threshold=threshold)  # type: ignore[type-var]  # a dataclass
    raise UsageError(
        f"{name_of(clock)} has no threshold that could be set; give a dataclass with a field threshold, a function of "
        "(tick, threshold=..), or a function of the threshold, such as lambda t: either(adaptive(t), at_least_every(8))."
    )


def residual(tick: Tick) -> Array:
    """Return the residual since the last firing in grey levels, [h, w], at most ``FULL``; ``UsageError`` if the motion has none."""
    found: Array | None = getattr(tick.travel, "residual", None)
    if found is None:
        raise UsageError(
            f"the carry's motion, a {type(tick.travel).__name__}, has no residual, which this clock reads. Use a carry with "
            "clockseg.carry.Motion, such as warp(flow)."
        )
    return found.clip(max=FULL)


@dataclass(frozen=True)
class MotionResidual(Thresholded):
    """Fires when the motion-compensated residual since the last firing is at least ``threshold``.

    The signal, 0..1, is the mean over the picture of the difference in grey levels between this frame and that of the last
    firing warped to it, over ``FULL`` and at most 1; pixels that came into view count as 1. It needs a carry that estimates
    motion, such as ``warp(flow)``.
    """

    threshold: float
    gates_after: ClassVar[int] = 0
    needs_motion: ClassVar[bool] = True
    watches: ClassVar[frozenset[Watch]] = frozenset()

    def signal(self, tick: Tick, state: Any) -> tuple[float, Any]:
        return float(residual(tick).mean() / FULL), state


class Watching(Thresholded):
    """A clock whose signal is computed from a map of the stage ``watch``, or of the one before its own, or from the picture.

    ``threshold``: 0 (fires always) to ``NEVER``; no share is above 1. ``of``: "labels" and "scores" are of the score map.
    ``choices``: the values that a field may have, by its name.
    """

    watch: int | None
    of: Of = "scores"
    choices: ClassVar[dict[str, tuple[str, ...]]]

    def __post_init__(self) -> None:
        if not 0 <= number(self.threshold, "the threshold") <= NEVER:
            raise UsageError(
                f"the threshold is {self.threshold!r}; it is compared with a share, so give 0 to 1, such as 0.25 for 25 %."
            )
        if self.watch is not None:
            whole_number(self.watch, "watch (a stage's number)")
        for name, allowed in self.choices.items():
            if getattr(self, name) not in allowed:
                raise UsageError(f"{name}={getattr(self, name)!r}; give one of {', '.join(map(repr, allowed))}.")

    @property
    def gates_after(self) -> int | None:
        """The watched stage; 0 for the picture."""
        return 0 if self.of == "pixels" else self.watch

    def watched(self, stage: int) -> Watch:
        """Return the map to watch to decide for ``stage``."""
        if self.of == "pixels":
            return PICTURE
        return Watch("features" if self.of == "features" else "scores", self.watch or stage - 1)

    def watches(self, stage: int) -> frozenset[Watch]:
        return frozenset({self.watched(stage)})


@dataclass(frozen=True)
class Change(Watching):
    """A clock that fires when the watched map changed by at least ``threshold`` since the last firing.

    ``of``: "labels", as the paper's adaptive clock: the share of cells with another argmax, 0..1. "scores" or "features", for
    networks without class scores at intermediate stages, or "pixels" of the picture, which gate the whole network: the
    relative difference sum |a - b| / half of sum (|a| + |b|), 0..2. ``watch``: the number of the stage whose map it watches;
    None: the stage before.

    As in the paper's code, the map is compared with that of the last firing (so that slow drift adds up), uncropped, and a
    signal ``>=`` the threshold fires. The paper's text instead: ``reference="previous"``, ``strict=True``.

    ``classes``: names or ids. Only changes of labels from or to these count, as a share of the cells that show one of them in
    either map (``clockseg.clocks.maps.change``), so that the threshold means the same for small and large objects. Names are
    those of the network's sidecar.

    >>> print(Change(0.1, of="pixels"), Change(0.25, watch=1))
    difference(0.1, of="pixels") adaptive(0.25, watch=1)
    """

    threshold: float
    watch: int | None = None
    reference: Reference = "fired"
    strict: bool = False
    classes: tuple[str | int, ...] = ()
    of: Of = "labels"
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"reference": get_args(Reference), "of": get_args(Of)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.classes and self.of != "labels":
            raise UsageError(f'difference(of={self.of!r}) knows no classes; leave them out, or give of="labels".')
        if self.of == "pixels" and self.watch is not None:
            raise UsageError('difference(of="pixels") watches the picture; leave watch out.')
        given: Any = self.classes
        classes = (given,) if isinstance(given, str | int) else tuple(given)
        if not all(type(one) is str or (type(one) is int and one >= 0) for one in classes):
            raise UsageError(f'classes={given!r}; give names or ids of classes, such as ("pedestrian", 10).')
        object.__setattr__(self, "classes", classes)

    @property
    def written(self) -> str:
        """Its name in schedules."""
        return "adaptive" if self.of == "labels" else "difference"

    @property
    def labels_suffice(self) -> bool:
        """True if it reads only the argmax of score maps."""
        return self.of == "labels"

    def signal(self, tick: Tick, state: Any) -> tuple[float, Any]:
        """Return the change; ``state`` keeps the last two label maps, so that the argmax of each map is computed once."""
        if self.of != "labels" or self.watch is not None:
            tick = tick.at(self.watched(tick.stage))
        now, past = tick.watched, tick.reference if self.reference == "fired" else tick.previous
        if self.of != "labels":
            return relative_difference(now, past), state
        old = next((found for map_, found in state or () if map_ is past), None)
        shown, old = labels(now), labels(past) if old is None else old
        signal = change(shown, old, class_ids(self.classes, tick.classes) if self.classes else ())
        return signal, ((now, shown), (past, old))


def adaptive(
    *thresholds: float,
    watch: int | None = None,
    reference: Reference = "fired",
    strict: bool = False,
    classes: tuple[str | int, ...] = (),
) -> Change | NamedSchedule:
    """Return the paper's adaptive clock (section 4.3): it fires when the watched labels changed by at least the threshold, 0..1.

    One threshold gates every stage after the watched one (``watch``: a stage's number; by default the last but one).
    Several give each of the last stages its own, watching the stage before it: with ``adaptive(t2, t3)`` a frame of a
    three-stage network may stop after stage 1, 2 or 3. The other arguments: see ``Change``.

    >>> adaptive(0.25).threshold, len(adaptive(0.1, 0.25)(3).clocks)
    (0.25, 3)
    >>> print(adaptive(0.1, 0.25, strict=True))
    adaptive(0.1, 0.25, strict=True)
    """
    if not thresholds:
        raise UsageError("adaptive() needs a threshold, 0..1, such as adaptive(0.25).")
    if len(thresholds) > 1 and watch is not None:
        raise UsageError("adaptive with several thresholds watches the stage before each; leave watch out.")
    clocks = tuple(Change(threshold, watch, reference, strict, classes) for threshold in thresholds)
    if len(clocks) == 1:
        return clocks[0]
    text = str(clocks[-1]).replace("(", f"({', '.join(map(repr, thresholds[:-1]))}, ", 1)
    return NamedSchedule(lambda stages: gated(clocks, stages), text)


@dataclass(frozen=True)
class Confidence(Watching):
    """Fires depending on the mean softmax peak of the watched score map, 1/classes..1 (mentioned in the paper's section 4.3).

    ``sense="below"`` fires if the shallow map is unsure (mean peak < threshold), so that deeper stages help; ``sense="above"``
    fires if it is sure (>=). ``watch``: the number of the stage; None: the stage before.
    """

    threshold: float
    sense: Literal["below", "above"] = "below"
    watch: int | None = None
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"sense": ("below", "above")}

    @property
    def below(self) -> bool:  # type: ignore[override]  # read only
        """True if it fires below the threshold."""
        return self.sense == "below"

    def signal(self, tick: Tick, state: Any) -> tuple[float, Any]:
        # The memory layout decides the order of additions, and so the last digit.
        scores = np.ascontiguousarray(tick.at(self.watched(tick.stage)).watched)
        if scores.ndim != 4:
            raise UsageError(f"confidence needs a score map, [n, classes, h, w]; this array has shape {scores.shape}.")
        top = scores.max(axis=1, keepdims=True)
        return float(np.mean(1.0 / np.exp(scores - top).sum(axis=1))), state
