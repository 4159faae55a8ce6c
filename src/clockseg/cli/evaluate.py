"""``clockseg evaluate``: schedules against human labels, and against every frame."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING

from clockseg.cli import options
from clockseg.cli.loading import Clips, as_planned, load_network, parse_schedules
from clockseg.cli.terminal import Watch, align, print_result, warn
from clockseg.networks import ANY_VIDEO, DRIVING

if TYPE_CHECKING:
    from clockseg.datasets.clips import Clip
    from clockseg.evaluation.evaluate import Evaluation

HELP = "measure the accuracy and speed of schedules"
DESCRIPTION = """Measure the accuracy and speed of schedules.

DATA is a folder of clips (CLIP/images/*, CLIP/labels/*.png for some or all frames, classes.json beside the clips), one such
clip, a folder of images, a video, or a data set in its official layout (see docs/datasets.md).

With labels, the table has the mIoU and the share of the every-frame mIoU that a schedule keeps. Agreement compares with the
uncut network on every frame, and needs no labels; for a network that outputs numbers, such as depth, it is the relative
error mean |a - b| / mean |b|. Time is relative to the uncut network's, measured in the same run."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``clockseg evaluate``."""
    options.add_data_options(parser, "DATA", "clips with or without labels, or videos")
    help = (
        'map the network\'s classes to those of DATA, many to one: lines "NETWORK CLASS = DATA CLASS"; '
        "* stands for all others, and classes that both have need no line"
    )
    parser.add_argument("--map", type=Path, metavar="FILE", help=help)
    options.add_schedule_options(parser, several=True)
    help = "another network to compare with, run on every frame, such as street for street-large; repeatable"
    parser.add_argument("--baseline", action="append", default=[], metavar="NETWORK", help=help)
    options.add_network_options(parser, default=ANY_VIDEO, or_else=f"; {DRIVING} for clips with labels")
    options.add_frames_options(parser)
    help = "write all figures to a CSV file, or the table to a LaTeX file"
    parser.add_argument("--table", type=options.ending(".csv", ".tex"), metavar="FILE.csv|tex", help=help)
    options.add_plot_option(parser, "the score of each schedule against its time, and the IoU of every class")
    options.add_options(parser, "--json")


def run(args: argparse.Namespace) -> int:
    """Evaluate and print; 1 if a clip failed or was incomplete."""
    from clockseg.datasets.clips import renamed
    from clockseg.evaluation.evaluate import evaluate
    from clockseg.evaluation.tables import table, write_table

    if args.plot is not None:
        options.need("matplotlib", what="--plot", extra="plots")
    options.check_new_files(args.plot, args.table, overwrite=True)
    args = as_planned(args, *(args.schedule or ()))
    clips = Clips(args)
    if isinstance(args.network, options.Unsaid) and any(any(clip.labels) for clip in clips.all):
        args = options.changed(args, network=DRIVING)
    net = load_network(args)
    if args.map is not None:
        clips.all, warnings = renamed(clips.all, args.map, net)
        for text in warnings:
            warn(text)
    schedules = parse_schedules(args.schedule, net, args.carry)
    baselines = [(text, load_network(options.changed(args, network=text))) for text in args.baseline]

    def one(clip: Clip) -> Sequence[Evaluation]:
        show = partial(Watch(1, quiet=args.quiet).update, clip.name)
        return evaluate(net, schedules, [clip], baselines=baselines, progress=show, warn=clips.cut_short)

    found = [reduce(add, of_clips) for of_clips in zip(*clips.map(one), strict=True)]
    if args.table is not None:
        write_table(found, args.table)
    if args.plot is not None:
        from clockseg.report.plots import draw_evaluation

        draw_evaluation(found, args.plot)
    facts = {
        "data": args.data[0] if len(args.data) == 1 else args.data,
        "network": net.name,
        "engine": net.engine,
        "schedules": [result.facts() for result in found],
    }
    print_result(args, facts, lambda: align(table(found)))
    return clips.exit_code
