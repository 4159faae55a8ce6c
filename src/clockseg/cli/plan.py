"""``clockseg plan``: the best schedule for a network, or several, on your video, without labels."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clockseg.cli._clips import Account, clips_of
from clockseg.cli._new_files import add_plot_option, check_new_schedule
from clockseg.cli._options import above_zero, add_data_options, load_network, positive, working_size
from clockseg.cli._progress import shown

if TYPE_CHECKING:
    from clockseg.cli._plan_report import Report
    from clockseg.datasets.clips import Clip
    from clockseg.planning.planner import Goal, Plan, Variant

DESCRIPTION = """Find how to run a network on your video: which schedule, and which of several networks, sizes and precisions.

Every network runs once on some hundred frames; then hundreds of schedules (clock, rate, carry) are played on what was
recorded, label for label as they would run, and timed by what their frames cost in sessions measured here. The truth is
what the first network, at the first size and precision, gives on every frame, and time 1 is what it takes uncut. Blocks of
the video by turns choose the plan and are held back: what the plan gives on those is printed beside what it promises.

FILE.toml holds the network and the schedule: clockseg segment VIDEO --schedule FILE.toml runs it."""


def add_parser(subparsers: Any) -> None:
    """``clockseg plan`` and its options."""
    parser = subparsers.add_parser(
        "plan",
        help="find the best schedule and network for your video, without labels",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("data", nargs="+", metavar="VIDEO", help="videos and clips; labels are not looked at")
    add_data_options(parser)
    _add_goal(parser)
    _add_networks(parser.add_argument_group("networks"))
    tried = parser.add_argument_group("what is tried, and on what")
    tried.add_argument(
        "--clock",
        action="append",
        default=[],
        metavar="SPEC",
        help='a schedule to try beside the usual ones, such as "learned(\\"clock.onnx\\", {})", {} standing for its threshold; '
        "several times for several",
    )
    tried.add_argument("--every", type=positive, default=1, metavar="N", help="take every N-th frame only (default: 1)")
    tried.add_argument("--limit", type=positive, default=400, metavar="N", help="frames to look at (default: 400)")
    tried.add_argument(
        "--disk",
        type=positive,
        default=2000,
        metavar="MB",
        help="what recordings may take in the folder for temporary files; if they would take more, fewer frames are looked "
        "at (default: 2000)",
    )
    out = parser.add_argument_group("output")
    out.add_argument("--out", type=Path, metavar="FILE.toml", help="write the plan there")
    add_plot_option(out, "all that was tried, the frontier and the choice")
    out.add_argument("--overwrite", action="store_true", help="replace them if they are there")
    out.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    out.add_argument("--quiet", action="store_true", help="no progress, warnings and errors only")
    parser.set_defaults(run=run)


def _add_goal(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("goal (one of them)")
    one = group.add_mutually_exclusive_group(required=True)
    one.add_argument(
        "--keep", type=above_zero, metavar="SHARE", help="the agreement to keep, such as 0.99, in the least time"
    )
    one.add_argument(
        "--time",
        type=above_zero,
        metavar="SHARE",
        help="the share of the time to take, such as 0.33, for the most agreement",
    )
    one.add_argument(
        "--fps", type=above_zero, metavar="FPS", help="frames a second to reach, on this machine, for the same"
    )
    group.add_argument(
        "--measure",
        choices=("pixel_acc", "mean_iu"),
        default="pixel_acc",
        help="of agreement: the share of pixels, or the mean IU of the classes that hold 0.1 %% of them (default: pixel_acc)",
    )


def _add_networks(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--network",
        action="append",
        metavar="NAME|FILE",
        help="a bundled network or FILE.onnx; several times for several of the same classes, the first is the reference "
        "(default: street)",
    )
    group.add_argument(
        "--size",
        action="append",
        type=working_size,
        metavar="N|WIDTHxHEIGHT|own",
        help="working size, several times for several (default: the network's)",
    )
    group.add_argument(
        "--precision",
        action="append",
        choices=("f32", "bf16"),
        help="arithmetic, several times for several (default: f32)",
    )
    group.add_argument(
        "--engine",
        default="auto",
        choices=("auto", "openvino", "onnxruntime"),
        help="what runs them (default: auto, the fastest of those installed)",
    )
    group.add_argument("--threads", type=positive, metavar="N", help="threads of the engine (default: one a core)")


def run(args: argparse.Namespace) -> int:
    """Plan, print and write; 1 if a clip failed or was cut short."""
    from clockseg.cli._plan_report import Report

    check_new_schedule(args)
    account = Account()
    clips = clips_of(argparse.Namespace(**vars(args) | {"limit": None}), account)
    if not clips:
        return 1
    start = time.monotonic()
    report = Report(_planned(args, clips, account), [str(clip.path) for clip in clips], args.every, 0.0)
    report = report.after(time.monotonic() - start)
    _write(args, report)
    print(json.dumps(report.facts(), allow_nan=False) if args.json else report.text(args.out))
    if not report.plan.met:
        print(f"clockseg: warning: {report.missed()}", file=sys.stderr)
    return 1 if account.troubles else 0


def _goal(args: argparse.Namespace) -> Goal:
    from clockseg.planning.planner import Goal

    return Goal(keep=args.keep, time=args.time, fps=args.fps, measure=args.measure)


def _planned(args: argparse.Namespace, clips: list[Clip], account: Account) -> Plan:
    from clockseg.clockwork.trace import Progress, Tally
    from clockseg.planning.planner import Told, plan

    goal, variants = _goal(args), _variants(args)
    with shown("recording", quiet=args.quiet) as show:
        told = Told(
            lambda done, of: show(Progress("recording", done, of, Tally(("every",)))),
            lambda sentence: None if args.quiet else print(f"clockseg: {sentence}", file=sys.stderr, flush=True),
            account.cut_short,
        )
        return plan(
            variants, clips, goal, also=args.clock, limit=args.limit, most_bytes=1_000_000 * args.disk, told=told
        )


def _variants(args: argparse.Namespace) -> list[Variant]:
    """Each network at each size in each precision."""
    from clockseg.planning.planner import Variant

    found = []
    for network in args.network or ["street"]:
        for size in args.size or [None]:
            for precision in args.precision or ["f32"]:
                asked = argparse.Namespace(**vars(args) | {"network": network, "size": size, "precision": precision})
                text = "x".join(map(str, size)) if isinstance(size, tuple) else None if size is None else str(size)
                found.append(Variant(load_network(asked), network, text, precision))
    return found


def _write(args: argparse.Namespace, report: Report) -> None:
    if args.out is not None:
        from clockseg.planning.schedule_file import write_schedule_file

        write_schedule_file(report.file(), args.out, overwrite=args.overwrite)
    if args.plot is not None:
        from clockseg.report.plots import draw_plan

        draw_plan(report.plan, args.plot)
