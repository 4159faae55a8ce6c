"""Clocks on change: of labels, which is the paper's adaptive clock (section 4.3), of scores, features or pixels."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, get_args

from clockseg.clocks.maps import change, labels, relative_difference
from clockseg.clockwork.clock import PICTURE, Clock, Decision, Tick, Watch, name_of
from clockseg.clockwork.facts import class_ids, facts
from clockseg.clockwork.schedule import ByStages, Schedule, gated
from clockseg.errors import UsageError, number, whole_number

Reference = Literal["fired", "previous"]
Of = Literal["labels", "scores", "features", "pixels"]
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
    """A clock that watches a map of the stage ``watch``, or of the one before its own, or the picture.

    ``threshold``: 0 (fires always) to ``NEVER``; no share is above 1. ``of``: "labels" and "scores" are of the score map.

    >>> Change(15)
    Traceback (most recent call last):
        ...
    clockseg.errors.UsageError: the threshold is 15; it is compared with a share, so give 0 to 1, such as 0.25 for 25 %.
    """

    threshold: float
    watch: int | None
    of: Of = "scores"

    def __post_init__(self) -> None:
        if not 0 <= number(self.threshold, "the threshold") <= NEVER:
            raise UsageError(
                f"the threshold is {self.threshold!r}; it is compared with a share, so give 0 to 1, such as 0.25 for 25 %."
            )
        if self.watch is not None:
            whole_number(self.watch, "watch (a stage's number)")

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
        return Watch("features" if self.of == "features" else "scores", watch)

    def watches(self, stage: int) -> frozenset[Watch]:
        """Return that one map."""
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

    >>> difference(0.1, of="pixels").gates_after
    0
    """

    threshold: float
    watch: int | None = None
    reference: Reference = "fired"
    strict: bool = False
    classes: tuple[str | int, ...] = ()
    of: Of = "labels"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reference not in get_args(Reference):
            raise UsageError(
                f'reference={self.reference!r}; give "fired" (the last firing) or "previous" (the frame before).'
            )
        if self.of not in get_args(Of):
            raise UsageError(f'of={self.of!r}; give "labels", "scores", "features" or "pixels".')
        if self.classes and self.of != "labels":
            raise UsageError(f'difference(of={self.of!r}) knows no classes; leave them out, or give of="labels".')
        if self.of == "pixels" and self.watch is not None:
            raise UsageError('difference(of="pixels") watches the picture; leave watch out.')
        object.__setattr__(self, "classes", self._listed())

    def _listed(self) -> tuple[str | int, ...]:
        """Return one class or several as a tuple."""
        given: Any = self.classes
        found = (given,) if isinstance(given, str | int) else tuple(given)
        for one in found:
            if isinstance(one, bool) or not isinstance(one, str | int) or (isinstance(one, int) and one < 0):
                raise UsageError(f'classes={given!r}; give names or ids of classes, such as ("pedestrian", 10).')
        return found

    @property
    def labels_suffice(self) -> bool:
        """True if it reads only the argmax of score maps."""
        return self.of == "labels"

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Decide by the change; ``state`` keeps label maps, so that the argmax of each map is computed once."""
        tick = tick if self.of == "labels" and self.watch is None else tick.at(self.watched(tick.stage))
        now, past = tick.watched, tick.reference if self.reference == "fired" else tick.previous
        if self.of == "labels":
            seen = {id(map_): found for map_, found in state or ()}
            old = seen.get(id(past))
            shown, old = labels(now), labels(past) if old is None else old
            signal = change(shown, old, class_ids(self.classes, tick.classes) if self.classes else ())
            state = (now, shown), (past, old)
        else:
            signal = relative_difference(now, past)
        return Decision(signal > self.threshold if self.strict else signal >= self.threshold, signal), state


difference = Change


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
