"""``clockseg plan``: the best schedule for a network, or several, on your video, without labels."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clockseg.cli._clips import Account, clips_of
from clockseg.cli._found import add_output_options, check_output, publish
from clockseg.cli._options import above_zero, add_data_options, add_options, load_network, new_command, positive
from clockseg.cli._progress import shown
from clockseg.cli._terminal import columns, percent, say, warn
from clockseg.libraries import CPU_ENGINES
from clockseg.networks import ANY_VIDEO

if TYPE_CHECKING:
    from clockseg.datasets.clips import Clip
    from clockseg.planning.planner import Plan, Trial, Variant
    from clockseg.planning.schedule_file import ScheduleFile

DESCRIPTION = """Find the best way to run a network on your video: the schedule, and the network, size and precision if several are given.

Every network runs once on a few hundred frames. Hundreds of schedules (clock, rate, carry) are then replayed on the
recording, label for label as they would run, and timed by what their frames cost in sessions measured here. The reference
is the output of the first network, at the first size and precision, on every frame; its uncut time counts as 1. Half of the
video, in alternating blocks, chooses the plan and the other half checks it: both results are printed.

FILE.toml holds the network and the schedule; run it with clockseg segment VIDEO --schedule FILE.toml --out DIR."""


DEFAULT = ANY_VIDEO


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``clockseg plan`` and its options."""
    help = "find the best schedule and network for your video, without labels"
    parser = new_command(commands, "plan", run, help=help, description=DESCRIPTION)
    parser.add_argument("data", nargs="+", metavar="VIDEO", help="videos and clips; labels are not used")
    add_data_options(parser)
    _add_goal(parser)
    _add_networks(parser.add_argument_group("networks"))
    group = parser.add_argument_group("search")
    help = 'another schedule to try, such as "learned(\\"clock.onnx\\", {})", where {} stands for its threshold; repeatable'
    group.add_argument("--clock", action="append", default=[], metavar="SPEC", help=help)
    add_options(group, "--every", help="use every N-th frame only (default: 1)")
    add_options(group, "--limit", default=400, help="frames to use, of all videos together (default: 400)")
    help = "disk space for recordings, in the folder for temporary files; fewer frames are used if it is full (default: 2000)"
    group.add_argument("--disk", type=positive, default=2000, metavar="MB", help=help)
    add_output_options(parser, "every schedule tried, the frontier and the choice")
    add_options(parser, "--quiet")


def _add_goal(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("goal (one of them)")
    one = group.add_mutually_exclusive_group(required=True)
    one.add_argument("--keep", type=above_zero, metavar="SHARE", help="minimum agreement, such as 0.99; minimizes time")
    help = "maximum share of the uncut time, such as 0.33; maximizes agreement"
    one.add_argument("--time", type=above_zero, metavar="SHARE", help=help)
    help = "minimum frames per second on this machine; maximizes agreement"
    one.add_argument("--fps", type=above_zero, metavar="FPS", help=help)
    help = "measure of agreement: the share of pixels, or the mIoU of classes with at least 0.1 %% of them (default: pixel_acc)"
    group.add_argument("--measure", choices=("pixel_acc", "mean_iu"), default="pixel_acc", help=help)


def _add_networks(group: argparse._ArgumentGroup) -> None:
    help = (
        "a bundled network or FILE.onnx; repeat for several networks of the same classes, the first of which is the "
        f"reference (default: {DEFAULT})"
    )
    add_options(group, "--network", action="append", default=None, help=help)
    add_options(group, "--size", action="append", help="working size; repeatable (default: the network's)")
    add_options(
        group, "--precision", action="append", default=None, help="arithmetic precision; repeatable (default: f32)"
    )
    add_options(group, "--engine", choices=("auto", *CPU_ENGINES))
    add_options(group, "--threads")


def run(args: argparse.Namespace) -> int:
    """Plan, print and write; 1 if a clip failed or was cut short."""

    def draw(file: Path) -> None:
        from clockseg.report.plots import draw_plan

        draw_plan(plan, file)

    check_output(args)
    account = Account()
    clips = clips_of(argparse.Namespace(**vars(args) | {"limit": None}), account)
    if not clips:
        return 1
    start = time.monotonic()
    plan = _planned(args, clips, account)
    report = Report(plan, [str(clip.path) for clip in clips], args.every, time.monotonic() - start)
    publish(args, report, draw)
    for sentence in report.warnings():
        warn(sentence)
    return 1 if account.troubles else 0


def _planned(args: argparse.Namespace, clips: list[Clip], account: Account) -> Plan:
    from clockseg.clockwork.trace import Progress, Tally
    from clockseg.planning.planner import Callbacks, Goal, plan

    goal = Goal(keep=args.keep, time=args.time, fps=args.fps, measure=args.measure)
    variants = _variants(args)
    with shown("recording", quiet=args.quiet) as show:
        callbacks = Callbacks(
            lambda done, of: show(Progress("recording", done, of, Tally(("every",)))),
            lambda sentence: None if args.quiet else say(sentence),
            account.cut_short,
        )
        most_bytes = 1_000_000 * args.disk
        return plan(
            variants, clips, goal, also=args.clock, limit=args.limit, most_bytes=most_bytes, callbacks=callbacks
        )


def _variants(args: argparse.Namespace) -> list[Variant]:
    """Load each network at each size in each precision."""
    from clockseg.planning.planner import Variant

    found = []
    for network in args.network or [DEFAULT]:
        for size in args.size or [None]:
            for precision in args.precision or ["f32"]:
                asked = argparse.Namespace(**vars(args) | {"network": network, "size": size, "precision": precision})
                text = "x".join(map(str, size)) if isinstance(size, tuple) else None if size is None else str(size)
                found.append(Variant(load_network(asked), network, text, precision))
    return found


ROWS = 16
"""Rows of the printed frontier."""


@dataclass(frozen=True)
class Report:
    """A plan with the clips it was made on, the frame step ``every``, and the seconds it took."""

    plan: Plan
    clips: Sequence[str]
    every: int
    seconds: float

    def facts(self) -> dict[str, Any]:
        """Return what ``--json`` prints."""
        plan = self.plan
        return {
            "goal": {"keep": plan.goal.keep, "time": plan.goal.time, "measure": plan.goal.measure},
            "met": plan.met,
            "kept": plan.kept,
            "reference": plan.variants[0].name,
            "engine": plan.variants[0].net.engine,
            "uncut_seconds": plan.uncut_seconds,
            "frames": plan.frames,
            "frames_reason": plan.reason,
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
        """Return the schedule file of the plan."""
        from clockseg.planning.schedule_file import ScheduleFile

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
        """Return a point of the frontier for reports: relative time, promised agreement, schedule, network."""
        name = self.plan.variants[trial.variant].name
        return [trial.tuned.relative_time, self.plan.goal.promised(trial), trial.candidate.text, name]

    def text(self) -> str:
        """Format the frontier and the choice."""
        plan = self.plan
        cells: dict[str, Callable[[Trial], str]] = {
            "schedule": lambda one: ("* " if one is plan.chosen else "  ") + one.candidate.text,
            "network": lambda one: plan.variants[one.variant].name,
            "time": lambda one: f"{one.tuned.relative_time:.3f}",
            "promised": lambda one: _percent(plan.goal.promised(one)),
            "time, held back": lambda one: f"{one.held_back.relative_time:.3f}",
            "agreement": lambda one: _percent(one.held_back.agreement.pixel_acc),
            "mIoU": lambda one: _percent(one.held_back.agreement.mean_iu),
            "network rate": lambda one: _percent(one.held_back.network_rate),
        }
        return "\n\n".join([columns(self._shown(), cells, left=2), self._told()])

    def _shown(self) -> list[Trial]:
        """Return trials spread evenly over the frontier, and the chosen one."""
        found = list(self.plan.frontier)
        step = max(1, -(-len(found) // ROWS))
        kept = {id(trial) for trial in [*found[::step], found[-1], self.plan.chosen]}
        extra = [] if any(trial is self.plan.chosen for trial in found) else [self.plan.chosen]
        return sorted(
            (trial for trial in [*found, *extra] if id(trial) in kept), key=lambda trial: trial.tuned.relative_time
        )

    def _told(self) -> str:
        plan, goal, chosen = self.plan, self.plan.goal, self.plan.chosen
        measure = "pixel agreement" if goal.measure == "pixel_acc" else "agreement (mIoU)"
        fps = 1 / (plan.uncut_seconds * chosen.tuned.relative_time)
        return (
            f"Time 1 is {plan.variants[0].name}, uncut, on every frame: {1000 * plan.uncut_seconds:.1f} ms in "
            f"{plan.variants[0].net.engine}. {len(plan.trials)} schedules on {plan.frames} frames ({plan.reason}) in "
            f"{self.seconds:.0f} s.\n"
            f"* {chosen.candidate.text} on {plan.variant.name}: {measure} {_percent(plan.promised)} promised in "
            f"{chosen.tuned.relative_time:.3f} of the time (about {fps:.0f} FPS, without decoding and writing); "
            f"{_percent(goal.agreement(chosen.held_back))} in {chosen.held_back.relative_time:.3f} on the blocks held back."
        )

    def warnings(self) -> list[str]:
        """Return a sentence if the goal can't be met, else one if the blocks held back do not confirm the promise."""
        plan, chosen = self.plan, self.plan.chosen
        if not plan.met and plan.goal.keep is not None:
            asked, closest = _percent(plan.goal.keep), _percent(plan.promised)
            return [f"no schedule keeps {asked} on this video; the closest promises {closest}."]
        if not plan.met:
            return [
                f"no schedule runs in {plan.goal.time:.3f} of the time; the fastest takes "
                f"{chosen.tuned.relative_time:.3f}. Give a smaller --size or --network as well, or a higher share."
            ]
        if plan.kept:
            return []
        return [
            f"the blocks held back do not confirm the promise: {_percent(plan.goal.agreement(chosen.held_back))} in "
            f"{chosen.held_back.relative_time:.3f} of the time. A run may keep less than promised, or take longer; plan on "
            "more frames (--limit), or ask for a little more than you need."
        ]


def _percent(share: float) -> str:
    from clockseg.evaluation.metrics import finite

    return percent(finite(share)) if not share > 0.98 else f"{100 * share:.2f} %"


def _sums(sums: Any) -> dict[str, float | None]:
    from clockseg.evaluation.metrics import finite

    return {
        "relative_time": finite(sums.relative_time),
        "pixel_acc": finite(sums.agreement.pixel_acc),
        "mean_iu": finite(sums.agreement.mean_iu),
        "network_rate": finite(sums.network_rate),
        "frames": sums.frames,
    }
