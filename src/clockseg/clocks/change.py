"""Clocks on change: of labels, which is the paper's adaptive clock (section 4.3), of scores, features or pixels."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar, Literal, get_args

from clockseg.clocks.maps import change, labels, relative_difference
from clockseg.clockwork.clock import PICTURE, Clock, Decision, Tick, Watch, name_of
from clockseg.clockwork.facts import class_ids, facts
from clockseg.clockwork.schedule import ByStages, Schedule, gated
from clockseg.errors import UsageError, number, whole_number

Reference = Literal["fired", "previous"]
Of = Literal["scores", "features", "pixels"]
NEVER = 3.0
"""The largest threshold: shares end at 1 and relative differences at 2, so no signal reaches it."""


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


class Watching:
    """A clock that watches a map of the stage ``watch``, or of the one before its own: "scores", "features" or the "pixels".

    ``threshold``: 0 (fires always) to ``NEVER``; no share is above 1. ``reference``: the frame to compare with.

    >>> Change(15)
    Traceback (most recent call last):
        ...
    clockseg.errors.UsageError: the threshold is 15; it is compared with a share, so give 0 to 1, such as 0.25 for 25 %.
    """

    threshold: float
    watch: int | None
    of: Of = "scores"
    reference: Reference = "fired"

    def __post_init__(self) -> None:
        if not 0 <= number(self.threshold, "the threshold") <= NEVER:
            raise UsageError(
                f"the threshold is {self.threshold!r}; it is compared with a share, so give 0 to 1, such as 0.25 for 25 %."
            )
        if self.watch is not None:
            whole_number(self.watch, "watch (a stage's number)")
        if self.reference not in get_args(Reference):
            raise UsageError(
                f'reference={self.reference!r}; give "fired" (the last firing) or "previous" (the frame before).'
            )
        if self.of not in get_args(Of):
            raise UsageError(f'of={self.of!r}; give "labels", "scores", "features" or "pixels".')

    @property
    def gates_after(self) -> int | None:
        """The watched stage; 0 for the picture."""
        return 0 if self.of == "pixels" else self.watch

    def watched(self, stage: int) -> Watch:
        """Return the map to watch; ``UsageError`` if there is no stage before ``stage``."""
        if self.of == "pixels":
            return PICTURE
        watch = stage - 1 if self.watch is None else self.watch
        if watch < 1:
            raise UsageError(
                "a clock on labels, scores, features or confidence watches a stage before its own, which stage 1 does "
                'not have; decide for a later stage, or watch the picture with difference(threshold, of="pixels").'
            )
        return Watch(self.of, watch)

    def watches(self, stage: int) -> frozenset[Watch]:
        """Return that one map."""
        return frozenset({self.watched(stage)})


def _listed(classes: Any) -> tuple[str | int, ...]:
    """Return one class or several as a tuple."""
    found = (classes,) if isinstance(classes, str | int) else tuple(classes)
    for one in found:
        if isinstance(one, bool) or not isinstance(one, str | int) or (isinstance(one, int) and one < 0):
            raise UsageError(f'classes={classes!r}; give names or ids of classes, such as ("pedestrian", 10).')
    return found


@dataclass(frozen=True)
class Change(Watching):
    """Fires when the labels of the watched score map changed: the signal is the share of cells with another argmax, 0..1.

    As in the paper's code, the map is compared with that of the last firing (so that slow drift adds up), uncropped, and a
    signal ``>=`` the threshold fires. The paper's text instead: ``reference="previous"``, ``strict=True``.
    ``watch``: the number of the stage whose score map it watches; None: of the stage before.

    ``classes``: names or ids. Only changes from or to these count, as a share of the cells that show one of them in either
    map (``clockseg.clocks.maps.change``), so that the threshold means the same for small and large objects. Names are
    those of the network's sidecar.
    """

    threshold: float
    watch: int | None = None
    reference: Reference = "fired"
    strict: bool = False
    classes: tuple[str | int, ...] = ()
    labels_suffice: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "classes", _listed(self.classes))

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Decide by the change, 0..1; ``state`` keeps label maps, so that the argmax of each map is computed once."""
        if self.watch is not None:
            tick = tick.at(Watch("scores", self.watch))
        past = tick.reference if self.reference == "fired" else tick.previous
        seen = {id(map_): found for map_, found in state or ()}
        old = seen.get(id(past))
        now = labels(tick.watched)
        old = labels(past) if old is None else old
        wanted = class_ids(self.classes, tick.classes) if self.classes else ()
        signal = change(now, old, wanted)
        fire = signal > self.threshold if self.strict else signal >= self.threshold
        return Decision(fire, signal), ((tick.watched, now), (past, old))


def adaptive(
    *thresholds: float,
    watch: int | None = None,
    reference: Reference = "fired",
    strict: bool = False,
    classes: tuple[str | int, ...] = (),
) -> Change | ByStages:
    """Return the paper's adaptive clock (section 4.3): it fires when the watched labels changed by at least the threshold, 0..1.

    One threshold gates every stage after the watched one (``watch``: a stage's number; by default the last but one).
    Several give each of the last stages its own, watching the stage before it: with ``adaptive(t2, t3)`` a frame of a
    three-stage network may stop after stage 1, 2 or 3. The other arguments: see ``Change``.

    >>> adaptive(0.25).threshold, len(adaptive(0.1, 0.25)(3).clocks)
    (0.25, 3)
    """
    if not thresholds:
        raise UsageError("adaptive() needs a threshold, 0..1, such as adaptive(0.25).")
    if len(thresholds) > 1 and watch is not None:
        raise UsageError("adaptive with several thresholds watches the stage before each; leave watch out.")
    clocks = tuple(Change(threshold, watch, reference, strict, classes) for threshold in thresholds)

    def one_per_stage(stages: int) -> Schedule:
        return gated(clocks, stages)

    return clocks[0] if len(clocks) == 1 else one_per_stage


@dataclass(frozen=True)
class Difference(Watching):
    """Fires at a relative difference of the watched map, sum |a - b| / half of sum (|a| + |b|), 0..2, of at least ``threshold``.

    ``of``: "scores" or "features" of stage ``watch`` (None: the stage before), or "pixels" (of the picture). Networks
    without class scores at intermediate stages are clocked by "features".
    """

    threshold: float
    of: Of = "scores"
    watch: int | None = None
    reference: Reference = "fired"

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        tick = tick.at(self.watched(tick.stage))
        past = tick.reference if self.reference == "fired" else tick.previous
        signal = relative_difference(tick.watched, past)
        return Decision(signal >= self.threshold, signal), None


def difference(
    threshold: float,
    *,
    of: Literal["labels", "scores", "features", "pixels"] = "labels",
    watch: int | None = None,
    reference: Reference = "fired",
    classes: tuple[str | int, ...] = (),
) -> Change | Difference:
    """Return a clock on the change of labels (as ``adaptive``), scores, features, or pixels, which gate the whole network.

    >>> difference(0.1, of="pixels").gates_after
    0
    """
    if of == "labels":
        return adaptive(threshold, watch=watch, reference=reference, classes=classes)  # type: ignore[return-value]
    if classes:
        raise UsageError(f'difference(of={of!r}) knows no classes; leave them out, or give of="labels".')
    if of == "pixels" and watch is not None:
        raise UsageError('difference(of="pixels") watches the picture; leave watch out.')
    return Difference(threshold, of, watch, reference)
