"""How good and how fast schedules are of networks that give maps of numbers, such as depth or edges.

There are no classes to count, so that agreement is the relative error against the uncut network on the same frames.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule, frame_oracle, schedule_for
from clockseg.clockwork.session import Session
from clockseg.clockwork.trace import Progress, Tally
from clockseg.clockwork.watching import check
from clockseg.datasets.clips import Clip
from clockseg.errors import UsageError
from clockseg.evaluation.deviation import Deviation, deviation
from clockseg.evaluation.interleaving import Interleaving
from clockseg.evaluation.labels import Schedules
from clockseg.evaluation.metrics import finite
from clockseg.evaluation.spent import Spent
from clockseg.types import Array


@dataclass(frozen=True)
class ValueEvaluation:
    """What one schedule gave on some clips; addable. ``agreement``: its maps against the uncut network's, on all frames.

    ``tally`` and ``uncut``: who fired, and the seconds of the schedule and of the uncut network on the same frames;
    ``spent`` and ``uncut_spent``: their multiply-adds and joules.
    """

    schedule: str
    carry: str
    tally: Tally
    uncut: Tally
    agreement: Deviation = field(default_factory=Deviation)
    spent: Spent = field(default_factory=Spent)
    uncut_spent: Spent = field(default_factory=Spent)

    def __add__(self, other: ValueEvaluation) -> ValueEvaluation:
        if not isinstance(other, ValueEvaluation):
            return NotImplemented
        if (self.schedule, self.carry) != (other.schedule, other.carry):
            raise UsageError(
                f"evaluations of {self.schedule} and {other.schedule} can't be added: give the same schedule."
            )
        return replace(
            self,
            tally=self.tally + other.tally,
            uncut=self.uncut + other.uncut,
            agreement=self.agreement + other.agreement,
            spent=self.spent + other.spent,
            uncut_spent=self.uncut_spent + other.uncut_spent,
        )

    @property
    def relative_time(self) -> float | None:
        """The schedule's seconds over the uncut network's, both without each clip's first frame; None if there are none."""
        return self.tally.seconds / self.uncut.seconds if self.uncut.seconds else None

    @property
    def relative_multiply_adds(self) -> float | None:
        """As ``relative_time``, of multiply-adds; None where a part isn't a graph."""
        return self.spent.relative_multiply_adds(self.uncut_spent)

    def facts(self) -> dict[str, Any]:
        """What ``clockseg evaluate --json`` prints of a schedule: plain values, None where there is nothing to tell."""
        worst = self.agreement.worst if self.agreement.frames else math.nan
        return {
            "schedule": self.schedule,
            "carry": self.carry,
            "agreement": {"relative_error": finite(self.agreement.relative_error), "worst_frame": finite(worst)},
            "fire_rate": self.tally.fire_rate,
            "network_rate": self.tally.network_rate,
            "seconds_per_frame": self.tally.seconds_per_frame,
            "relative_time": self.relative_time,
            "multiply_adds_per_frame": self.spent.multiply_adds_per_frame,
            "relative_multiply_adds": self.relative_multiply_adds,
            "joules_per_frame": self.spent.joules_per_frame,
        }


def evaluate_values(
    net: StagedNetwork,
    schedules: Schedules,
    clips: Iterable[Clip],
    *,
    baselines: Sequence[tuple[str, StagedNetwork]] = (),
    session: Callable[[StagedNetwork, Schedule], Session] = Session,
    progress: Callable[[Progress], None] | None = None,
    warn: Callable[[str], None] = warnings.warn,
) -> tuple[ValueEvaluation, ...]:
    """Each schedule's evaluation over all clips, in the order given; labels of the clips aren't looked at.

    ``baselines``, ``session``, ``progress`` and ``warn``: as of ``clockseg.evaluation.labels.evaluate``. ``UsageError`` where an
    output isn't an array of floats, or not of the uncut network's shape.

    >>> from clockseg.clockwork.network import Stage
    >>> net = StagedNetwork("one", (Stage("a", lambda image: image.mean(axis=2)),))
    >>> evaluate_values(net, {"every frame": frame_oracle}, [])[0].facts()["agreement"]["relative_error"] is None
    True
    """
    pairs = list(schedules.items()) if isinstance(schedules, Mapping) else list(schedules)
    prepared = [(name, schedule_for(schedule, len(net))) for name, schedule in pairs]
    for _, schedule in prepared:
        check(net, schedule)

    def fresh() -> list[tuple[str, Session]]:
        """Nothing is held over from another clip, and clocks start at t = 0."""
        whole = [(name, Session(other.uncut(), frame_oracle)) for name, other in baselines]
        return [(name, session(net, schedule)) for name, schedule in prepared] + whole

    totals: list[ValueEvaluation] = []
    for clip in clips:
        found = _clip(net, fresh(), clip, progress, warn)
        totals = [total + one for total, one in zip(totals, found, strict=True)] if totals else found
    return tuple(totals or (_blank(name, one) for name, one in fresh()))


def _clip(
    net: StagedNetwork,
    sessions: Sequence[tuple[str, Session]],
    clip: Clip,
    progress: Callable[[Progress], None] | None,
    warn: Callable[[str], None],
) -> list[ValueEvaluation]:
    runs = Interleaving(net, [one for _, one in sessions])
    found = [Deviation() for _ in sessions]
    expected = len(clip.taken) if clip.taken is not None else clip.limit
    frames = clip.frames(problem=lambda text: warn(f"{clip.path}: {text}"), vectors=runs.reads_vectors)
    for done, frame in enumerate(frames, start=1):
        truth, *outputs = (
            checked_numbers(output, one.net)
            for output, one in zip(runs(frame.image, vectors=frame.vectors), runs.sessions, strict=True)
        )
        for index, (name, _) in enumerate(sessions):
            if outputs[index].shape != truth.shape:
                raise UsageError(
                    f"{name} gives {list(outputs[index].shape)}, network {net.name!r} {list(truth.shape)}; "
                    "give baselines whose output is of the same shape."
                )
            found[index] += deviation(outputs[index], truth)
        if progress is not None:
            progress(Progress(clip.name, done, expected, runs.tallies[-len(sessions)]))
    return [
        replace(
            _blank(name, one),
            agreement=found[index],
            tally=runs.tallies[index + 1],
            uncut=runs.tallies[0],
            spent=runs.spent[index + 1],
            uncut_spent=runs.spent[0],
        )
        for index, (name, one) in enumerate(sessions)
    ]


def _blank(name: str, session: Session) -> ValueEvaluation:
    stages = Tally(tuple(stage.name for stage in session.net.stages))
    return ValueEvaluation(name, str(session.schedule.carry), stages, Tally(("whole",)))


def checked_numbers(output: Any, net: StagedNetwork) -> Array:
    """The output of ``net``, if it is an array of floats; else ``UsageError``.

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
