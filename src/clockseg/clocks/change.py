"""The paper's adaptive clock: fires when the labels of the watched map have changed enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from clockseg._errors import UsageError
from clockseg.clocks.tick import Decision, Tick, Watch, watched_by_default
from clockseg.maps import change, labels

Reference = Literal["fired", "previous"]


def number(value: Any, what: str) -> float:
    """``value`` as a float, if it is a number and not NaN.

    >>> number(1, "a threshold")
    1.0
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        raise UsageError(f"{what} is {value!r}; it must be a number, such as 0.25.")
    return float(value)


def check_reference(reference: str) -> None:
    """Refuse what is neither "fired" nor "previous"."""
    if reference not in ("fired", "previous"):
        raise UsageError(f'reference={reference!r}; give "fired" (the last firing) or "previous" (the frame before).')


@dataclass(frozen=True)
class Change:
    """Label change of the watched score map: the share of its cells whose argmax differs from the reference's.

    As the paper's authors' code does it: against the last firing (so that slow drift adds up and fires), over the
    uncropped map, firing at ``>=`` the threshold. The paper's text instead: ``reference="previous"``, ``strict=True``.
    ``watch``: the number of the stage whose score map it watches; None: of the stage before.
    """

    threshold: float
    watch: int | None = None
    reference: Reference = "fired"
    strict: bool = False

    def __post_init__(self) -> None:
        number(self.threshold, "the threshold")
        check_reference(self.reference)

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """The signal is the change, 0..1; ``state`` remembers the reference's labels, so that each argmax is once."""
        tick = tick.at(self._watches(tick.stage))
        past = tick.reference if self.reference == "fired" else tick.previous
        seen = {id(map_): found for map_, found in state or ()}
        old = seen.get(id(past))
        now = labels(tick.watched)
        old = labels(past) if old is None else old
        signal = change(now, old)
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
