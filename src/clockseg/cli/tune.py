"""``clockseg tune``: the threshold that gives a fire rate, on unlabelled video."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from clockseg.cli import options
from clockseg.cli.loading import Clips, load_network, publish_schedule
from clockseg.cli.terminal import columns, percent, shown, warn
from clockseg.networks import ANY_VIDEO

if TYPE_CHECKING:
    from clockseg.datasets.clips import Clip
    from clockseg.execution.recording import Recording
    from clockseg.planning.tuning import FireRate, Point, Replayed, Tuned

HELP = "find the threshold for a fire rate, on unlabelled video"
DESCRIPTION = """Find the threshold at which a clock fires on a given share of frames, on unlabelled video.

Every stage runs once on every frame and is recorded. Schedules are then replayed on the recording, with exactly the decisions
of a real run. Rates do not count the first frame of each clip. The schedule is printed, and written to the file of --out.

The fire rate at a fixed threshold changes from video to video. By default the schedule is therefore paced: its threshold
starts at the one found, and then adapts to keep the rate. --keep threshold gives the paper's clock with a fixed threshold. The
printed curve is that of fixed thresholds."""

NEAR = 0.03
"""Warn if the rate found is further than this from the one asked for."""
ROWS = 11
"""Rows of the printed curve."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``clockseg tune``."""
    options.add_data_options(parser, "VIDEO", "videos and clips; labels are not used")
    help = "share of the frames on which the clock should fire, 0 to 1"
    parser.add_argument("--fire-rate", required=True, type=options.share, metavar="RATE", help=help)
    group = parser.add_argument_group("clock")
    help = (
        'a clock with {} in place of its threshold, such as "difference({}, of=\\"pixels\\")" (default: adaptive({}), or the '
        "change of features or pixels for a network without class scores)"
    )
    group.add_argument("--clock", metavar="SPEC", help=help)
    group.add_argument("--cap", type=options.positive, metavar="N", help="fire at least every N frames")
    help = (
        "keep the fire rate by adapting the threshold, or keep the threshold, as in the paper (default: rate; clocks that "
        "can't be paced need threshold)"
    )
    group.add_argument("--keep", choices=("rate", "threshold"), default="rate", help=help)
    options.add_network_options(parser, default=ANY_VIDEO)
    options.add_frames_options(parser)
    options.add_schedule_file_options(parser)


def run(args: argparse.Namespace) -> int:
    """Record, tune, print and write; 1 if a clip failed or was cut short."""
    from clockseg.execution.recording import record
    from clockseg.planning.tuning import at_fire_rate, default_clock, to_record

    options.check_schedule_file(args, [args.clock] if args.clock else [])
    clips = Clips(args)
    net = load_network(args)
    clock = args.clock or default_clock(net)
    paced = args.keep == "rate"
    keep = to_record(net, clock, paced=paced)

    def one(clip: Clip) -> tuple[str, Recording]:
        return str(clip.path), record(net, (frame.image for frame in clips.frames(clip, net)), keep=keep)

    recorded = clips.map(one)
    setting = {"precision": args.precision, "every": args.every}
    setting |= {} if args.size is None else {"size": args.size}
    found = at_fire_rate(net, clock, recorded, args.fire_rate, cap=args.cap, paced=paced, setting=setting)
    publish_schedule(args, found.facts(), found.file(), lambda: _text(found))
    if abs(found.point.fire_rate - found.fixed.asked) > NEAR:
        asked, closest = percent(found.fixed.asked), percent(found.point.fire_rate)
        warn(f"{asked} of frames can't be reached on these clips; the closest is {closest}.")
    return clips.exit_code


def _text(found: FireRate) -> str:
    """Format the curve, the clips if there are several, and the schedule."""
    curve: dict[str, Callable[[Point], str]] = {
        "threshold": lambda point: f"{point.threshold:.6g}",
        "fire rate": lambda point: percent(point.fire_rate),
        "held agreement": lambda point: percent(point.trial.held_agreement),
        "time, est.": lambda point: shown(point.trial.relative_time_estimate, lambda time: f"{time:.3f}"),
    }
    clips: dict[str, Callable[[tuple[str, int, Replayed]], str]] = {
        "clip": lambda one: one[0],
        "frames": lambda one: str(one[1]),
        "fire rate": lambda one: percent(one[2].fire_rate if one[2].tally.later else None),
    }
    parts = [columns(_thinned(found.fixed), curve), *([columns(found.clips, clips)] if len(found.clips) > 1 else [])]
    asked = (
        f"{found.schedule} fires on {percent(found.point.fire_rate)} of frames (asked: {percent(found.fixed.asked)}; "
        f"counted at the last stage, {found.net.names[-1]})"
    )
    fixed = f"{found.fixed_schedule} fires on {percent(found.fixed.point.fire_rate)}\n"
    return "\n\n".join([*parts, asked if found.schedule == found.fixed_schedule else fixed + asked])


def _thinned(tuned: Tuned) -> Sequence[Point]:
    """Return the point found and the points of the curve nearest to evenly spaced rates."""
    wanted = [step / (ROWS - 1) for step in range(ROWS)]
    near = [min(tuned.curve, key=lambda point: abs(point.fire_rate - rate)) for rate in wanted]
    return sorted({*near, tuned.point}, key=lambda point: point.threshold)
