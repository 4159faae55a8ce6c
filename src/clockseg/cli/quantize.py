"""``clockseg quantize``: a network in 8 bits, calibrated on video without labels."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from clockseg.cli._clips import Account, clips_of
from clockseg.cli._options import add_data_options, add_frames_options, check_new_files, positive, working_size
from clockseg.cli._terminal import align, percent
from clockseg.errors import UsageError
from clockseg.libraries import CPU_ENGINES

if TYPE_CHECKING:
    from clockseg.networks.comparison import Agreement
    from clockseg.networks.quantization import Quantization

DESCRIPTION = """Write a network in 8 bits: a quarter of the bytes, two to three times as fast on processors that compute in
8 bits.

The range of every map is measured on frames of VIDEO, which needs no labels: take what the network is to be used on. The
new NAME.onnx is an ordinary network with the same tensors and cuts, and NAME.json beside it; every command takes it. Told
are how far it agrees with the network in float, on frames it was not calibrated on, and what each part takes here."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``quantize`` and its options."""
    parser = commands.add_parser(
        "quantize",
        help="write a network in 8 bits, calibrated on video",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("network", metavar="NET", help="a bundled network, or FILE.onnx with its sidecar beside it")
    parser.add_argument(
        "data", nargs="+", metavar="VIDEO", help="videos, clips, folders of pictures; labels aren't read"
    )
    parser.add_argument("--out", required=True, type=Path, metavar="NAME.onnx", help="the file to write")
    parser.add_argument("--overwrite", action="store_true", help="replace NAME.onnx and NAME.json if they are there")
    parser.add_argument(
        "--frames", type=positive, default=60, metavar="N", help="frames to calibrate on, spread evenly (default: 60)"
    )
    parser.add_argument(
        "--ends",
        choices=("auto", "int8", "float"),
        default="auto",
        help="the first and last layers, most sensitive of all: in float where that is clearly better (auto, the default), "
        "or as you say",
    )
    parser.add_argument("--repeat", type=positive, default=20, metavar="N", help="runs to time (default: 20)")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    add_data_options(parser)
    group = parser.add_argument_group("network")
    group.add_argument(
        "--size",
        type=working_size,
        metavar="N|WIDTHxHEIGHT|own",
        help="working size to calibrate at and to state (default: the network's)",
    )
    group.add_argument("--engine", default="auto", choices=("auto", *CPU_ENGINES), help="what both are compared in")
    group.add_argument("--threads", type=positive, metavar="N", help="threads of the engine (default: one a core)")
    add_frames_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Quantize, write and print; 1 if a clip was left out or cut short."""
    if args.out.suffix != ".onnx":
        raise UsageError(f"--out {args.out}: give a name that ends in .onnx; its sidecar goes beside it.")
    if Path(args.network).resolve() == args.out.resolve():
        raise UsageError(f"--out {args.out} is the network itself; give another name.")
    check_new_files(args.out, args.out.with_suffix(".json"), overwrite=args.overwrite)
    account = Account()
    clips = clips_of(args, account)
    if not clips:
        return 1
    from clockseg.networks.quantization import quantize

    found = quantize(
        args.network,
        clips,
        args.out,
        frames=args.frames,
        ends=args.ends,
        engine=args.engine,
        threads=args.threads,
        size=args.size,
        repeat=args.repeat,
        say=_silent if args.quiet or args.json else _told,
        problem=account.cut_short,
    )
    print(json.dumps(found.facts(), allow_nan=False) if args.json else text(found))
    if not (args.json or args.quiet):
        print(f"{found.path}\nnext: clockseg segment VIDEO --network {found.path} --out results")
    return 1 if account.troubles else 0


def text(found: Quantization) -> str:
    """Return the result as a table for reading."""
    width, height = found.size
    before, now = found.bytes
    many, all = found.layers
    rows = [["part", "ms in float", "ms", "times as fast"]]
    rows += [
        [one.name, f"{1e3 * one.before:.2f}", f"{1e3 * one.now:.2f}", f"{one.speed_up:.2f}"]
        for one in found.parts
        if one.before or one.now
    ]
    return "\n".join(
        [
            f"{found.network} in 8 bits: {many} of {all} layers with weights; {width}x{height}, {found.engine}, "
            f"calibrated on {found.frames} frames",
            *([f"in float at its ends: {', '.join(found.ends)}"] if found.ends else []),
            f"agreement with float on {found.held_out} other frames: {_agreement(found.agreement)}",
            f"file: {before / 1e6:.1f} MB, now {now / 1e6:.1f} MB",
            "",
            align(rows),
        ]
    )


def _agreement(found: Agreement) -> str:
    if found.mean_iu is not None:
        return f"mean IU {percent(found.mean_iu)}, pixels {percent(found.pixel_acc)}"
    if found.difference is not None:
        return f"relative difference {found.difference:.4f}"
    return "not known: there is no other frame"


def _told(what: str) -> None:
    print(f"clockseg: {what}", file=sys.stderr, flush=True)


def _silent(what: str) -> None:
    """For --quiet and --json."""
