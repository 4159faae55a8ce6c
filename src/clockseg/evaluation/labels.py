"""How good and how fast schedules are: against human labels, against the uncut network, and in time.

The uncut network and every schedule see each frame before any of them sees the next, so that they share whatever else
the machine does meanwhile.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Named, Schedule, frame_oracle, schedule_for
from clockseg.clockwork.session import Session
from clockseg.clockwork.trace import Progress, Tally
from clockseg.clockwork.watching import check
from clockseg.datasets.clips import Clip, ClipFrame
from clockseg.errors import UsageError
from clockseg.evaluation.flicker import Flickers, flicker_facts
from clockseg.evaluation.interleaving import Interleaving
from clockseg.evaluation.metrics import Confusion, band_kind, boundary_band, confusion, finite
from clockseg.evaluation.reaction import Reaction, Reactions
from clockseg.evaluation.scored_classes import checked_labels, class_names, scored_classes
from clockseg.evaluation.spent import Spent
from clockseg.types import Labels

Schedules: TypeAlias = Mapping[str, Schedule | Named] | Sequence[tuple[str, Schedule | Named]]
"""Schedules by what they are called; pairs where a name may come twice."""
Baselines: TypeAlias = Sequence[tuple[str, StagedNetwork] | tuple[str, StagedNetwork, Schedule | Named]]
"""Other networks by what they are called: whole on every frame, or under a schedule."""


@dataclass(frozen=True)
class Evaluation:
    """What one schedule gave on some clips; addable. Scores are 0..1, NaN or None where there is nothing to score.

    ``scores``: against human labels, on labelled frames; ``boundary``: the same near boundaries, None if not asked for;
    ``agreement``: against the uncut network's labels, on all frames; ``oracle``: the uncut network's own ``scores``.
    ``tally`` and ``uncut``: who fired, and the seconds of the schedule and of the uncut network on the same frames.
    ``spent`` and ``uncut_spent``: their multiply-adds and joules. ``flickers`` and ``uncut_flickers``: their labels against
    those of the frame before, moved along with the picture (``clockseg.evaluation.flicker``).
    ``reaction``: how late it shows what appears or vanishes in the uncut network's labels (``clockseg.evaluation.reaction``).
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
            reaction=self.reaction + other.reaction,
            spent=self.spent + other.spent,
            uncut_spent=self.uncut_spent + other.uncut_spent,
            flickers=self.flickers + other.flickers,
            uncut_flickers=self.uncut_flickers + other.uncut_flickers,
        )

    @property
    def relative_time(self) -> float | None:
        """The schedule's seconds over the uncut network's, both without each clip's first frame; None if there are none."""
        return self.tally.seconds / self.uncut.seconds if self.uncut.seconds else None

    @property
    def relative_multiply_adds(self) -> float | None:
        """As ``relative_time``, of multiply-adds; None where a part isn't a graph."""
        return self.spent.relative_multiply_adds(self.uncut_spent)

    @property
    def kept(self) -> float | None:
        """The share of the uncut network's mean IU that is left; None without labels."""
        share = self.scores.mean_iu / self.oracle.mean_iu if self.oracle.mean_iu else math.nan
        return finite(share)

    def facts(self) -> dict[str, Any]:
        """What ``clockseg evaluate --json`` prints of a schedule: plain values, None where there is nothing to score."""
        iu = {name: finite(value) for name, value in zip(self.classes, self.scores.iu.tolist(), strict=True)}
        return {
            "schedule": self.schedule,
            "carry": self.carry,
            "mean_iu": finite(self.scores.mean_iu),
            "fw_iu": finite(self.scores.fw_iu),
            "pixel_acc": finite(self.scores.pixel_acc),
            "mean_acc": finite(self.scores.mean_acc),
            "iu": iu,
            "boundary": self._boundary_facts(),
            "agreement": {
                "mean_iu": finite(self.agreement.mean_iu_of()),
                "fw_iu": finite(self.agreement.fw_iu),
                "pixel_acc": finite(self.agreement.pixel_acc),
            },
            "flicker": flicker_facts(self.flickers),
            "uncut_flicker": flicker_facts(self.uncut_flickers),
            "reaction_lag": self.reaction.facts(),
            "fire_rate": self.tally.fire_rate,
            "network_rate": self.tally.network_rate,
            "seconds_per_frame": self.tally.seconds_per_frame,
            "relative_time": self.relative_time,
            "multiply_adds_per_frame": self.spent.multiply_adds_per_frame,
            "relative_multiply_adds": self.relative_multiply_adds,
            "joules_per_frame": self.spent.joules_per_frame,
        }

    def _boundary_facts(self) -> dict[str, float | None] | None:
        if self.boundary is None or not self.boundary.pixels:
            return None
        return {"mean_iu": finite(self.boundary.mean_iu), "fw_iu": finite(self.boundary.fw_iu)}


def evaluate(
    net: StagedNetwork,
    schedules: Schedules,
    clips: Iterable[Clip],
    *,
    classes: Sequence[str] | None = None,
    baselines: Baselines = (),
    session: Callable[[StagedNetwork, Schedule], Session] = Session,
    boundary: bool = True,
    progress: Callable[[Progress], None] | None = None,
    warn: Callable[[str], None] = warnings.warn,
) -> tuple[Evaluation, ...]:
    """Each schedule's evaluation over all clips, in the order given.

    ``classes``: the network's class names in the order of its ids (default: its sidecar's); clips with labels must have
    the same, else ``DataError``. Where a data set lets a network know more classes (``Classes.others``), every output,
    the uncut network's too, is mapped to the data set's ids before it is counted: scores and agreement are in these
    classes. ``baselines``: other networks of the same classes, told after the schedules: each runs whole on every frame, or
    under the schedule beside it. ``session`` makes what runs a schedule (pipelines at once: ``clockseg.execution.pipeline.running``).
    ``warn`` is told what of a video could not be decoded. A clip that can't be read raises; to go on with the others,
    evaluate clip by clip and add.

    >>> from clockseg.clockwork.network import Stage
    >>> net = StagedNetwork("one", (Stage("a", lambda image: image[..., 0] // 128),))
    >>> evaluate(net, {"every frame": frame_oracle}, [], classes=["dark", "light"])[0].facts()["mean_iu"] is None
    True
    """
    pairs = list(schedules.items()) if isinstance(schedules, Mapping) else list(schedules)
    prepared = [(name, net, schedule_for(schedule, len(net))) for name, schedule in pairs] + _beside(baselines)
    for _, each, schedule in prepared:
        check(each, schedule)
    names = class_names(net, classes, [(name, each) for name, each, _ in prepared[len(pairs) :]])

    def fresh() -> list[tuple[str, Session]]:
        """Nothing is held over from another clip, and clocks start at t = 0."""
        first = [(name, session(each, schedule)) for name, each, schedule in prepared[: len(pairs)]]
        return first + [(name, Session(each, schedule)) for name, each, schedule in prepared[len(pairs) :]]

    totals: list[Evaluation] = []
    for clip in clips:
        scored, lookup = scored_classes(clip, names, net)
        sessions = fresh()
        blank = [_nothing(name, one, scored, boundary) for name, one in sessions]
        found = _Run(net, [one for _, one in sessions], blank, clip, lookup).evaluate(progress, warn)
        totals = [total + one for total, one in zip(totals, found, strict=True)] if totals else found
    return tuple(totals or (_nothing(name, one, names, boundary) for name, one in fresh()))


def _beside(baselines: Baselines) -> list[tuple[str, StagedNetwork, Schedule]]:
    """Each baseline as it runs."""
    found = []
    for name, net, *schedule in baselines:
        each = net if schedule else net.uncut()
        found.append((name, each, schedule_for(schedule[0] if schedule else frame_oracle, len(each))))
    return found


class _Run:
    """One clip: the uncut network and all sessions, frame by frame."""

    def __init__(
        self,
        net: StagedNetwork,
        sessions: list[Session],
        blank: list[Evaluation],
        clip: Clip,
        lookup: Labels | None,
    ) -> None:
        self.clip = clip
        self.lookup = lookup
        self.blank = blank
        self.runs = Interleaving(net, sessions)
        self.reactions = Reactions(len(blank))
        self.flickers = Flickers(1 + len(blank), len(blank[0].classes) if blank else 0)
        sums = [one.scores for one in blank]
        self.agreement, self.scores, self.boundary, self.oracle = list(sums), list(sums), list(sums), sums[:1]

    def evaluate(self, progress: Callable[[Progress], None] | None, warn: Callable[[str], None]) -> list[Evaluation]:
        expected = len(self.clip.taken) if self.clip.taken is not None else self.clip.limit
        # Decoding waits for the networks and they for it: a thread that decodes ahead would take time from what is timed.
        vectors = self.runs.reads_vectors
        frames = self.clip.frames(problem=lambda text: warn(f"{self.clip.path}: {text}"), vectors=vectors)
        for done, frame in enumerate(frames):
            self._score(frame, self._outputs(frame))
            if progress is not None:
                progress(Progress(self.clip.name, done + 1, expected, self.runs.tallies[-len(self.blank)]))
        return [self._evaluation(index, reaction) for index, reaction in enumerate(self.reactions.end())]

    def _outputs(self, frame: ClipFrame) -> list[Labels]:
        """The labels of the uncut network and of every schedule, in that order."""
        pairs = zip(self.runs(frame.image, vectors=frame.vectors), self.runs.sessions, strict=True)
        found = [checked_labels(out, frame, one.net) for out, one in pairs]
        return found if self.lookup is None else [self.lookup[labels] for labels in found]

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
        self.reactions.see(outputs[0], outputs[1:])
        self.flickers.see(frame.image, outputs if self.blank else [])

    def _band(self, frame: ClipFrame) -> Any:
        classes = self.clip.classes
        if frame.labels is None or classes is None or all(one.boundary is None for one in self.blank):
            return None
        return boundary_band(frame.labels, kind=band_kind(classes.names), ignore=classes.ignore)

    def _evaluation(self, index: int, reaction: Reaction) -> Evaluation:
        blank = self.blank[index]
        return replace(
            blank,
            scores=self.scores[index],
            agreement=self.agreement[index],
            oracle=self.oracle[0],
            boundary=None if blank.boundary is None else self.boundary[index],
            tally=self.runs.tallies[index + 1],
            uncut=self.runs.tallies[0],
            reaction=reaction,
            spent=self.runs.spent[index + 1],
            uncut_spent=self.runs.spent[0],
            flickers=self.flickers.counted[index + 1],
            uncut_flickers=self.flickers.counted[0],
        )


def _nothing(name: str, session: Session, classes: tuple[str, ...], boundary: bool) -> Evaluation:
    none = Confusion.none(len(classes))
    stages = Tally(tuple(stage.name for stage in session.net.stages))
    carry, near = str(session.schedule.carry), none if boundary else None
    uncut = Tally(("whole",))
    return Evaluation(name, carry, classes, none, near, none, none, stages, uncut, flickers=none, uncut_flickers=none)
