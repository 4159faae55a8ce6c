"""A clock given as text, its threshold tuned to a fire rate on recorded clips, and the schedule file that comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clockseg.clocks.spec import parse_schedule
from clockseg.clocks.threshold import NEVER
from clockseg.clockwork.clock import Watch
from clockseg.clockwork.network import StagedNetwork
from clockseg.errors import UsageError
from clockseg.execution.recording import Key, Recording, needs
from clockseg.planning.candidates import PLACE
from clockseg.planning.schedule_file import ScheduleFile
from clockseg.planning.tuning import Point, Replayed, Tuned, tried, tune


def to_record(net: StagedNetwork, clock: str, *, paced: bool) -> frozenset[Key]:
    """Return what a recording must hold: what the clock watches, and the last stage's labels, which tell what holding costs.

    ``clock``, ``paced``: as for ``at_fire_rate``. ``UsageError`` for a clock that can't be tuned or paced.
    """
    if PLACE not in clock:
        raise UsageError(
            f"the clock {clock!r} has no {PLACE} for its threshold; give one such as adaptive({PLACE}, watch=1)."
        )
    last = {Watch("labels", len(net))} if net.stages[-1].scores is not None else set()
    fixed = clock.replace(PLACE, "0.5")
    return needs(net, [parse_schedule(f"paced({fixed}, 0.5)" if paced else fixed)]) | last


@dataclass(frozen=True)
class FireRate:
    """The schedule found, its rate on the clips (``point``), and the search for the fixed threshold it starts from.

    ``clips``: the path, the number of frames and the result of each. ``setting``: the options the threshold is valid for.
    """

    net: StagedNetwork
    schedule: str
    fixed_schedule: str
    point: Point
    fixed: Tuned
    clips: tuple[tuple[str, int, Replayed], ...]
    setting: Mapping[str, Any]

    def facts(self) -> dict[str, Any]:
        """Return what ``clockseg tune --json`` prints."""
        return {
            "network": self.net.name,
            "engine": self.net.engine,
            "asked": self.fixed.asked,
            "schedule": self.schedule,
            **_facts(self.point),
            "fixed": {"schedule": self.fixed_schedule, **_facts(self.fixed.point)},
            "clips": [
                {"clip": path, "frames": frames, "fire_rate": trial.fire_rate if trial.tally.later else None}
                for path, frames, trial in self.clips
            ],
            "curve": [_facts(point) for point in self.fixed.curve],
        }

    def file(self) -> ScheduleFile:
        """Return the schedule file, with how the schedule was found."""
        tuned = {
            "clips": [path for path, _, _ in self.clips],
            "frames": sum(frames for _, frames, _ in self.clips),
            "engine": self.net.engine,
            **self.setting,
            "asked": self.fixed.asked,
            "fire_rate": self.point.fire_rate,
            "fixed": self.fixed_schedule,
            "fixed_fire_rate": self.fixed.point.fire_rate,
            "curve_threshold": [point.threshold for point in self.fixed.curve],
            "curve_fire_rate": [point.fire_rate for point in self.fixed.curve],
        }
        return ScheduleFile(self.schedule, self.net.name, self.net.names, tuned)


def at_fire_rate(
    net: StagedNetwork,
    clock: str,
    recorded: Sequence[tuple[str, Recording]],
    rate: float,
    *,
    cap: int | None = None,
    paced: bool = True,
    setting: Mapping[str, Any] | None = None,
) -> FireRate:
    """Find the threshold at which ``clock`` fires on a share ``rate`` of the frames of the recordings, each with its path.

    ``clock``: text with ``{}`` for the threshold; ``cap``: the most frames held. ``paced``: adapt the threshold while it runs,
    to keep the rate. Errors as of ``tune``.
    """

    def text(threshold: float, pace: bool = False) -> str:
        found = clock.replace(PLACE, repr(threshold))
        found = f"paced({found}, {rate!r})" if pace else found
        return found if cap is None else f"either({found}, at_least_every({cap}))"

    recordings = [recording for _, recording in recorded]
    fixed = tune(recordings, lambda threshold: parse_schedule(text(threshold)), rate)
    point, schedule = fixed.point, text(fixed.point.threshold)
    start = schedule
    if paced and 0 < rate < 1 and point.threshold > 0:
        # The rate of a paced clock depends little on where its threshold starts.
        near = (point.threshold / 2, min(2 * point.threshold, NEVER))
        point = tune(recordings, lambda one: parse_schedule(text(one, pace=True)), rate, points=2, between=near).point
        schedule = text(point.threshold, pace=True)
    chosen = parse_schedule(schedule)
    clips = tuple((path, len(recording), tried([recording], chosen)) for path, recording in recorded)
    return FireRate(net, schedule, start, point, fixed, clips, setting or {})


def _facts(point: Point) -> dict[str, Any]:
    return {
        "threshold": point.threshold,
        "fire_rate": point.fire_rate,
        "held_agreement": point.trial.held_agreement,
        "relative_time_estimate": point.trial.relative_time_estimate,
    }
