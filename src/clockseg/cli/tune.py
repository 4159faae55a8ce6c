"""``clockseg tune``: the threshold that gives a fire rate, on unlabelled video."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from clockseg.cli._clips import Account, clips_of, each, frames_of
from clockseg.cli._found import add_output_options, check_output, publish
from clockseg.cli._options import (
    add_data_options,
    add_frames_options,
    add_network_options,
    load_network,
    new_command,
    positive,
)
from clockseg.cli._terminal import columns, percent, shown, warn
from clockseg.errors import UsageError

if TYPE_CHECKING:
    from clockseg.clocks import Watch
    from clockseg.clockwork.network import StagedNetwork
    from clockseg.clockwork.schedule import Named, Schedule
    from clockseg.datasets.clips import Clip
    from clockseg.execution.recording import Recording
    from clockseg.planning.schedule_file import ScheduleFile
    from clockseg.planning.tuning import Point, Trial, Tuned

DESCRIPTION = """Find the threshold at which a clock fires on a given share of frames, on unlabelled video.

Every stage runs once on every frame and is recorded; schedules are then replayed on the recording, decision by decision.
Rates count the frames after each clip's first. The schedule is printed, and with --out written to a file for
--schedule FILE.toml.

With a fixed threshold the fire rate follows the motion, so it changes from video to video. By default the schedule is
therefore paced: its threshold starts at the one found and then adapts to keep the rate. --keep threshold gives the
paper's clock with a fixed threshold; the curve printed is that of the fixed threshold."""

NEAR = 0.03
"""Warn if the rate found is further than this from the one asked for."""
CLOCKS = ("adaptive", "difference", "confidence")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``clockseg tune`` and its options."""
    help = "find the threshold for a fire rate, on unlabelled video"
    parser = new_command(commands, "tune", run, help=help, description=DESCRIPTION)
    parser.add_argument("data", nargs="+", metavar="VIDEO", help="videos and clips; labels are not used")
    add_data_options(parser)
    help = "share of frames that should fire, 0 to 1"
    parser.add_argument("--fire-rate", required=True, type=_share, metavar="RATE", help=help)
    group = parser.add_argument_group("clock")
    help = (
        f"{', '.join(CLOCKS)} or package.module:name, with all arguments but the threshold by name, such as "
        f'difference(of="pixels") (default: {CLOCKS[0]})'
    )
    group.add_argument("--clock", default=CLOCKS[0], metavar="SPEC", help=help)
    help = "stage that the clock watches (default: the last but one)"
    group.add_argument("--watch", type=positive, metavar="STAGE", help=help)
    group.add_argument("--cap", type=positive, metavar="N", help="fire at least every N frames")
    help = "keep the fire rate by adapting the threshold, or keep the threshold, as in the paper (default: rate)"
    group.add_argument("--keep", choices=("rate", "threshold"), default="rate", help=help)
    add_network_options(parser)
    add_frames_options(parser)
    add_output_options(parser, "the fire rate at each threshold, and what each rate keeps and costs")


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share of frames from 0 to 1, such as 0.5")
    return share


@dataclass(frozen=True)
class _Clock:
    """A schedule as text, by its threshold; ``pace``: the rate to keep, None for a fixed threshold.

    >>> _Clock('difference', 'of="pixels"', cap=8).text(0.1)
    'either(difference(0.1, of="pixels"), at_least_every(8))'
    >>> _Clock("adaptive", pace=0.5).text(0.02)
    'paced(adaptive(0.02), 0.5)'
    """

    name: str
    arguments: str = ""
    cap: int | None = None
    pace: float | None = None

    def text(self, threshold: float) -> str:
        clock = f"{self.name}({', '.join(filter(None, (repr(threshold), self.arguments)))})"
        paced = clock if self.pace is None else f"paced({clock}, {self.pace!r})"
        return paced if self.cap is None else f"either({paced}, at_least_every({self.cap}))"

    def __call__(self, threshold: float) -> Schedule | Named:
        from clockseg.clocks.spec import parse_schedule

        return parse_schedule(self.text(threshold))


def _clock(text: str, watch: int | None, cap: int | None) -> _Clock:
    """Parse the clock that ``--clock``, ``--watch`` and ``--cap`` describe.

    >>> _clock("adaptive()", 1, None).text(0.25)
    'adaptive(0.25, watch=1)'
    """
    from clockseg.carry.names import MARK, marked

    try:
        node = ast.parse(marked(text.strip()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        node = ast.Constant(None)
    call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
    name = ast.unparse(call.func).replace(MARK, ":")
    if call.args or not (name in CLOCKS or re.fullmatch(r"[\w.]+:[\w.]+", name)):
        raise UsageError(
            f"--clock {text!r}: give {', '.join(CLOCKS)} or package.module:name, with all arguments but the threshold by "
            'name, such as difference(of="pixels").'
        )
    arguments = [ast.unparse(keyword).replace("'", '"') for keyword in call.keywords]
    if watch is not None:
        arguments.append(f"watch={watch}")
    return _Clock(name, ", ".join(arguments), cap)


def run(args: argparse.Namespace) -> int:
    """Record, tune, print and write; 1 if a clip failed or was cut short."""

    def draw(file: Path) -> None:
        from clockseg.report.plots import draw_tuning

        draw_tuning(found.fixed, file, schedule=found.fixed_schedule)

    clock = _clock(args.clock, args.watch, args.cap)
    _check(args, clock)
    account = Account()
    clips = clips_of(args, account)
    if not clips:
        return 1
    net = load_network(args)
    keep = _keep(net, clock)
    recorded = list(each(clips, lambda clip: _record(args, net, clip, keep, account), account))
    if not recorded:
        return 1
    found = _found(args, net, clock, recorded)
    publish(args, found, draw)
    _warn(found)
    return 1 if account.troubles else 0


def _check(args: argparse.Namespace, clock: _Clock) -> None:
    """Reject invalid options before anything is recorded."""
    if args.keep == "rate" and clock.name == "confidence":
        raise UsageError("confidence can't be paced: it compares with nothing. Give --keep threshold with it.")
    check_output(args)


def _keep(net: StagedNetwork, clock: _Clock) -> frozenset[Watch]:
    """Return what to record: what the clock watches, and the last stage's labels, to tell what holding it costs."""
    from clockseg.clockwork.schedule import schedule_for
    from clockseg.clockwork.watching import check
    from clockseg.execution.recording import label_map, needs

    schedule = schedule_for(clock(0.5), len(net))
    check(net, schedule)
    last = {label_map(len(net))} if net.stages[-1].scores is not None else set()
    return needs(schedule) | last


def _record(
    args: argparse.Namespace, net: StagedNetwork, clip: Clip, keep: frozenset[Watch], account: Account
) -> Recording:
    from clockseg.execution.recording import record

    frames = frames_of(clip, net, account, quiet=args.quiet)
    return record(net, (frame.image for frame in frames), keep=keep)


def _found(
    args: argparse.Namespace, net: StagedNetwork, clock: _Clock, recorded: Sequence[tuple[Clip, Recording]]
) -> Found:
    from clockseg.planning.tuning import tried, tune, tune_near

    rate, recordings = args.fire_rate, [recording for _, recording in recorded]
    fixed = tune(recordings, clock, rate)
    chosen, point = clock, fixed.point
    if args.keep == "rate" and 0 < rate < 1 and point.threshold > 0:
        chosen = replace(clock, pace=rate)
        point = tune_near(recordings, chosen, rate, point.threshold).point
    schedule = chosen.text(point.threshold)
    trials = [tried([recording], chosen(point.threshold)) for recording in recordings]
    clips = [(str(clip.path), len(recording)) for clip, recording in recorded]
    found = tuple(zip(clips, trials, strict=True))
    return Found(net, schedule, clock.text(fixed.point.threshold), point, fixed, found, _setting(args))


def _setting(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options besides the network that a threshold is valid for."""
    size = {} if args.size is None else {"size": args.size}
    return {"precision": args.precision, "every": args.every, **size}


def _warn(found: Found) -> None:
    if abs(found.point.fire_rate - found.fixed.asked) > NEAR:
        asked, closest = percent(found.fixed.asked), percent(found.point.fire_rate)
        warn(f"{asked} of frames can't be reached on these clips; the closest is {closest}.")


ROWS = 11
"""Rows of the printed curve."""
OfClip: TypeAlias = "tuple[tuple[str, int], Trial]"
"""A clip's path and number of frames, and the schedule's trial on it."""


@dataclass(frozen=True)
class Found:
    """The schedule found, its rate on the clips (``point``), and the search for the fixed threshold it starts from.

    ``setting``: the options the threshold is valid for, written beside it.
    """

    net: StagedNetwork
    schedule: str
    fixed_schedule: str
    point: Point
    fixed: Tuned
    clips: tuple[OfClip, ...]
    setting: Mapping[str, Any]

    def facts(self) -> dict[str, Any]:
        """Return what ``--json`` prints."""
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
        """Return the schedule file, with how the schedule was found."""
        from clockseg.planning.schedule_file import ScheduleFile

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

    def text(self) -> str:
        """Format the curve, the clips if there are several, and the schedule."""
        curve: dict[str, Callable[[Point], str]] = {
            "threshold": lambda point: f"{point.threshold:.6g}",
            "fire rate": lambda point: percent(point.fire_rate),
            "held agreement": lambda point: percent(point.trial.held_agreement),
            "time, est.": lambda point: shown(point.trial.relative_time_estimate, lambda share: f"{share:.3f}"),
        }
        clips: dict[str, Callable[[OfClip], str]] = {
            "clip": lambda one: one[0][0],
            "frames": lambda one: str(one[0][1]),
            "fire rate": lambda one: percent(one[1].fire_rate if one[1].tally.later else None),
        }
        parts = [columns(_thinned(self.fixed), curve), *([columns(self.clips, clips)] if len(self.clips) > 1 else [])]
        asked = (
            f"{self.schedule} fires on {percent(self.point.fire_rate)} of frames (asked: {percent(self.fixed.asked)})"
        )
        fixed = f"{self.fixed_schedule} fires on {percent(self.fixed.point.fire_rate)}\n"
        return "\n\n".join([*parts, asked if self.schedule == self.fixed_schedule else fixed + asked])


def _facts(point: Point) -> dict[str, Any]:
    return {
        "threshold": point.threshold,
        "fire_rate": point.fire_rate,
        "held_agreement": point.trial.held_agreement,
        "relative_time_estimate": point.trial.relative_time_estimate,
    }


def _thinned(tuned: Tuned) -> Sequence[Point]:
    """Return the point found and the points of the curve nearest to evenly spaced rates."""
    wanted = [step / (ROWS - 1) for step in range(ROWS)]
    near = [min(tuned.curve, key=lambda point: abs(point.fire_rate - rate)) for rate in wanted]
    return sorted({*near, tuned.point}, key=lambda point: point.threshold)
