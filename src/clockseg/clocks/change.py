"""The paper's adaptive clock: fires when enough labels of the watched map have changed (section 4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from clockseg.clocks.combine import PerStage
from clockseg.clocks.maps import change, change_of, labels
from clockseg.clockwork.clock import Decision, Tick, Watch
from clockseg.clockwork.facts import class_ids
from clockseg.errors import UsageError, number, whole_number

Reference = Literal["fired", "previous"]
NEVER = 3.0
"""The largest threshold: shares end at 1 and relative differences at 2, so no signal reaches it."""


def check_threshold(value: Any) -> float:
    """Return ``value`` as a threshold: 0 (fires always) to ``NEVER``; above 1 no share fires it.

    >>> check_threshold(15)
    Traceback (most recent call last):
        ...
    clockseg.errors.UsageError: the threshold is 15; it is compared with a share, so give 0 to 1, such as 0.25 for 25 %.
    """
    if not 0 <= number(value, "the threshold") <= NEVER:
        raise UsageError(
            f"the threshold is {value!r}; it is compared with a share, so give 0 to 1, such as 0.25 for 25 %."
        )
    return float(value)


def check_reference(reference: str) -> None:
    """Raise ``UsageError`` unless ``reference`` is "fired" or "previous"."""
    if reference not in ("fired", "previous"):
        raise UsageError(f'reference={reference!r}; give "fired" (the last firing) or "previous" (the frame before).')


def scores_before(stage: int, watch: int | None) -> Watch:
    """Return the score map of stage ``watch``, or of the one before ``stage``; ``UsageError`` if there is none."""
    watch = stage - 1 if watch is None else watch
    if watch < 1:
        raise UsageError(
            "a clock on labels or confidence needs a score map to watch, and stage 1 comes before any; gate a later stage, or "
            'watch the picture with difference(threshold, of="pixels").'
        )
    return Watch("scores", watch)


def _listed(classes: Any) -> tuple[str | int, ...]:
    """Return one class or several as a tuple."""
    found = (classes,) if isinstance(classes, str | int) else tuple(classes)
    for one in found:
        if isinstance(one, bool) or not isinstance(one, str | int) or (isinstance(one, int) and one < 0):
            raise UsageError(f'classes={classes!r}; give names or ids of classes, such as ("pedestrian", 10).')
    return found


@dataclass(frozen=True)
class Change:
    """Fires when the labels of the watched score map changed: the signal is the share of cells with another argmax, 0..1.

    As in the paper's code, the map is compared with that of the last firing (so that slow drift adds up), uncropped, and a
    signal ``>=`` the threshold fires. The paper's text instead: ``reference="previous"``, ``strict=True``.
    ``watch``: the number of the stage whose score map it watches; None: of the stage before.

    ``classes``: names or ids. Only changes from or to these count, as a share of the cells that show one of them in either
    map (``clockseg.clocks.maps.change_of``), so that the threshold means the same for small and large objects. Names are
    those of the network's sidecar.
    """

    threshold: float
    watch: int | None = None
    reference: Reference = "fired"
    strict: bool = False
    classes: tuple[str | int, ...] = ()
    labels_suffice: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_threshold(self.threshold)
        check_reference(self.reference)
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
        signal = change_of(wanted, now, old) if wanted else change(now, old)
        fire = signal > self.threshold if self.strict else signal >= self.threshold
        return Decision(fire, signal), ((tick.watched, now), (past, old))

    @property
    def gates_after(self) -> int | None:
        """The watched stage."""
        return self.watch

    def watches(self, stage: int) -> frozenset[Watch]:
        """Return one score map."""
        return frozenset({scores_before(stage, self.watch)})


def adaptive(
    *thresholds: float,
    watch: int | None = None,
    reference: Reference = "fired",
    strict: bool = False,
    classes: tuple[str | int, ...] = (),
) -> Change | PerStage:
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
    if watch is not None:
        whole_number(watch, "adaptive's watch (a stage's number)")
    clocks = tuple(Change(threshold, watch, reference, strict, classes) for threshold in thresholds)
    return clocks[0] if len(clocks) == 1 else PerStage(clocks)
