"""What ``clockseg plan`` found, as a table, as JSON, and as a schedule file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clockseg.cli._table import align, percent
from clockseg.evaluation.metrics import finite
from clockseg.planning.schedule_file import ScheduleFile

if TYPE_CHECKING:
    from clockseg.planning.planner import Plan, Trial

ROWS = 16
"""Of the frontier, as it is printed."""


@dataclass(frozen=True)
class Report:
    """The plan, the clips it was made on, of which every ``every``-th frame was taken, and how long it took."""

    plan: Plan
    clips: Sequence[str]
    every: int
    seconds: float

    def after(self, seconds: float) -> Report:
        """The same, made in so many seconds."""
        return replace(self, seconds=seconds)

    def facts(self) -> dict[str, Any]:
        """What ``--json`` prints."""
        plan = self.plan
        return {
            "goal": {"keep": plan.goal.keep, "time": plan.goal.time, "measure": plan.goal.measure},
            "met": plan.met,
            "reference": plan.variants[0].name,
            "engine": plan.variants[0].net.engine,
            "uncut_seconds": plan.uncut_seconds,
            "frames": plan.frames,
            "tape_bytes": plan.bytes,
            "schedules": len(plan.trials),
            "seconds": self.seconds,
            "chosen": self._facts(plan.chosen),
            "frontier": [self._facts(trial) for trial in plan.frontier],
        }

    def _facts(self, trial: Trial) -> dict[str, Any]:
        variant, goal = self.plan.variants[trial.variant], self.plan.goal
        return {
            "network": variant.network,
            "size": variant.size,
            "precision": variant.precision,
            "schedule": trial.candidate.text,
            "promised": goal.promised(trial),
            "tuned": _sums(trial.tuned),
            "held_back": _sums(trial.held_back),
        }

    def file(self) -> ScheduleFile:
        """The plan, for ``--schedule FILE.toml``."""
        plan, variant, chosen = self.plan, self.plan.variant, self.plan.chosen
        run = {"network": variant.network, "precision": variant.precision}
        run |= {} if variant.size is None else {"size": variant.size}
        tuned = {
            "clips": list(self.clips),
            "frames": plan.frames,
            "every": self.every,
            "engine": variant.net.engine,
            "reference": plan.variants[0].name,
            "measure": plan.goal.measure,
            "promised": plan.promised,
            "relative_time": chosen.tuned.relative_time,
            "held_back": plan.goal.agreement(chosen.held_back),
            "held_back_relative_time": chosen.held_back.relative_time,
            "frontier": [self._point(trial) for trial in plan.frontier],
        }
        stages = tuple(stage.name for stage in variant.net.stages)
        return ScheduleFile(chosen.candidate.text, variant.net.name, stages, tuned, run)

    def _point(self, trial: Trial) -> list[float | str]:
        """A point of the frontier, as a report draws it: relative time, agreement promised, schedule, network."""
        name = self.plan.variants[trial.variant].name
        return [trial.tuned.relative_time, self.plan.goal.promised(trial), trial.candidate.text, name]

    def text(self, out: Path | None) -> str:
        """The frontier, and what was chosen."""
        head = ["schedule", "network", "time", "promised", "time, held back", "agreement", "mean IU", "network rate"]
        rows = [head, *(self._row(trial) for trial in self._shown())]
        written = (
            [] if out is None else [f"{out} written; run it with clockseg segment VIDEO --schedule {out} --out DIR"]
        )
        return "\n\n".join([align(rows, left=2), "\n".join([*self._told(), *written])])

    def _shown(self) -> list[Trial]:
        """Of the frontier, those evenly spread over its time, and the chosen one."""
        found = list(self.plan.frontier)
        step = max(1, -(-len(found) // ROWS))
        kept = {id(trial) for trial in [*found[::step], found[-1], self.plan.chosen]}
        extra = [] if any(trial is self.plan.chosen for trial in found) else [self.plan.chosen]
        return sorted(
            (trial for trial in [*found, *extra] if id(trial) in kept), key=lambda trial: trial.tuned.relative_time
        )

    def _row(self, trial: Trial) -> list[str]:
        goal, held_back = self.plan.goal, trial.held_back
        return [
            ("* " if trial is self.plan.chosen else "  ") + trial.candidate.text,
            self.plan.variants[trial.variant].name,
            f"{trial.tuned.relative_time:.3f}",
            _percent(goal.promised(trial)),
            f"{held_back.relative_time:.3f}",
            _percent(held_back.agreement.pixel_acc),
            _percent(held_back.agreement.mean_iu),
            _percent(held_back.network_rate),
        ]

    def _told(self) -> list[str]:
        plan, goal, chosen = self.plan, self.plan.goal, self.plan.chosen
        what = "pixel agreement" if goal.measure == "pixel_acc" else "agreement (mean IU)"
        fps = 1 / (plan.uncut_seconds * chosen.tuned.relative_time)
        return [
            f"Time 1 is {plan.variants[0].name}, uncut, on every frame: {1000 * plan.uncut_seconds:.1f} ms in "
            f"{plan.variants[0].net.engine}. {len(plan.trials)} schedules on {plan.frames} frames in {self.seconds:.0f} s.",
            f"* {chosen.candidate.text} on {plan.variant.name}: {what} {_percent(plan.promised)} promised in "
            f"{chosen.tuned.relative_time:.3f} of the time (about {fps:.0f} fps, decoding and writing aside); "
            f"{_percent(goal.agreement(chosen.held_back))} in {chosen.held_back.relative_time:.3f} on the blocks held back.",
        ]

    def missed(self) -> str:
        """That the goal can't be met, and by how much."""
        plan = self.plan
        if plan.goal.keep is not None:
            asked, closest = _percent(plan.goal.keep), _percent(plan.promised)
            return f"no schedule keeps {asked} on this video; the closest promises {closest}."
        return (
            f"no schedule takes {plan.goal.time:.3f} of the time; the fastest takes {plan.chosen.tuned.relative_time:.3f}. "
            "Give a smaller --size or --network as well, or a higher share."
        )


def _percent(share: float) -> str:
    return percent(finite(share)) if not share > 0.98 else f"{100 * share:.2f} %"


def _sums(sums: Any) -> dict[str, float | None]:
    return {
        "relative_time": finite(sums.relative_time),
        "pixel_acc": finite(sums.agreement.pixel_acc),
        "mean_iu": finite(sums.agreement.mean_iu),
        "network_rate": finite(sums.network_rate),
        "frames": sums.frames,
    }
