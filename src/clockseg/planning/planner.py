"""Finds the best way to run a network on a video without labels: one full pass, and many schedules replayed on it.

Every schedule is scored against the labels that the reference, the first network, gives on every frame, and timed by the
cost of its frames in sessions measured here. Blocks of the video alternately choose the plan and are held back to check it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, Literal, NamedTuple, TypeAlias

from clockseg.carry import Auto, Codec
from clockseg.clockwork.network import StagedNetwork
from clockseg.datasets.clips import Clip
from clockseg.errors import UsageError
from clockseg.evaluation.labels import class_names
from clockseg.planning.candidates import (
    CARRIES,
    ORACLE,
    SKIP,
    VECTORS,
    Candidate,
    Costs,
    Family,
    Kind,
    asked_for,
    clocks,
    measured,
    possible,
    schedule_of,
)
from clockseg.planning.schedule_file import ScheduleFile
from clockseg.planning.trial import Agreement, Taped, Trial, taped
from clockseg.planning.trial import Callbacks as Callbacks

FRAMES = 400
"""Default limit of frames, of all clips together."""
BYTES = 2_000_000_000
"""Default limit of all recordings together, on disk but for the first 64 MB of each; of large frames fewer fit."""
CLOSER = 4
"""Numbers tried between the two neighbouring numbers of a clock of which one meets the goal."""
BEST_CARRIES = 2
"""Number of carries per network that clocks are tried with."""
Measure: TypeAlias = Literal["pixel_acc", "mean_iu"]


@dataclass(frozen=True)
class Goal:
    """The agreement to ``keep`` (0..1) in the least time, or the most agreement in a ``time`` (1: the uncut reference's) or at
    so many frames per second (``fps``, the mean over frames).

    ``measure``: of agreement. The goal is checked on the blocks tuned on; ``keep`` with a margin of the agreement's standard
    error over these blocks, since the best of many schedules is a little lucky on them.
    """

    keep: float | None = None
    time: float | None = None
    fps: float | None = None
    measure: Measure = "pixel_acc"

    def __post_init__(self) -> None:
        if sum(one is not None for one in (self.keep, self.time, self.fps)) != 1:
            raise UsageError(f"keep={self.keep}, time={self.time}, fps={self.fps}; give one of them.")
        if self.keep is not None and not 0 < self.keep <= 1:
            raise UsageError(f"keep={self.keep!r}; give a share above 0 and at most 1, such as 0.99.")
        for name, one in (("time", self.time), ("fps", self.fps)):
            if one is not None and not 0 < one < math.inf:
                raise UsageError(f"{name}={one!r}; give a number above 0.")

    def settled(self, uncut_seconds: float) -> Goal:
        """Return the goal with ``fps`` as a ``time``, given the uncut reference's seconds per frame."""
        return self if self.fps is None else Goal(time=1 / (self.fps * uncut_seconds), measure=self.measure)

    def agreement(self, found: Agreement) -> float:
        """Return the agreement by this goal's measure."""
        return found.pixel_acc if self.measure == "pixel_acc" else found.mean_iu

    def promised(self, trial: Trial) -> float:
        """Return the agreement to promise: that on the blocks tuned on, minus its standard error."""
        return self.agreement(trial.tuned) - self.error(trial)

    def error(self, trial: Trial) -> float:
        """Return the standard error of the agreement over the blocks (jackknife); 0 for one block."""
        if len(trial.blocks) < 2:
            return 0.0
        left = [self.agreement(trial.tuned - one) for one in trial.blocks]
        mean = sum(left) / len(left)
        return math.sqrt((len(left) - 1) / len(left) * sum((one - mean) ** 2 for one in left))

    def met(self, trial: Trial) -> bool:
        """Return True if the trial meets the goal."""
        if self.keep is not None:
            return self.promised(trial) >= self.keep
        return self.time is not None and trial.relative_time <= self.time

    def rank(self, trial: Trial) -> tuple[bool, float]:
        """Return a key that sorts trials, the best first: those that meet the goal, then the others, the nearest first."""
        met = self.met(trial)
        return not met, trial.relative_time if met == (self.keep is not None) else -self.promised(trial)

    def best(self, trials: Iterable[Trial]) -> Trial:
        """Return the best trial that meets the goal; if none does, the one nearest to it."""
        return min(trials, key=self.rank)


def frontier(goal: Goal, trials: Iterable[Trial]) -> list[Trial]:
    """Return the trials that no faster one exceeds in promised agreement, the fastest first."""
    found: list[Trial] = []
    for trial in sorted(trials, key=lambda one: (one.relative_time, -goal.promised(one))):
        if not found or goal.promised(trial) > goal.promised(found[-1]):
            found.append(trial)
    return found


class Variant(NamedTuple):
    """A network as it may run; ``network``, ``size`` and ``precision`` as on the command line."""

    net: StagedNetwork
    network: str
    size: str | None = None
    precision: str = "f32"

    @property
    def name(self) -> str:
        """The network's name with its size and precision, if they differ from the defaults."""
        return " ".join(filter(None, (self.net.name, self.size, "" if self.precision == "f32" else self.precision)))


@dataclass(frozen=True, eq=False)
class Plan:
    """A plan: the ``chosen`` trial, the ``frontier``, fastest first, and all ``trials``.

    ``uncut_seconds``: per frame of the uncut reference, the first of ``variants``; all times are in multiples of it.
    ``frames``: how many were looked at. ``bytes``: of the recordings. ``also``: the best trial of each clock
    that the caller gave.
    """

    goal: Goal
    variants: tuple[Variant, ...]
    chosen: Trial
    frontier: tuple[Trial, ...]
    trials: tuple[Trial, ...]
    uncut_seconds: float
    frames: int
    bytes: int
    also: tuple[Trial, ...] = ()

    @property
    def variant(self) -> Variant:
        """The network that the plan runs."""
        return self.variants[self.chosen.variant]

    @property
    def met(self) -> bool:
        """True if the goal is met on the blocks that the plan was chosen by."""
        return self.goal.met(self.chosen)

    @property
    def promised(self) -> float:
        """The agreement that the plan promises, by the goal's measure: the lower one of the two halves of the video.

        Of the half that it was chosen on, the standard error is subtracted.
        """
        held_back = self.goal.agreement(self.chosen.held_back)
        return min(self.goal.promised(self.chosen), math.inf if math.isnan(held_back) else held_back)

    @property
    def kept(self) -> bool:
        """True if the promise, to which the blocks held back contribute, meets the goal."""
        return self.met if self.goal.keep is None else self.promised >= self.goal.keep

    def facts(self) -> dict[str, Any]:
        """Return what ``clockseg plan --json`` prints."""
        return {
            "goal": {"keep": self.goal.keep, "time": self.goal.time, "measure": self.goal.measure},
            "met": self.met,
            "kept": self.kept,
            "promised": self.promised,
            "reference": self.variants[0].name,
            "engine": self.variants[0].net.engine,
            "uncut_seconds": self.uncut_seconds,
            "frames": self.frames,
            "tape_bytes": self.bytes,
            "schedules": len(self.trials),
            "chosen": self._facts(self.chosen),
            "frontier": [self._facts(trial) for trial in self.frontier],
            "clocks": [self._facts(trial) for trial in self.also],
        }

    def _facts(self, trial: Trial) -> dict[str, Any]:
        variant = self.variants[trial.variant]
        return {
            "network": variant.network,
            "size": variant.size,
            "precision": variant.precision,
            "schedule": trial.candidate.text,
            "relative_time": trial.relative_time,
            "network_rate": trial.network_rate,
            "promised": self.goal.promised(trial),
            "tuned": trial.tuned.facts(),
            "held_back": trial.held_back.facts(),
        }

    def file(self, clips: Sequence[str], *, every: int = 1) -> ScheduleFile:
        """Return the schedule file of the plan; ``clips``: their paths, ``every``: the step between frames."""
        chosen, variant = self.chosen, self.variant
        run = {"network": variant.network, "precision": variant.precision}
        run |= {} if variant.size is None else {"size": variant.size}
        tuned = {
            "clips": list(clips),
            "frames": self.frames,
            "every": every,
            "engine": variant.net.engine,
            "reference": self.variants[0].name,
            "measure": self.goal.measure,
            "promised": self.promised,
            "held_back": self.goal.agreement(chosen.held_back),
            "relative_time": chosen.relative_time,
        }
        stages = variant.net.names
        return ScheduleFile(chosen.candidate.text, variant.net.name, stages, tuned, run)


class Search:
    """The trials so far of all variants, and the measured costs of schedules."""

    def __init__(self, goal: Goal, taped: Taped) -> None:
        self.goal, self._taped = goal, taped
        self._nets = [recording.net for recording in taped.recordings]
        self.trials: list[Trial] = []
        self.costs = Costs(math.nan, {})

    def start(self, carries: Sequence[str]) -> None:
        """Try every frame, and every n-th frame under each carry."""
        families = [(ORACLE, "identity"), *((SKIP, carry) for carry in carries)]
        variants = range(len(self._nets))
        self._try([(variant, *family) for variant in variants for family in families], always=(ORACLE, SKIP))

    def go_on(self, kinds: Sequence[Kind], also: Sequence[Kind] = ()) -> None:
        """Try clocks under the carries that did best so far: ``kinds`` where they can win, and all of ``also``."""
        asked = []
        for variant, net in enumerate(self._nets):
            skipping = [one for one in self.trials if one.variant == variant and one.candidate.kind == SKIP]
            # Those first under which skip-frame comes nearest to the goal.
            carries = list(dict.fromkeys(one.candidate.carry for one in sorted(skipping, key=self.goal.rank)))
            asked += [(variant, kind, carry) for kind in kinds for carry in carries[:BEST_CARRIES]]
            # Not every clock can be replayed under every carry.
            for kind in also:
                first = kind.numbers[0]
                able = possible(net, [Candidate(kind, first, carry) for carry in carries])
                asked += [(variant, kind, one.carry) for one in able[:BEST_CARRIES]]
        self._try(asked, always=also)

    def _try(self, asked: Iterable[tuple[int, Kind, str]], *, always: Collection[Kind]) -> None:
        """Measure and try the candidates that can win; those of the kinds ``always`` in any case."""
        ladders: list[tuple[int, list[Candidate]]] = []
        for variant, kind, carry in asked:
            found = possible(self._nets[variant], [Candidate(kind, number, carry) for number in kind.numbers])
            ladders += [(variant, found)] if found else []
        nets = {}
        for variant, (first, *_) in ladders:
            net = self._nets[variant]
            nets[first.family(variant)] = net, schedule_of(net, first)
        # All families and the reference run on each sample before the next.
        self.costs = self.costs.plus(measured(self._nets[0], nets, self._taped.samples))
        self.goal = self.goal.settled(self.costs.uncut)
        for variant, candidates in ladders:
            if candidates[0].kind in always or self._may_win(candidates[0].family(variant)):
                self._climb(variant, candidates)

    def _may_win(self, family: Family) -> bool:
        """Return True if the candidate could beat the best so far even if no stage ever fired."""
        least = min(self.costs.seconds[family].values()) / self.costs.uncut
        if self.goal.time is not None:
            return least <= self.goal.time
        return not self.trials or least < self.goal.best(self.trials).relative_time

    def _climb(self, variant: int, candidates: Sequence[Candidate]) -> None:
        """Try all candidates, then numbers between two neighbours of which one meets the goal and the other does not."""
        trials = [self._taped.tried(variant, candidate, self.costs) for candidate in candidates]
        for _ in range(CLOSER):
            trials.sort(key=lambda trial: trial.candidate.number)
            number = self._between(trials)
            if number is None:
                break
            closer = trials[0].candidate._replace(number=number)
            trials.append(self._taped.tried(variant, closer, self.costs))
        self.trials += trials

    def _between(self, trials: Sequence[Trial]) -> float | None:
        for left, right in pairwise(trials):
            if self.goal.met(left) != self.goal.met(right):
                low, high = left.candidate.number, right.candidate.number
                middle = (low + high) // 2 if left.candidate.kind.steps else float(f"{math.sqrt(low * high):.3g}")
                return middle if low < middle < high else None
        return None


def plan(
    variants: Sequence[Variant],
    clips: Sequence[Clip],
    goal: Goal,
    *,
    classes: Sequence[str] | None = None,
    also: Sequence[str] = (),
    limit: int = FRAMES,
    most_bytes: int = BYTES,
    callbacks: Callbacks = Callbacks(),  # noqa: B008 - frozen
) -> Plan:
    """Find the best schedule, and the best of ``variants`` to run with it, for video like ``clips``.

    ``variants``: the first is the reference, whose labels are the truth and whose uncut time is 1; the others must have the
    same classes (``classes``: their names; default: those of the reference's sidecar). ``also``: more clocks to try in any case, as
    text, with ``{}`` in place of the threshold, or without as one schedule. ``limit``: the largest number of frames; ``most_bytes``: see ``BYTES``.
    ``UsageError`` for networks that output no label maps or have other classes, ``DataError`` if the clips have too few frames.

    >>> plan([], [], Goal(keep=0.99))
    Traceback (most recent call last):
        ...
    clockseg.errors.UsageError: nothing to plan; give at least one network and one clip.
    """
    if not variants or not clips:
        raise UsageError("nothing to plan; give at least one network and one clip.")
    nets = [variant.net for variant in variants]
    names = class_names(nets[0], classes, [(variant.name, variant.net) for variant in variants[1:]])
    # Where frames refer to later ones, flow is better than what the codec says.
    first = islice(clips[0].frames(vectors=True), 1)
    vectors = any(isinstance(Auto().choice(frame.vectors), Codec) for frame in first)
    carries = [*CARRIES, *(VECTORS if vectors else ())]
    kinds = [asked_for(text) for text in dict.fromkeys(also)]
    # One candidate of each family that may be tried: they decide what the recordings must hold.
    every = []
    for net in nets:
        families = [(kind, carry) for kind in (ORACLE, SKIP, *clocks(len(net)), *kinds) for carry in carries]
        every.append(possible(net, [Candidate(kind, kind.numbers[0], carry) for kind, carry in families]))
    for kind in kinds:
        if not any(one.kind == kind for each in every for one in each):
            # Raises the reason, under a carry that moves.
            schedule_of(nets[0], Candidate(kind, kind.numbers[0], carries[-1]))
    found = taped(
        nets, every, clips, len(names), most=limit, most_bytes=most_bytes, vectors=vectors, callbacks=callbacks
    )
    search = Search(goal, found)
    callbacks.step(f"{len(found.slots)} frames recorded, {found.bytes / 1e6:.0f} MB; trying every frame and every n-th")
    search.start(carries)
    callbacks.step(f"{len(search.trials)} schedules tried; trying clocks")
    search.go_on(clocks(max(map(len, nets))), kinds)
    callbacks.step(f"{len(search.trials)} schedules tried")
    goal, trials = search.goal, tuple(search.trials)
    best, fastest = goal.best(trials), tuple(frontier(goal, trials))
    own = tuple(goal.best(trial for trial in trials if trial.candidate.kind == kind) for kind in kinds)
    return Plan(goal, tuple(variants), best, fastest, trials, search.costs.uncut, len(found.slots), found.bytes, own)
