"""How good and how fast schedules are: against human labels, against the uncut network, and in time.

The uncut network and every schedule see each frame before any of them sees the next, so that they share whatever else
the machine does meanwhile.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from clockseg._errors import DataError, UsageError
from clockseg._types import Labels
from clockseg._watching import check
from clockseg.datasets.clips import Clip, ClipFrame
from clockseg.metrics import Confusion, band_kind, boundary_band, confusion
from clockseg.schedule import Named, Schedule, frame_oracle, schedule_for
from clockseg.session import Session
from clockseg.stages import StagedNetwork
from clockseg.trace import Progress, Tally

Schedules: TypeAlias = Mapping[str, Schedule | Named] | Sequence[tuple[str, Schedule | Named]]
"""Schedules by what they are called; pairs where a name may come twice."""


@dataclass(frozen=True)
class Evaluation:
    """What one schedule gave on some clips; addable. Scores are 0..1, NaN or None where there is nothing to score.

    ``scores``: against human labels, on labelled frames; ``boundary``: the same near boundaries, None if not asked for;
    ``agreement``: against the uncut network's labels, on all frames; ``oracle``: the uncut network's own ``scores``.
    ``tally`` and ``uncut``: who fired, and the seconds of the schedule and of the uncut network on the same frames.
    """

    schedule: str
    carry: str
    classes: tuple[str, ...]
    scores: Confusion
    boundary: Confusion | None
    agreement: Confusion
    oracle: Confusion
    tally: Tally
    uncut: Tally

    def __add__(self, other: Evaluation) -> Evaluation:
        if not isinstance(other, Evaluation):
            return NotImplemented
        mine, theirs = (self.schedule, self.carry, self.classes), (other.schedule, other.carry, other.classes)
        if mine != theirs or (self.boundary is None) != (other.boundary is None):
            raise UsageError(f"evaluations of {mine} and {theirs} can't be added: give the same schedule and classes.")
        boundary = None if self.boundary is None or other.boundary is None else self.boundary + other.boundary
        return replace(
            self,
            scores=self.scores + other.scores,
            boundary=boundary,
            agreement=self.agreement + other.agreement,
            oracle=self.oracle + other.oracle,
            tally=self.tally + other.tally,
            uncut=self.uncut + other.uncut,
        )

    @property
    def relative_time(self) -> float | None:
        """The schedule's seconds over the uncut network's, both without each clip's first frame; None if there are none."""
        return self.tally.seconds / self.uncut.seconds if self.uncut.seconds else None

    @property
    def kept(self) -> float | None:
        """The share of the uncut network's mean IU that is left; None without labels."""
        share = self.scores.mean_iu / self.oracle.mean_iu if self.oracle.mean_iu else math.nan
        return _finite(share)

    def facts(self) -> dict[str, Any]:
        """What ``clockseg evaluate --json`` prints of a schedule: plain values, None where there is nothing to score."""
        iu = {name: _finite(value) for name, value in zip(self.classes, self.scores.iu.tolist(), strict=True)}
        return {
            "schedule": self.schedule,
            "carry": self.carry,
            "mean_iu": _finite(self.scores.mean_iu),
            "fw_iu": _finite(self.scores.fw_iu),
            "pixel_acc": _finite(self.scores.pixel_acc),
            "iu": iu,
            "boundary": self._boundary_facts(),
            "agreement": {
                "mean_iu": _finite(self.agreement.mean_iu_of()),
                "fw_iu": _finite(self.agreement.fw_iu),
                "pixel_acc": _finite(self.agreement.pixel_acc),
            },
            "fire_rate": self.tally.fire_rate,
            "network_rate": self.tally.network_rate,
            "seconds_per_frame": self.tally.seconds_per_frame,
            "relative_time": self.relative_time,
        }

    def _boundary_facts(self) -> dict[str, float | None] | None:
        if self.boundary is None or not self.boundary.pixels:
            return None
        return {"mean_iu": _finite(self.boundary.mean_iu), "fw_iu": _finite(self.boundary.fw_iu)}


def evaluate(
    net: StagedNetwork,
    schedules: Schedules,
    clips: Iterable[Clip],
    *,
    classes: Sequence[str] | None = None,
    boundary: bool = True,
    progress: Callable[[Progress], None] | None = None,
    warn: Callable[[str], None] = warnings.warn,
) -> tuple[Evaluation, ...]:
    """Each schedule's evaluation over all clips, in the order given.

    ``classes``: the network's class names in the order of its ids (default: its sidecar's); clips with labels must have
    the same, else ``DataError``. ``warn`` is told what of a video could not be decoded. A clip that can't be read raises;
    to go on with the others, evaluate clip by clip and add.

    >>> from clockseg.stages import Stage
    >>> net = StagedNetwork("one", (Stage("a", lambda image: image[..., 0] // 128),))
    >>> evaluate(net, {"every frame": frame_oracle}, [], classes=["dark", "light"])[0].facts()["mean_iu"] is None
    True
    """
    pairs = list(schedules.items()) if isinstance(schedules, Mapping) else list(schedules)
    prepared = [(name, schedule_for(schedule, len(net))) for name, schedule in pairs]
    for _, schedule in prepared:
        check(net, schedule)
    names = _class_names(net, classes)
    blank = [_nothing(net, name, schedule, names, boundary) for name, schedule in prepared]
    totals = blank
    for clip in clips:
        _check_classes(clip, names, net)
        found = _Run(net, prepared, blank, clip).evaluate(progress, warn)
        totals = [total + one for total, one in zip(totals, found, strict=True)]
    return tuple(totals)


class _Run:
    """One clip: the uncut network and all schedules, frame by frame."""

    def __init__(
        self, net: StagedNetwork, schedules: list[tuple[str, Schedule]], blank: list[Evaluation], clip: Clip
    ) -> None:
        self.clip = clip
        self.blank = blank
        # Fresh sessions: nothing is held over from another clip, and clocks start at t = 0.
        self.sessions = [Session(net.uncut(), frame_oracle), *(Session(net, schedule) for _, schedule in schedules)]
        self.tallies = [Tally(tuple(stage.name for stage in session.net.stages)) for session in self.sessions]
        sums = [one.scores for one in blank]
        self.agreement, self.scores, self.boundary, self.oracle = list(sums), list(sums), list(sums), sums[:1]

    def evaluate(self, progress: Callable[[Progress], None] | None, warn: Callable[[str], None]) -> list[Evaluation]:
        expected = len(self.clip.taken) if self.clip.taken is not None else self.clip.limit
        # Decoding waits for the networks and they for it: a thread that decodes ahead would take time from what is timed.
        for done, frame in enumerate(self.clip.frames(problem=lambda text: warn(f"{self.clip.path}: {text}"))):
            self._score(frame, self._outputs(frame, done))
            if progress is not None:
                progress(Progress(self.clip.name, done + 1, expected, self.tallies[-len(self.blank)]))
        return [self._evaluation(index) for index in range(len(self.blank))]

    def _outputs(self, frame: ClipFrame, done: int) -> list[Labels]:
        """The labels of the uncut network and of every schedule, in that order."""
        outputs: list[Any] = [None] * len(self.sessions)
        order = list(range(len(self.sessions)))
        # Who runs after whom matters to caches. A shuffle, not a rotation: that would fall in step with fixed periods.
        random.Random(done).shuffle(order)
        self._compile(frame)
        for index in order:
            outputs[index] = self.sessions[index](frame.image)
            self.tallies[index] = self.tallies[index].add(self.sessions[index].record, first=done == 0)
        return [_labels(output, frame, self.sessions[0].net) for output in outputs]

    def _compile(self, frame: ClipFrame) -> None:
        """Frames of another size than before: engines compile for it now, and not in what is timed."""
        memory = self.sessions[0].memory
        if memory is None or memory.shape != frame.image.shape:
            for session in (self.sessions[0], self.sessions[-1]):
                session.net(frame.image)

    def _score(self, frame: ClipFrame, outputs: list[Labels]) -> None:
        band = self._band(frame)
        if frame.labels is not None and self.blank:
            self.oracle[0] += confusion(frame.labels, outputs[0], len(self.oracle[0]))
        for index, one in enumerate(self.blank):
            count, labels = len(one.classes), outputs[index + 1]
            self.agreement[index] += confusion(outputs[0], labels, count)
            if frame.labels is not None:
                self.scores[index] += confusion(frame.labels, labels, count)
            if band is not None and frame.labels is not None:
                self.boundary[index] += confusion(frame.labels, labels, count, where=band)

    def _band(self, frame: ClipFrame) -> Any:
        classes = self.clip.classes
        if frame.labels is None or classes is None or all(one.boundary is None for one in self.blank):
            return None
        return boundary_band(frame.labels, kind=band_kind(classes.names), ignore=classes.ignore)

    def _evaluation(self, index: int) -> Evaluation:
        blank = self.blank[index]
        return replace(
            blank,
            scores=self.scores[index],
            agreement=self.agreement[index],
            oracle=self.oracle[0],
            boundary=None if blank.boundary is None else self.boundary[index],
            tally=self.tallies[index + 1],
            uncut=self.tallies[0],
        )


def _nothing(net: StagedNetwork, name: str, schedule: Schedule, classes: tuple[str, ...], boundary: bool) -> Evaluation:
    none = Confusion.none(len(classes))
    uncut = Tally(tuple(stage.name for stage in net.uncut().stages))
    return Evaluation(
        name,
        str(schedule.carry),
        classes,
        none,
        none if boundary else None,
        none,
        none,
        Tally(tuple(stage.name for stage in net.stages)),
        uncut,
    )


def _class_names(net: StagedNetwork, classes: Sequence[str] | None) -> tuple[str, ...]:
    if classes is None and net.sidecar is not None:
        classes = net.sidecar.classes
    if not classes:
        raise UsageError(
            f"network {net.name!r} does not say what its classes are; give classes=[name, ..] in their order."
        )
    return tuple(classes)


def _check_classes(clip: Clip, names: tuple[str, ...], net: StagedNetwork) -> None:
    if clip.classes is None or clip.classes.names == names or not clip.labelled:
        return
    raise DataError(
        f"{clip.path} has {len(clip.classes.names)} classes ({', '.join(clip.classes.names)}), network {net.name!r} has "
        f"{len(names)} ({', '.join(names)}); scores need the same names in the same order. Without its labels folder "
        "the clip is evaluated for agreement alone."
    )


def _labels(output: Any, frame: ClipFrame, net: StagedNetwork) -> Labels:
    labels = np.asarray(output)
    if labels.dtype.kind not in "ui" or labels.shape != frame.image.shape[:2]:
        raise UsageError(
            f"network {net.name!r} gives {labels.dtype} {list(labels.shape)} for a frame of {list(frame.image.shape)}; "
            "evaluation compares label maps: class ids [h, w] of the frame's size."
        )
    return labels


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
