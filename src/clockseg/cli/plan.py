"""``clockseg plan``: the best schedule for a network, or several, on your video, without labels."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

from clockseg.cli import options
from clockseg.cli.loading import Clips, load_network, publish_schedule
from clockseg.cli.terminal import columns, counting, say, warn
from clockseg.errors import DataError
from clockseg.libraries import CPU_ENGINES
from clockseg.networks import ANY_VIDEO

if TYPE_CHECKING:
    from clockseg.datasets.clips import Clip
    from clockseg.planning.command_time import CommandPromise
    from clockseg.planning.planner import Plan, Variant
    from clockseg.planning.trial import Trial

HELP = "find the best schedule and network for your video, without labels"
DESCRIPTION = """Find the best schedule for your video, and the best network, size and precision if several are given.

Every network runs once on up to --limit frames. Many schedules (clock, rate, carry) are then replayed on the recording,
with exactly the labels of a real run; their time is predicted from the measured time of each kind of frame. The
reference is the first network, uncut, at the first size and precision: agreement is measured against its output on every
frame, and its time counts as 1. The plan is chosen on half of the video, in alternating blocks, and checked on the other half.
Both agreements are printed, and the lower one is promised. At the end, clockseg segment runs on the first frames of the
longest video, at most 240 and at most --limit, and the time of the whole command on all frames is estimated from that.

FILE.toml holds the network and the schedule; use it with clockseg segment VIDEO --schedule FILE.toml --out DIR."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``clockseg plan``."""
    options.add_data_options(parser, "VIDEO", "videos and clips; labels are not used")
    _add_goal(parser)
    _add_networks(parser.add_argument_group("networks"))
    group = parser.add_argument_group("search")
    help = (
        'another clock to try, such as "learned(\\"clock.onnx\\", {})", where {} stands for its threshold; without {}, it is '
        "tried as it is; repeatable. Its best schedule is a row of the table"
    )
    group.add_argument("--clock", action="append", default=[], metavar="SPEC", help=help)
    options.add_options(group, "--every", help="use every N-th frame only (default: 1)")
    options.add_options(group, "--limit", default=400, help="frames to use, of all videos together (default: 400)")
    help = "disk space for recordings, in the folder for temporary files, which may limit the frames (default: 2000)"
    group.add_argument("--disk", type=options.positive, default=2000, metavar="MB", help=help)
    text = "outputs of clockseg segment for which its time is predicted (default: labels,overlay,trace)"
    options.add_options(parser, "--write", help=text)
    options.add_schedule_file_options(parser)
    options.add_options(parser, "--quiet")


def _add_goal(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("goal (one of them)")
    one = group.add_mutually_exclusive_group(required=True)
    keep = "minimum share of pixels with the every-frame label, such as 0.99; minimizes time"
    one.add_argument("--keep", type=options.above_zero, metavar="SHARE", help=keep)
    help = "maximum share of the uncut time, such as 0.33; maximizes the share of pixels"
    one.add_argument("--time", type=options.above_zero, metavar="SHARE", help=help)
    help = "minimum frames per second on this machine; maximizes the share of pixels"
    one.add_argument("--fps", type=options.above_zero, metavar="FPS", help=help)
    help = (
        "instead of the share of pixels, use the mIoU of the classes with at least 0.1 %% of them (default: pixel_acc)"
    )
    group.add_argument("--measure", choices=("pixel_acc", "mean_iu"), default="pixel_acc", help=help)


def _add_networks(group: argparse._ArgumentGroup) -> None:
    help = (
        "a bundled network or FILE.onnx; repeat for several networks of the same classes, the first of which is the "
        f"reference (default: {ANY_VIDEO})"
    )
    options.add_options(group, "--network", action="append", default=None, help=help)
    options.add_options(group, "--size", action="append", help="working size; repeatable (default: the network's)")
    help = "arithmetic precision; repeatable (default: f32)"
    options.add_options(group, "--precision", action="append", default=None, help=help)
    options.add_options(group, "--engine", choices=("auto", *CPU_ENGINES))
    options.add_options(group, "--threads")


def run(args: argparse.Namespace) -> int:
    """Plan, print and write; 1 if a clip failed or was cut short."""
    options.check_schedule_file(args, args.clock)
    clips = Clips(options.changed(args, limit=None))
    start = time.monotonic()
    plan = _planned(args, clips)
    seconds = time.monotonic() - start
    command = _command(args, plan, clips.all)
    command_seconds = time.monotonic() - start - seconds
    file = plan.file([str(clip.path) for clip in clips.all], every=args.every)
    facts = plan.facts() | {"seconds": seconds, "command": None if command is None else command.facts()}
    facts |= {"command_seconds": command_seconds}
    publish_schedule(args, facts, file, lambda: _text(plan, command, seconds, command_seconds))
    for sentence in (*_warnings(plan), *_slower(command)):
        warn(sentence)
    return clips.exit_code


def _planned(args: argparse.Namespace, clips: Clips) -> Plan:
    from clockseg.planning.planner import Callbacks, Goal, plan

    goal = Goal(keep=args.keep, time=args.time, fps=args.fps, measure=args.measure)
    variants = _variants(args)
    tell = (lambda sentence: None) if args.quiet else say
    callbacks = Callbacks(partial(counting("frames", quiet=args.quiet), "recording"), tell, clips.cut_short)
    most_bytes = 1_000_000 * args.disk
    return plan(
        variants, clips.all, goal, also=args.clock, limit=args.limit, most_bytes=most_bytes, callbacks=callbacks
    )


def _command(args: argparse.Namespace, plan: Plan, clips: Sequence[Clip]) -> CommandPromise | None:
    """Measure the whole command; print the reason and return None if it can't be measured."""
    from clockseg.planning.command_time import WRITES, promise

    if not options.is_quiet(args):
        say("timing segment with the plan, and on every frame")
    try:
        write = args.write or WRITES
        return promise(plan, clips, write=write, engine=args.engine, threads=args.threads, limit=args.limit)
    except DataError as error:
        warn(f"no time is promised for the whole command: {error}")
        return None


def _variants(args: argparse.Namespace) -> list[Variant]:
    """Load each network at each size in each precision."""
    from clockseg.planning.planner import Variant

    found = []
    networks, sizes, precisions = args.network or [ANY_VIDEO], args.size or [None], args.precision or ["f32"]
    for network, size, precision in product(networks, sizes, precisions):
        asked = options.changed(args, network=network, size=size, precision=precision)
        text = "x".join(map(str, size)) if isinstance(size, tuple) else None if size is None else str(size)
        found.append(Variant(load_network(asked), network, text, precision))
    return found


ROWS = 16
"""Rows of the printed frontier."""


def _text(plan: Plan, command: CommandPromise | None, seconds: float, command_seconds: float) -> str:
    """Format the frontier and the choice; ``seconds``: that the plan took, ``command_seconds``: that timing the command took."""
    cells: dict[str, Callable[[Trial], str]] = {
        "schedule": lambda one: _mark(plan, one) + one.candidate.text,
        "network": lambda one: plan.variants[one.variant].name,
        "time": lambda one: f"{one.relative_time:.3f}",
        "network rate": lambda one: _percent(one.network_rate),
        "estimate": lambda one: _percent(plan.goal.promised(one)),
        "pixels": lambda one: _percent(one.held_back.pixel_acc),
        "mIoU": lambda one: _percent(one.held_back.mean_iu),
    }
    goal, chosen = plan.goal, plan.chosen
    what, unit = ("pixels", "of the pixels") if goal.measure == "pixel_acc" else ("mIoU", "mIoU")
    told = (
        "pixels, mIoU: agreement with the labels of every frame, on the half of the video on which the plan is not chosen.\n"
        f"estimate: {what} on the half on which it is chosen, less the standard error. The promise is the lower of both halves.\n"
        f"Times are relative to {plan.variants[0].name}, uncut, on every frame ({1000 * plan.uncut_seconds:.1f} ms per frame in "
        f"{plan.variants[0].net.engine}). {len(plan.trials)} schedules were tried on {plan.frames} frames in "
        f"{seconds:.0f} s.\n"
        f"* {chosen.candidate.text} on {plan.variant.name}: promised {_percent(plan.promised)} {unit} in "
        f"{chosen.relative_time:.3f} of the time; measured on the other half {_percent(goal.agreement(chosen.held_back))}."
    )
    told += "\n+ the best schedule of a --clock." if any(one is not chosen for one in plan.also) else ""
    told += "" if command is None else f"\n{_told(command)} Measuring this took {command_seconds:.0f} s more."
    return f"{columns(_shown(plan), cells, left=2)}\n\n{told}"


def _mark(plan: Plan, trial: Trial) -> str:
    return "* " if trial is plan.chosen else "+ " if trial in plan.also else "  "


def _told(command: CommandPromise) -> str:
    frames, seconds = command.frames, command.planned.seconds(command.frames)
    return (
        f"The whole command, {', '.join(command.write)} written: {frames} frames in {seconds:.1f} s ({frames / seconds:.0f} FPS), "
        f"{command.faster:.1f}x as fast as every frame, which takes {command.every_frame.seconds(frames):.1f} s; estimated from "
        f"runs on {command.timed_frames} frames."
    )


def _shown(plan: Plan) -> list[Trial]:
    """Return trials spread evenly over the frontier, the best one of each clock of the user, and the chosen one."""
    found = plan.frontier
    step = max(1, -(-len(found) // ROWS))
    rows = {id(trial): trial for trial in [*found[::step], found[-1], *plan.also, plan.chosen]}
    return sorted(rows.values(), key=lambda trial: trial.relative_time)


def _warnings(plan: Plan) -> list[str]:
    """Return a sentence if the goal can't be met, else one if the blocks held back do not confirm the promise."""
    chosen = plan.chosen
    if not plan.met and plan.goal.keep is not None:
        asked, closest = _percent(plan.goal.keep), _percent(plan.promised)
        return [f"no schedule keeps {asked} on this video; the closest promises {closest}."]
    if not plan.met:
        return [
            f"no schedule runs in {plan.goal.time:.3f} of the time; the fastest takes "
            f"{chosen.relative_time:.3f}. Give a smaller --size or --network as well, or a higher share."
        ]
    if plan.kept:
        return []
    return [
        "the goal is met on the half of the video that the plan was chosen on, but not on the other, so the promise is "
        f"{_percent(plan.promised)}. Plan on more frames (--limit), or ask for a little more than you need."
    ]


def _slower(command: CommandPromise | None) -> list[str]:
    """Return a sentence if the whole command takes longer with the plan than on every frame."""
    if command is None or command.faster >= 1:
        return []
    return [
        f"the whole command takes longer with this plan ({command.faster:.2f}x as fast as every frame): this network costs less than "
        "propagating its outputs. Run it on every frame, --schedule frame_oracle."
    ]


def _percent(share: float) -> str:
    """Format a share as a percentage, rounded down so that none looks like a goal that it misses; a dash for NaN.

    >>> _percent(0.97996), _percent(0.98), _percent(0.57)
    ('97.99 %', '98.00 %', '57.00 %')
    """
    return "-" if math.isnan(share) else f"{math.floor(round(1e4 * share, 6)) / 100:.2f} %"
