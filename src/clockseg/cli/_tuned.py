"""What ``clockseg tune`` found, as a table, as JSON, and as a schedule file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from clockseg.cli._table import align, percent, shown
from clockseg.planning.schedule_file import ScheduleFile

if TYPE_CHECKING:
    from clockseg.clockwork.network import StagedNetwork
    from clockseg.planning.tuning import Point, Trial, Tuned

ROWS = 11
"""Of the curve, as it is printed."""
OfClip: TypeAlias = "tuple[tuple[str, int], Trial]"
"""A clip's path and frames, and what the schedule does on it."""


@dataclass(frozen=True)
class Found:
    """The schedule, what it does on the clips (``point``), and the search for the fixed threshold that it starts from.

    ``setting``: what else a threshold holds for, to be written beside it.
    """

    net: StagedNetwork
    schedule: str
    fixed_schedule: str
    point: Point
    fixed: Tuned
    clips: tuple[OfClip, ...]
    setting: Mapping[str, Any]

    def facts(self) -> dict[str, Any]:
        """What ``--json`` prints."""
        return {
            "network": self.net.name,
            "engine": self.net.engine,
            "asked": self.fixed.asked,
            "schedule": self.schedule,
            **_facts(self.point),
            "fixed": {"schedule": self.fixed_schedule, **_facts(self.fixed.point)},
            "clips": [
                {"clip": path, "frames": frames, "fire_rate": trial.fire_rate if trial.tally.later else None}
                for (path, frames), trial in self.clips
            ],
            "curve": [_facts(point) for point in self.fixed.curve],
        }

    def file(self) -> ScheduleFile:
        """The schedule, and how it was found, for ``--schedule FILE.toml``."""
        tuned = {
            "clips": [path for (path, _), _ in self.clips],
            "frames": sum(frames for (_, frames), _ in self.clips),
            "engine": self.net.engine,
            **self.setting,
            "asked": self.fixed.asked,
            "fire_rate": self.point.fire_rate,
            "fixed": self.fixed_schedule,
            "fixed_fire_rate": self.fixed.point.fire_rate,
            "curve_threshold": [point.threshold for point in self.fixed.curve],
            "curve_fire_rate": [point.fire_rate for point in self.fixed.curve],
        }
        return ScheduleFile(self.schedule, self.net.name, tuple(stage.name for stage in self.net.stages), tuned)

    def text(self, out: Path | None) -> str:
        """The curve, the clips where there are several, and the schedule."""
        head = ["threshold", "fire rate", "held agreement", "time, est."]
        curve = align([head, *(_row(point) for point in _thinned(self.fixed))])
        clips = [align([["clip", "frames", "fire rate"], *map(_clip_row, self.clips)])] if len(self.clips) > 1 else []
        fixed = f"{self.fixed_schedule} fires on {percent(self.fixed.point.fire_rate)}"
        last = (
            f"{self.schedule} fires on {percent(self.point.fire_rate)} of frames (asked: {percent(self.fixed.asked)})"
        )
        told = last if self.schedule == self.fixed_schedule else f"{fixed}\n{last}"
        written = [] if out is None else [f"{out} written; use it with --schedule {out}"]
        return "\n\n".join([curve, *clips, "\n".join([told, *written])])


def _facts(point: Point) -> dict[str, Any]:
    return {
        "threshold": point.threshold,
        "fire_rate": point.fire_rate,
        "held_agreement": point.trial.held_agreement,
        "relative_time_estimate": point.trial.relative_time_estimate,
    }


def _row(point: Point) -> list[str]:
    return [
        f"{point.threshold:.6g}",
        percent(point.fire_rate),
        percent(point.trial.held_agreement),
        shown(point.trial.relative_time_estimate, lambda share: f"{share:.3f}"),
    ]


def _clip_row(clip: OfClip) -> list[str]:
    (path, frames), trial = clip
    return [path, str(frames), percent(trial.fire_rate if trial.tally.later else None)]


def _thinned(tuned: Tuned) -> Sequence[Point]:
    """The point found, and of the curve those nearest to evenly spaced rates."""
    wanted = [step / (ROWS - 1) for step in range(ROWS)]
    near = [min(tuned.curve, key=lambda point: abs(point.fire_rate - rate)) for rate in wanted]
    return sorted({*near, tuned.point}, key=lambda point: point.threshold)
