"""The paper's adaptive clock: fires when the labels of the watched map have changed enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from clockseg.clocks.maps import change, change_of, labels
from clockseg.clockwork.clock import Decision, Tick, Watch, watched_by_default
from clockseg.errors import UsageError, nearest

Reference = Literal["fired", "previous"]
NEVER = 3.0
"""No signal is as large: shares end at 1, relative differences at 2. Where a search for a threshold ends."""


def number(value: Any, what: str) -> float:
    """``value`` as a float, if it is a number and not NaN.

    >>> number(1, "a threshold")
    1.0
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        raise UsageError(f"{what} is {value!r}; it must be a number, such as 0.25.")
    return float(value)


def threshold(value: Any) -> float:
    """``value`` as a threshold: 0 (fires always) to ``NEVER``; above 1 no share fires it.

    >>> threshold(15)
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
    """Refuse what is neither "fired" nor "previous"."""
    if reference not in ("fired", "previous"):
        raise UsageError(f'reference={reference!r}; give "fired" (the last firing) or "previous" (the frame before).')


def class_ids(classes: Sequence[str | int], names: Sequence[str]) -> tuple[int, ...]:
    """The ids of ``classes``, names or ids, in a network whose classes have these ``names``, by id.

    >>> class_ids(("road", 2), ["sky", "road", "car"])
    (1, 2)
    """
    return tuple(one if isinstance(one, int) else _id(one, names) for one in classes)


def _id(name: str, names: Sequence[str]) -> int:
    if name not in names:
        told = nearest(name, names) if names else "Its classes have no names: give ids, such as classes=(9, 10)."
        raise UsageError(f"the network has no class {name!r}. {told}")
    return list(names).index(name)


def _listed(classes: Any) -> tuple[str | int, ...]:
    """One class or several, as a tuple."""
    found = (classes,) if isinstance(classes, str | int) else tuple(classes)
    for one in found:
        if isinstance(one, bool) or not isinstance(one, str | int) or (isinstance(one, int) and one < 0):
            raise UsageError(f'classes={classes!r}; give names or ids of classes, such as ("pedestrian", 10).')
    return found


@dataclass(frozen=True)
class Change:
    """Label change of the watched score map: the share of its cells whose argmax differs from the reference's.

    As the paper's authors' code does it: against the last firing (so that slow drift adds up and fires), over the
    uncropped map, firing at ``>=`` the threshold. The paper's text instead: ``reference="previous"``, ``strict=True``.
    ``watch``: the number of the stage whose score map it watches; None: of the stage before.

    ``classes``: counts only changes from or to these, names or ids, as a share of the places that show one of them in
    either map (``clockseg.clocks.maps.change_of``): so that the threshold means the same for what is small and for what is large.
    Names are the network's own, from its sidecar.
    """

    threshold: float
    watch: int | None = None
    reference: Reference = "fired"
    strict: bool = False
    classes: tuple[str | int, ...] = ()

    def __post_init__(self) -> None:
        threshold(self.threshold)
        check_reference(self.reference)
        object.__setattr__(self, "classes", _listed(self.classes))

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """The signal is the change, 0..1; ``state`` remembers the reference's labels, so that each argmax is once."""
        tick = tick.at(self._watches(tick.stage))
        past = tick.reference if self.reference == "fired" else tick.previous
        seen = {id(map_): found for map_, found in state or ()}
        old = seen.get(id(past))
        now = labels(tick.watched)
        old = labels(past) if old is None else old
        wanted = class_ids(self.classes, tick.classes)
        signal = change_of(wanted, now, old) if wanted else change(now, old)
        fire = signal > self.threshold if self.strict else signal >= self.threshold
        return Decision(fire, signal), ((tick.watched, now), (past, old))

    def looks(self, stage: int) -> frozenset[Watch]:
        """At one score map."""
        return frozenset({self._watches(stage)})

    def _watches(self, stage: int) -> Watch:
        watch = watched_by_default(stage) if self.watch is None else Watch("scores", self.watch)
        if watch.stage < 1:
            raise UsageError(
                "a label change needs a score map to watch, and stage 1 comes before any; "
                'for the picture use difference(threshold, of="pixels").'
            )
        return watch
