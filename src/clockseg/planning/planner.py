"""Finds the best way to run a network on a video without labels: one full pass, and many schedules replayed on it.

Every schedule is scored against the labels that the reference, the first network, gives on every frame, and timed by the
cost of its frames in sessions measured here. Blocks of the video alternately choose the plan and are held back to check it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
    asked_for,
    clocks,
    possible,
    schedule_of,
)
from clockseg.planning.frontier import Goal as Goal
from clockseg.planning.frontier import frontier
from clockseg.planning.schedule_file import ScheduleFile
from clockseg.planning.search import Search
from clockseg.planning.taping import Callbacks as Callbacks
from clockseg.planning.taping import first_frame, taped
from clockseg.planning.trial import Trial as Trial

FRAMES = 400
"""Default limit of frames, of all clips together."""
BYTES = 2_000_000_000
"""Default limit of all recordings together, on disk but for the first 64 MB of each; of large frames fewer fit."""


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
    vectors = isinstance(Auto().choice(first_frame(clips).vectors), Codec)
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
