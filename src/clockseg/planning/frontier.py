"""The goal of a plan, the schedule that comes closest to it, and the frontier of all trials."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from clockseg.errors import UsageError
from clockseg.planning.trial import Agreement, Trial

Measure: TypeAlias = Literal["pixel_acc", "mean_iu"]


@dataclass(frozen=True)
class Goal:
    """The agreement to ``keep`` (0..1) in the least time, or the most agreement in a ``time`` (1: the uncut reference's) or at
    so many frames per second (``fps``, the mean over frames).

    ``measure``: of agreement. The goal is checked on the blocks tuned on; ``keep`` with a margin of the agreement's standard
    error over these blocks, since the best of many schedules is a little lucky on them.

    >>> Goal(keep=0.99).measure
    'pixel_acc'
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
        """Return the goal with ``fps`` as a ``time``, given the uncut reference's seconds per frame.

        >>> Goal(fps=50).settled(0.04).time
        0.5
        """
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
