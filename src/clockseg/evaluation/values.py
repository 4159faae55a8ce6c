"""Evaluation of schedules whose network gives maps of numbers, such as depth or edges.

There are no classes to count: agreement is the relative error against the uncut network on the same frames.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.trace import Progress, Tally
from clockseg.datasets.clips import Clip, ClipFrame
from clockseg.errors import DataError, UsageError
from clockseg.evaluation.metrics import finite
from clockseg.evaluation.runs import Baselines, Compared, Schedules, Spent, added, evaluate_clips
from clockseg.showing.stream import Stream
from clockseg.types import Array


@dataclass(frozen=True)
class Deviation:
    """Difference of maps of numbers from a reference, summed over frames; addable.

    ``apart``: the sum of absolute differences; ``size``: the sum of the reference's absolute values; ``worst``: the
    largest relative error of a frame; ``frames``: the number of frames.

    >>> one = deviation(np.array([1.0, 3.0]), np.array([1.0, 4.0]))
    >>> (one + one).relative_error, one.worst
    (0.2, 0.2)
    """

    apart: float = 0.0
    size: float = 0.0
    worst: float = 0.0
    frames: int = 0

    def __add__(self, other: Deviation) -> Deviation:
        if not isinstance(other, Deviation):
            return NotImplemented
        worst = max(self.worst, other.worst)
        return Deviation(self.apart + other.apart, self.size + other.size, worst, self.frames + other.frames)

    @property
    def relative_error(self) -> float:
        """mean |a - b| / mean |b|, at least 0; NaN without frames, infinite against nothing but zeros."""
        return _ratio(self.apart, self.size) if self.frames else math.nan


def deviation(values: Array, truth: Array) -> Deviation:
    """Compare one frame's ``values`` with ``truth``, arrays of one shape; places where the truth is not finite don't count.

    Several channels give one figure, so scale them alike or compare them one by one.
    """
    a, b = np.asarray(values, np.float64), np.asarray(truth, np.float64)
    if a.shape != b.shape:
        raise DataError(f"maps of shapes {list(a.shape)} and {list(b.shape)} can't be compared; give equal shapes.")
    known = np.isfinite(b)
    if not known.all():
        a, b = a[known], b[known]
    apart, size = float(np.abs(a - b).sum()), float(np.abs(b).sum())
    return Deviation(apart, size, _ratio(apart, size), 1)


def _ratio(apart: float, size: float) -> float:
    # A value that is not finite where the truth is finite is as wrong as can be.
    if not math.isfinite(apart):
        return math.inf
    return apart / size if size else math.inf if apart else 0.0


def gives_numbers(net: StagedNetwork) -> bool:
    """Return True if the output of ``net`` is a map of numbers: its sidecar names no classes.

    >>> from clockseg.clockwork.network import Stage
    >>> gives_numbers(StagedNetwork("one", (Stage("a", str.upper),)))
    False
    """
    return net.sidecar is not None and not net.sidecar.classes


@dataclass(frozen=True)
class ValueEvaluation(Compared):
    """Agreement and costs of one schedule; addable. ``agreement``: against the uncut network's maps, on all frames."""

    schedule: str
    carry: str
    tally: Tally
    uncut: Tally
    agreement: Deviation = field(default_factory=Deviation)
    spent: Spent = field(default_factory=Spent)
    uncut_spent: Spent = field(default_factory=Spent)

    def __add__(self, other: ValueEvaluation) -> ValueEvaluation:
        found: ValueEvaluation = added(self, other, same=("schedule", "carry"))
        return found

    def facts(self) -> dict[str, Any]:
        """Return what ``clockseg evaluate --json`` prints: plain values, None where there is nothing to report."""
        worst = self.agreement.worst if self.agreement.frames else math.nan
        return {
            "schedule": self.schedule,
            "carry": self.carry,
            "agreement": {"relative_error": finite(self.agreement.relative_error), "worst_frame": finite(worst)},
            **self.cost_facts(),
        }


def evaluate_values(
    net: StagedNetwork,
    schedules: Schedules,
    clips: Iterable[Clip],
    *,
    baselines: Baselines = (),
    progress: Callable[[Progress], None] | None = None,
    warn: Callable[[str], None] = warnings.warn,
) -> tuple[ValueEvaluation, ...]:
    """Evaluate each schedule over all clips, in the order given; labels of the clips are not used.

    Arguments: as of ``clockseg.evaluation.labels.evaluate``. ``UsageError`` if an output is not an array of floats, or not
    of the uncut network's shape.

    >>> from clockseg.clockwork.network import Stage
    >>> from clockseg.clockwork.schedule import frame_oracle
    >>> net = StagedNetwork("one", (Stage("a", lambda image: image.mean(axis=2)),))
    >>> evaluate_values(net, {"every frame": frame_oracle}, [])[0].facts()["agreement"]["relative_error"] is None
    True
    """

    def scorer(clip: Clip | None, sessions: Sequence[tuple[str, Stream]]) -> _ValueScorer:
        return _ValueScorer([_blank(name, one) for name, one in sessions], net)

    return evaluate_clips(net, schedules, clips, baselines=baselines, scorer=scorer, progress=progress, warn=warn)


class _ValueScorer:
    """Sums the deviations of one clip; starts from ``blank`` evaluations."""

    def __init__(self, blank: Sequence[ValueEvaluation], net: StagedNetwork) -> None:
        self._found, self._net = list(blank), net

    def see(self, frame: ClipFrame, outputs: Sequence[tuple[Any, StagedNetwork]]) -> None:
        truth, *values = (checked_numbers(output, net) for output, net in outputs)
        for index, one in enumerate(self._found):
            if values[index].shape != truth.shape:
                raise UsageError(
                    f"{one.schedule} gives {list(values[index].shape)}, network {self._net.name!r} {list(truth.shape)}; "
                    "give baselines whose output is of the same shape."
                )
            self._found[index] = replace(one, agreement=one.agreement + deviation(values[index], truth))

    def results(self) -> list[ValueEvaluation]:
        return self._found


def _blank(name: str, session: Stream) -> ValueEvaluation:
    stages = Tally(tuple(stage.name for stage in session.net.stages))
    return ValueEvaluation(name, str(session.schedule.carry), stages, Tally(("whole",)))


def checked_numbers(output: Any, net: StagedNetwork) -> Array:
    """Return the output of ``net`` as an array if it is one of floats; else ``UsageError``.

    >>> from clockseg.clockwork.network import Stage
    >>> checked_numbers([0.5], StagedNetwork("one", (Stage("a", str.upper),))).tolist()
    [0.5]
    """
    values = np.asarray(output)
    if values.dtype.kind != "f":
        raise UsageError(
            f"network {net.name!r} names no classes and gives {values.dtype} {list(values.shape)}, no map of floats; "
            "name the classes in its sidecar if these are class ids."
        )
    return values
