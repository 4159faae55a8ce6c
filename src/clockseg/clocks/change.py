"""Clocks on change: of labels, which is the paper's adaptive clock (section 4.3), of scores, features or pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from clockseg.clocks.maps import change, labels, relative_difference
from clockseg.clocks.rates import NamedSchedule
from clockseg.clocks.threshold import Of, Watching
from clockseg.clockwork.clock import Tick
from clockseg.clockwork.facts import class_ids
from clockseg.clockwork.schedule import gated
from clockseg.errors import UsageError

Reference = Literal["fired", "previous"]


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
        given: Any = self.classes
        classes = (given,) if isinstance(given, str | int) else tuple(given)
        for one in classes:
            if isinstance(one, bool) or not (isinstance(one, str) or (isinstance(one, int) and one >= 0)):
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
        """Return the change; ``state`` keeps label maps, so that the argmax of each map is computed once."""
        if self.of != "labels" or self.watch is not None:
            tick = tick.at(self.watched(tick.stage))
        now, past = tick.watched, tick.reference if self.reference == "fired" else tick.previous
        if self.of != "labels":
            return relative_difference(now, past), state
        seen = {id(map_): found for map_, found in state or ()}
        old = seen.get(id(past))
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
