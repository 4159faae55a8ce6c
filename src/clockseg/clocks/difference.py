"""Clocks on the relative difference of scores, features or pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from clockseg.clocks.change import Change, Reference, adaptive, check_reference, check_threshold
from clockseg.clocks.maps import relative_difference
from clockseg.clockwork.clock import PICTURE, Decision, Tick, Watch
from clockseg.errors import UsageError, whole_number

Of = Literal["scores", "features", "pixels"]


@dataclass(frozen=True)
class Difference:
    """Fires at a relative difference of the watched map, sum |a - b| / half of sum (|a| + |b|), 0..2, of at least ``threshold``.

    ``of``: "scores" or "features" of stage ``watch`` (None: the stage before), or "pixels" (of the picture). Networks
    without class scores at intermediate stages are clocked by "features".
    """

    threshold: float
    of: Of = "scores"
    watch: int | None = None
    reference: Reference = "fired"

    def __post_init__(self) -> None:
        check_threshold(self.threshold)
        check_reference(self.reference)
        if self.of not in ("scores", "features", "pixels"):
            raise UsageError(f'of={self.of!r}; give "labels", "scores", "features" or "pixels".')

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Decide by the relative difference."""
        tick = tick.at(self._watched(tick.stage))
        past = tick.reference if self.reference == "fired" else tick.previous
        signal = relative_difference(tick.watched, past)
        return Decision(signal >= self.threshold, signal), None

    @property
    def gates_after(self) -> int | None:
        """The watched stage; 0 for the picture."""
        return 0 if self.of == "pixels" else self.watch

    def watches(self, stage: int) -> frozenset[Watch]:
        """Return one map, or the picture."""
        return frozenset({self._watched(stage)})

    def _watched(self, stage: int) -> Watch:
        if self.of == "pixels":
            return PICTURE
        watch = stage - 1 if self.watch is None else self.watch
        if watch < 1:
            raise UsageError(f'{self.of} of stage {watch} do not exist; stage 1 can watch of="pixels" only.')
        return Watch(self.of, watch)


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
    if watch is not None:
        whole_number(watch, "difference's watch (a stage's number)")
    return Difference(threshold, of, watch, reference)
