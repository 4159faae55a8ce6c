"""``clockseg reproduce``: the paper's tables and figures, published numbers beside measured ones."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from clockseg.cli.options import ENGINE, add_group, add_options, check_new_files, engine_options, need
from clockseg.cli.terminal import Line, align, fail
from clockseg.errors import ClocksegError, UsageError

if TYPE_CHECKING:
    from clockseg.paper.report import Report
    from clockseg.paper.source import Setting

EXPERIMENTS = {
    "velocity": "how fast the labels of each stage change, by depth and accuracy (Table 1, section 3)",
    "pipeline-pascal": "pipelines against truncated networks of equal latency, on translated stills",
    "pipeline": "the same on video: NYUDv2 and YouTube-Objects",
    "fixed-rate": "skip-frame, exponential and alternating, on translated stills",
    "schedules": "all schedules on NYUDv2, YouTube-Objects and Cityscapes",
    "adaptive-curve": "accuracy of the adaptive clock by fire rate and cost, compared with a pixel clock",
    "adaptive-videos": "single videos: when the adaptive clock fires, and what it costs",
}

DRAWN = ("velocity", "adaptive-curve", "all")
"""Those whose reports have figures drawn with matplotlib."""

HELP = "reproduce the paper's tables and figures"
DESCRIPTION = f"""Reproduce a table or figure of the paper: published numbers next to measured ones.

{chr(10).join(f"  {name:<16} {what}" for name, what in EXPERIMENTS.items())}

--data DIR holds the data sets in their official layouts: VOCdevkit, nyud, youtube-objects, cityscapes (docs/datasets.md).
--weights DIR holds the authors' weights, converted with clockseg import (docs/fcn8s.md).

With --standin, the same protocols run with the bundled network and need no weights. The tables then need a clip with labels
on every frame in DIR/camvid/val (CLIP/images/*, CLIP/labels/*.png, classes.json); velocity and adaptive-videos
run on any videos in DIR, DIR/videos or DIR/davis, for example "--standin --data demo" after make demo.

--out writes NAME.md, NAME.json and the figures (pip install '.[plots]' in the clone). Stand-ins take one to ten
minutes each on two cores, the paper's own data many hours without a GPU."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``clockseg reproduce``."""
    parser.add_argument("name", choices=(*EXPERIMENTS, "all"), metavar="NAME", help="one of the above, or all")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of the data (default: $CLOCKSEG_DATA/data)")
    parser.add_argument("--weights", type=Path, metavar="DIR", help="folder of the authors' imported weights")
    help = (
        "use stand-ins for the paper's data and weights, with this network: street (default), another bundled network, or "
        "FILE.onnx; --weights DIR may hold truncated versions of it, NAME-stride8.onnx and NAME-stride16.onnx"
    )
    parser.add_argument("--standin", nargs="?", const="street", metavar="NETWORK", help=help)
    parser.add_argument("--out", type=Path, metavar="DIR", help="write the report and its figures into this folder")
    add_options(parser, "--json", "--quiet")
    add_group(parser, "network", *ENGINE)


def run(args: argparse.Namespace) -> int:
    """Run the experiments and print their tables."""
    setting = _setting(args)
    if args.out is not None:
        check_new_files(args.out / "report", overwrite=True)
        if args.name in DRAWN:
            need("matplotlib", what="--out, which draws figures,", extra="plots")
    reports = {}
    for name in EXPERIMENTS if args.name == "all" else [args.name]:
        try:
            reports[name] = _run_one(name, args, setting)
        except ClocksegError as error:
            if args.name != "all":
                raise
            # One experiment that can't be run does not stop the others.
            fail(f"{name}: {error}")
    if args.json:
        print(json.dumps({name: report.facts() for name, report in reports.items()}, allow_nan=False))
    return 0 if args.name != "all" or len(reports) == len(EXPERIMENTS) else 1


def _run_one(name: str, args: argparse.Namespace, setting: Setting) -> Report:
    from clockseg.paper.report import write

    report = experiment(name)(setting)
    if not args.json:
        print(text(report))
    if args.out is not None:
        given = f"--standin {args.standin}" if args.standin else "--weights DIR"
        files = write(report, args.out, command=f"clockseg reproduce {name} --data DIR {given}")
        if not args.json:
            print(f"written: {', '.join(map(str, files))}\n")
    return report


def experiment(name: str) -> Callable[[Setting], Report]:
    """Return the function that runs one of ``EXPERIMENTS``."""
    from clockseg.paper.adaptive_clock import run_curve, run_videos
    from clockseg.paper.tables import TABLES
    from clockseg.paper.velocity import run_velocity

    others = {"velocity": run_velocity, "adaptive-curve": run_curve, "adaptive-videos": run_videos}
    return TABLES[name].run if name in TABLES else others[name]


def _setting(args: argparse.Namespace) -> Setting:
    from clockseg.networks.load import load
    from clockseg.paper.source import STANDIN_DATA, Setting

    given = os.environ.get("CLOCKSEG_DATA")
    data = args.data or (Path(given) / "data" if given else None)
    if data is None:
        official = "Give --data DIR with the data sets in their official layouts (docs/datasets.md)."
        raise UsageError(f"no data. {STANDIN_DATA if args.standin else official}")
    if not args.standin and args.weights is None:
        raise UsageError(
            "the paper's tables need the authors' weights: give --weights DIR (docs/fcn8s.md), or --standin to run the "
            "same protocols with the bundled network."
        )
    # The paper runs every picture at its own size.
    engine = engine_options(args) | {"size": args.size or (None if args.standin else "own")}
    line = Line(quiet=args.quiet)

    def say(text: str) -> None:
        line.show(lambda: f"{args.name}: {text}")

    return Setting(data, lambda network: load(network, **engine), args.weights, args.standin, say=say)


def text(report: Report) -> str:
    """Format a report for the terminal."""
    from clockseg.paper.report import cells

    parts = [report.title, ""]
    if report.records:
        parts += [align(cells(report.records), left=3), ""]
    parts += [*map(str, report.claims)]
    parts += [f"note: {note}" for note in report.notes]
    return "\n".join(parts) + "\n"
