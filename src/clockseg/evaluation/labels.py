"""Evaluation of schedules whose network gives label maps: against human labels, and against the uncut network."""

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
from clockseg.evaluation.flicker import Flickers, flicker_facts
from clockseg.evaluation.metrics import Confusion, band_kind, boundary_band, confusion, finite
from clockseg.evaluation.reaction import Reaction, Reactions
from clockseg.evaluation.runs import Baselines, Compared, Schedules, Spent, added, evaluate_clips
from clockseg.showing.stream import Stream
from clockseg.types import Array, Labels


@dataclass(frozen=True)
class Evaluation(Compared):
    """Scores and costs of one schedule; addable. Scores are 0..1, NaN or None where there is nothing to score.

    ``scores``: against human labels, on labelled frames; ``boundary``: the same near boundaries, None if not asked for;
    ``agreement``: against the uncut network's labels, on all frames; ``oracle``: the uncut network's own ``scores``.
    ``flickers`` and ``uncut_flickers``: labels against those of the frame before, warped to this one
    (``clockseg.evaluation.flicker``). ``reaction``: how late the schedule shows what appears or vanishes in the uncut
    network's labels (``clockseg.evaluation.reaction``).
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
    reaction: Reaction = field(default_factory=Reaction)
    spent: Spent = field(default_factory=Spent)
    uncut_spent: Spent = field(default_factory=Spent)
    flickers: Confusion = field(default_factory=lambda: Confusion.none(0))
    uncut_flickers: Confusion = field(default_factory=lambda: Confusion.none(0))

    def __add__(self, other: Evaluation) -> Evaluation:
        found: Evaluation = added(self, other, same=("schedule", "carry", "classes"))
        return found

    @property
    def kept(self) -> float | None:
        """Share of the uncut network's mIoU that the schedule keeps; None without labels."""
        return finite(self.scores.mean_iu / self.oracle.mean_iu if self.oracle.mean_iu else math.nan)

    def facts(self) -> dict[str, Any]:
        """Return what ``clockseg evaluate --json`` prints: plain values, None where there is nothing to score."""
        boundary = self.boundary if self.boundary is not None and self.boundary.pixels else None
        return {
            "schedule": self.schedule,
            "carry": self.carry,
            "mean_iu": finite(self.scores.mean_iu),
            "fw_iu": finite(self.scores.fw_iu),
            "pixel_acc": finite(self.scores.pixel_acc),
            "mean_acc": finite(self.scores.mean_acc),
            "iu": {name: finite(value) for name, value in zip(self.classes, self.scores.iu.tolist(), strict=True)},
            "boundary": boundary and {"mean_iu": finite(boundary.mean_iu), "fw_iu": finite(boundary.fw_iu)},
            "agreement": {
                "mean_iu": finite(self.agreement.mean_iu_of()),
                "fw_iu": finite(self.agreement.fw_iu),
                "pixel_acc": finite(self.agreement.pixel_acc),
            },
            "flicker": flicker_facts(self.flickers),
            "uncut_flicker": flicker_facts(self.uncut_flickers),
            "reaction_lag": self.reaction.facts(),
            **self.cost_facts(),
        }


def evaluate(
    net: StagedNetwork,
    schedules: Schedules,
    clips: Iterable[Clip],
    *,
    classes: Sequence[str] | None = None,
    baselines: Baselines = (),
    boundary: bool = True,
    progress: Callable[[Progress], None] | None = None,
    warn: Callable[[str], None] = warnings.warn,
) -> tuple[Evaluation, ...]:
    """Evaluate each schedule over all clips and return one ``Evaluation`` each, in the order given.

    ``classes``: the network's class names in the order of its ids (default: its sidecar's). Clips with labels must have
    the same classes, else ``DataError``; where a data set lets a network know more of them (``Classes.others``), every
    output is mapped to the data set's ids before it is counted. ``baselines``: other networks of the same classes, reported
    after the schedules. ``warn`` receives a sentence for what could not be decoded
    of a video. A clip that can't be read raises; to continue with others, evaluate clip by clip and add.

    >>> from clockseg.clockwork.network import Stage
    >>> from clockseg.clockwork.schedule import frame_oracle
    >>> net = StagedNetwork("one", (Stage("a", lambda image: image[..., 0] // 128),))
    >>> evaluate(net, {"every frame": frame_oracle}, [], classes=["dark", "light"])[0].facts()["mean_iu"] is None
    True
    """
    names = class_names(net, classes, [(name, other) for name, other, *_ in baselines])

    def scorer(clip: Clip | None, sessions: Sequence[tuple[str, Stream]]) -> _LabelScorer:
        scored, lookup = (names, None) if clip is None else scored_classes(clip, names, net)
        return _LabelScorer([_blank(name, one, scored, boundary) for name, one in sessions], clip, lookup)

    return evaluate_clips(net, schedules, clips, baselines=baselines, scorer=scorer, progress=progress, warn=warn)


class _LabelScorer:
    """Counts the label maps of one clip; starts from ``blank`` evaluations."""

    def __init__(self, blank: Sequence[Evaluation], clip: Clip | None, lookup: Labels | None) -> None:
        self._blank, self._clip, self._lookup = blank, clip, lookup
        self._reactions = Reactions(len(blank))
        self._flickers = Flickers(1 + len(blank), len(blank[0].classes) if blank else 0)
        sums = [one.scores for one in blank]
        self._agreement, self._scores, self._boundary, self._oracle = list(sums), list(sums), list(sums), sums[:1]

    def see(self, frame: ClipFrame, outputs: Sequence[tuple[Any, StagedNetwork]]) -> None:
        found = [checked_labels(output, frame, net) for output, net in outputs]
        labels = found if self._lookup is None else [self._lookup[each] for each in found]
        band = self._band(frame)
        if frame.labels is not None and self._blank:
            self._oracle[0] += confusion(frame.labels, labels[0], len(self._oracle[0]))
        for index, one in enumerate(self._blank):
            count, shown = len(one.classes), labels[index + 1]
            self._agreement[index] += confusion(labels[0], shown, count)
            if frame.labels is not None:
                self._scores[index] += confusion(frame.labels, shown, count)
            if band is not None and frame.labels is not None:
                self._boundary[index] += confusion(frame.labels, shown, count, where=band)
        self._reactions.see(labels[0], labels[1:])
        self._flickers.see(frame.image, labels if self._blank else [])

    def _band(self, frame: ClipFrame) -> Array | None:
        classes = None if self._clip is None else self._clip.classes
        if frame.labels is None or classes is None or all(one.boundary is None for one in self._blank):
            return None
        return boundary_band(frame.labels, kind=band_kind(classes.names), ignore=classes.ignore)

    def results(self) -> list[Evaluation]:
        return [
            replace(
                blank,
                scores=self._scores[index],
                agreement=self._agreement[index],
                oracle=self._oracle[0],
                boundary=None if blank.boundary is None else self._boundary[index],
                reaction=reaction,
                flickers=self._flickers.counted[index + 1],
                uncut_flickers=self._flickers.counted[0],
            )
            for index, (blank, reaction) in enumerate(zip(self._blank, self._reactions.end(), strict=True))
        ]


def _blank(name: str, session: Stream, classes: tuple[str, ...], boundary: bool) -> Evaluation:
    none = Confusion.none(len(classes))
    tally, uncut = Tally(tuple(stage.name for stage in session.net.stages)), Tally(("whole",))
    near = none if boundary else None
    carry = str(session.schedule.carry)
    return Evaluation(name, carry, classes, none, near, none, none, tally, uncut, flickers=none, uncut_flickers=none)


def class_names(
    net: StagedNetwork, classes: Sequence[str] | None = None, baselines: Sequence[tuple[str, StagedNetwork]] = ()
) -> tuple[str, ...]:
    """Return ``classes``, or else the class names in the sidecar of ``net``.

    ``UsageError`` if there are none, or if the sidecar of a baseline names other classes.
    """
    names = tuple(classes or (net.sidecar.classes if net.sidecar is not None else ()))
    if not names:
        raise UsageError(
            f"network {net.name!r} does not say what its classes are; give classes=[name, ..] in their order."
        )
    for name, other in baselines:
        if other.sidecar is not None and tuple(other.sidecar.classes) != names:
            raise UsageError(
                f"network {name} has the classes {', '.join(other.sidecar.classes) or '(none)'}, network {net.name!r} has "
                f"{', '.join(names)}; give networks of the same classes in the same order."
            )
    return names


def scored_classes(clip: Clip, names: tuple[str, ...], net: StagedNetwork) -> tuple[tuple[str, ...], Labels | None]:
    """Return the classes a clip is scored in, and the lookup table from the network's ids to them (None: the same ids)."""
    classes = clip.classes
    if classes is None or (classes.names == names and classes.renames is None):
        return names, None
    if not (clip.labelled or classes.others is not None or classes.renames is not None):
        return names, None
    try:
        return classes.names, classes.lookup(names)
    except DataError as error:
        raise DataError(
            f"{clip.path} has {len(classes.names)} classes ({', '.join(classes.names)}), network {net.name!r} has "
            f"{len(names)} ({', '.join(names)}); {error} To measure agreement only, give the folder of its pictures alone, such as CLIP/images."
        ) from None


def checked_labels(output: Any, frame: ClipFrame, net: StagedNetwork) -> Labels:
    """Return the output of ``net`` as an array if it is a label map of the frame's size; else ``UsageError``.

    >>> from clockseg.clockwork.network import Stage
    >>> net = StagedNetwork("one", (Stage("a", str.upper),))
    >>> checked_labels([[0, 1]], ClipFrame(0, np.zeros((1, 2, 3), np.uint8), None), net).tolist()
    [[0, 1]]
    """
    labels = np.asarray(output)
    if labels.dtype.kind not in "ui" or labels.shape != frame.image.shape[:2]:
        raise UsageError(
            f"network {net.name!r} gives {labels.dtype} {list(labels.shape)} for a frame of {list(frame.image.shape)}; "
            "evaluation compares label maps: class ids [h, w] of the frame's size."
        )
    return labels
