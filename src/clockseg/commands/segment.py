"""``clockseg segment``: videos in, label maps, overlays and traces out."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clockseg._errors import ClocksegError, UsageError
from clockseg.commands._options import (
    add_frames_options,
    add_network_options,
    add_schedule_options,
    load_network,
    parse_schedules,
)
from clockseg.commands._planned import as_planned
from clockseg.commands._table import percent

if TYPE_CHECKING:
    from clockseg.schedule import Schedule
    from clockseg.segmentation import Segmented
    from clockseg.stages import StagedNetwork


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``segment`` and its options."""
    parser = commands.add_parser(
        "segment",
        help="segment videos with clocked stages",
        description="Segment videos with clocked stages. Each input gets a folder DIR/STEM with labels.mkv (FFV1, one "
        "grey byte a pixel = class id), overlay.mp4, trace.jsonl (a line a frame: what fired, what it cost) and summary.json; "
        "of a network without classes, which gives numbers such as depth, values.mkv (a half float a pixel). "
        "One bad input does not stop the others.",
    )
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="INPUT",
        help="a video file, an image, or a folder of images (one clip); -- before names that start with -",
    )
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="where the results go")
    parser.add_argument(
        "--write",
        metavar="KINDS",
        help="of labels,overlay,trace,png, without classes of values,overlay,trace,npy; with commas (default: the first three)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace results that are there")
    parser.add_argument(
        "--flicker",
        action="store_true",
        help="tell in the summary how much of the labels' change from frame to frame motion does not explain",
    )
    add_network_options(parser)
    add_schedule_options(parser, several=False)
    add_frames_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Segment each input; 1 if any failed or was cut short."""
    from clockseg.deviation import gives_numbers
    from clockseg.results import check_writes, folders

    args = as_planned(args, args.schedule)
    net = load_network(args)
    asked = None if args.write is None else [kind.strip() for kind in args.write.split(",") if kind.strip()]
    writes = check_writes(asked, values=gives_numbers(net))
    [(name, schedule)] = parse_schedules(None if args.schedule is None else [args.schedule], net, args.carry)
    whole = True
    for source, folder in zip(args.inputs, folders(args.inputs, args.out), strict=True):
        whole &= _segment(args, source, folder, net, name, schedule, writes)
    return 0 if whole else 1


def _segment(
    args: argparse.Namespace,
    source: str,
    folder: Path,
    net: StagedNetwork,
    name: str,
    schedule: Schedule,
    writes: tuple[str, ...],
) -> bool:
    from clockseg.commands._progress import shown
    from clockseg.segmentation import segment

    try:
        with shown(source, quiet=args.quiet) as progress:
            done = segment(
                source,
                folder,
                net,
                schedule,
                write=writes,
                every=args.every,
                limit=args.limit,
                overwrite=args.overwrite,
                flicker=args.flicker,
                name=name,
                progress=progress,
            )
    except UsageError as error:
        if len(args.inputs) == 1:
            raise
        return _failed(source, error)
    except (ClocksegError, OSError) as error:
        return _failed(source, error)
    for problem in done.problems:
        print(f"clockseg: warning: {source}: {problem}", file=sys.stderr)
    if not args.quiet:
        print(_told(done))
    return not done.problems


def _failed(source: str, error: Exception) -> bool:
    text = str(error)
    print(f"clockseg: error: {text if source in text else f'{source}: {text}'}", file=sys.stderr)
    return False


def _told(done: Segmented) -> str:
    summary: dict[str, Any] = done.summary
    if summary["network_rate"] is None:
        return f"{done.folder}: 1 frame"
    rates = ", ".join(f"{name} {percent(rate)}" for name, rate in summary["fire_rate"].items())
    moved = "" if summary["carry"] == "identity" else f"; carry {summary['carry']}"
    return (
        f"{done.folder}: {summary['frames']} frames, {summary['fps']:.1f} fps; network ran on "
        f"{percent(summary['network_rate'])} of frames ({rates}); estimated time against "
        f"every stage on every frame: {percent(summary['relative_time_estimate'])}, "
        f"multiply-adds: {percent(summary['relative_multiply_adds'])}{moved}"
    )
