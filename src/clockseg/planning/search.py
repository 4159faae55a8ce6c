"""The search over schedules: a few numbers of each clock, then numbers near the goal; those of the planner that cannot win are skipped."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from clockseg.planning.candidates import ORACLE, SKIP, Candidate, Family, Kind, possible, schedule_of
from clockseg.planning.costs import Costs, measured
from clockseg.planning.frontier import Goal
from clockseg.planning.trial import Taped, Trial

CLOSER = 4
"""Numbers tried between the two neighbouring numbers of a clock of which one meets the goal."""
BEST_CARRIES = 2
"""Number of carries per network that clocks are tried with."""


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
            carries = self._carries(variant)
            asked += [(variant, kind, carry) for kind in kinds for carry in carries[:BEST_CARRIES]]
            # Not every clock can be replayed under every carry.
            for kind in also:
                first = kind.numbers[0]
                able = possible(net, [Candidate(kind, first, carry) for carry in carries])
                asked += [(variant, kind, one.carry) for one in able[:BEST_CARRIES]]
        self._try(asked, always=also)

    def _carries(self, variant: int) -> list[str]:
        """Return all carries, those first under which skip-frame comes nearest to the goal."""
        skipping = [one for one in self.trials if one.variant == variant and one.candidate.kind == SKIP]
        return list(dict.fromkeys(one.candidate.carry for one in sorted(skipping, key=self.goal.rank)))

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
