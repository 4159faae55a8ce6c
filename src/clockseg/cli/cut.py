"""``clockseg cut``: cut any network into stages, as an ONNX file with a sidecar."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from clockseg.cli import options
from clockseg.cli.inspect import parts_table
from clockseg.cli.terminal import align, percent, say, sides, warn
from clockseg.errors import DataError, UsageError

if TYPE_CHECKING:
    from clockseg.networks.cutting import CutNetwork
    from clockseg.networks.source import Said

HELP = "cut any network into stages"
DESCRIPTION = """Cut a network into stages. Writes NAME.onnx, a copy of the network, and NAME.json beside it: the preprocessing, the classes,
the cuts and a recommended schedule. All other commands read these two files.

MODEL is an ONNX file, a transformers checkpoint in a local folder or on the Hugging Face hub (hf:), or a torchvision network with
its published weights. Options that you do not give are read from the model or found by trial, and printed. The files are
written only if the network gives the same output in stages and as a whole."""


SAID = ("output", "ignore", "size", "mean", "std", "scale", "colour", "pad_multiple")
"""Options that say something about the network."""
factor = options.real("a number other than 0, such as 1/255", lambda number: number != 0)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``clockseg cut``."""
    parser.add_argument(
        "model", metavar="MODEL", help="FILE.onnx, hf:DIRECTORY, hf:ORG/NAME[@REVISION] or torchvision:NAME"
    )
    options.add_new_network_options(parser)
    _add_cut_options(parser.add_argument_group("cuts"))
    _add_frame_options(parser.add_argument_group("preprocessing: x = (pixel * scale - mean) / std"))
    _add_class_options(parser.add_argument_group("output"))
    group = parser.add_argument_group("check")
    options.add_options(group, "--engine", "--threads")


def _add_cut_options(group: argparse._ArgumentGroup) -> None:
    help = "the end of each stage, in order: a tensor, node or module; A+B to cut two branches together (default: auto)"
    group.add_argument("--at", default="auto", metavar="auto|NAME,NAME", help=help)
    group.add_argument(
        "--stages", type=options.positive, metavar="N", help="with --at auto: number of stages (default: 3)"
    )
    help = (
        "schedule to recommend in the sidecar (default: with --video the one that agrees most in a third of the uncut time, "
        "else carried(skip_frame(6), interpolate(flow)))"
    )
    one = group.add_mutually_exclusive_group()
    one.add_argument("--schedule", metavar="SPEC", help=help)
    help = "measure schedules on this video, which needs no labels, and recommend the best; repeatable"
    one.add_argument("--video", action="append", default=[], metavar="VIDEO", help=help)


def _add_frame_options(group: argparse._ArgumentGroup) -> None:
    help = "working size (default: the file's, if it is fixed)"
    group.add_argument("--size", type=options.size, metavar="WIDTHxHEIGHT", help=help)
    for name in ("--mean", "--std"):
        group.add_argument(name, type=options.three, metavar="N,N,N", help="one number per channel, or one for all")
    help = "factor for pixel values (default: 1/255, or 1 if a mean is above 2)"
    group.add_argument("--scale", type=factor, metavar="N", help=help)
    group.add_argument("--colour", choices=("rgb", "bgr"), help="channel order (default: rgb)")
    help = "pad frames to multiples of N (default: the smallest that works)"
    group.add_argument("--pad-multiple", type=options.positive, metavar="N", help=help)


def _add_class_options(group: argparse._ArgumentGroup) -> None:
    help = "tensor of class scores or of class ids (default: the only output)"
    group.add_argument("--output", metavar="NAME", help=help)
    help = (
        "class names, separated by commas, or a file of them: one per line, a JSON list, a JSON object of id: name, or a data "
        "set's classes.json, with optional colours; none if the output is a map of numbers, such as depth"
    )
    group.add_argument("--classes", metavar="NAMES|FILE|none", help=help)
    help = "id of pixels without a class (default: 255)"
    group.add_argument("--ignore", type=options.whole(0, 255), metavar="ID", help=help)


def run(args: argparse.Namespace) -> int:
    """Cut, check, write, and print what was found."""
    from clockseg.datasets import read_data
    from clockseg.networks.cutting import cut_network
    from clockseg.networks.load import is_named, named_source
    from clockseg.networks.settling import Cutting
    from clockseg.networks.source import Said
    from clockseg.planning.planner import Callbacks
    from clockseg.planning.recommendation import recommend, timed_default

    if args.at != "auto" and args.stages:
        raise UsageError("--stages needs --at auto; with names there is one stage per name.")
    options.check_new_network(args.out, overwrite=args.overwrite)
    said = Said(**{name: getattr(args, name) for name in SAID}).over(_classes(args.classes))
    cutting = Cutting(at=args.at, stages=args.stages or 3, schedule=args.schedule)
    how = {"engine": args.engine, "threads": args.threads}
    clips = [clip for video in args.video for clip in read_data(video)]
    named = is_named(args.model)
    source = named_source(args.model, given=said, tell=say, **how) if named else Path(args.model)
    found = cut_network(source, args.out, said=said, cutting=cutting, **how)
    if clips:
        try:
            found = recommend(found, clips, callbacks=Callbacks(step=say), **how)
        except (UsageError, DataError) as error:
            warn(f"no schedule was measured, so the default is recommended: {error}")
    elif args.schedule is None:
        found = timed_default(found, **how)
    print(report(found))
    return 0


def _classes(text: str | None) -> Said:
    """Return what ``--classes`` specifies."""
    from clockseg.datasets.classes import checked_names
    from clockseg.networks.source import Said, read_class_names

    if text is None:
        return Said()
    if text == "none":
        return Said(classes=())
    if "," in text and not Path(text).exists():
        return Said(classes=checked_names(options.kinds(text), "--classes"))
    return read_class_names(Path(text))


def report(found: CutNetwork) -> str:
    """Format a report on the network that was cut."""
    settled = [(f"  {what}", value, why) for what, value, why in found.told]
    warning = found.inspection.warning
    blocks = [
        f"{found.file} ({found.file.stat().st_size / 1e6:.1f} MB)\n{found.file.with_suffix('.json')}",
        f"settings found\n{align(settled, left=3)}" if settled else "",
        _cuts(found),
        _parts(found),
        "\n".join([f"note: {note}" for note in found.notes] + ([] if warning is None else [f"warning: {warning}"])),
        _next(found),
    ]
    return "\n\n".join(block for block in blocks if block)


def _cuts(found: CutNetwork) -> str:
    shapes = {name: shape for part in found.inspection.parts for name, shape in part.cut.items()}
    lines = [
        f"  stage {number} ends at {' + '.join(f'{name} {sides(shapes.get(name, ()))}' for name in cut)}"
        for number, cut in enumerate(found.sidecar.cuts, start=1)
    ]
    choice = found.choice
    if choice is not None:
        kept = "" if choice.reaching[0] else ", but keeps the old output"
        share = f"{percent(choice.every_frame)} of {choice.work}"
        lines.append(f"  chosen: a frame on which only stage 1 fires takes {share}{kept}")
    return "cut\n" + "\n".join(lines)


def _parts(found: CutNetwork) -> str:
    seen = found.inspection
    width, height = seen.size
    apart = "identical"
    if found.apart:
        apart = f"at most {found.apart:.1e} of the largest value (or of the class ids) apart"
    return "\n".join(
        [
            f"cost at {width}x{height} in {seen.engine}, threads: {seen.threads}",
            parts_table((*seen.parts, seen.whole)),
            f"outputs in stages and whole: {apart}, on noise and on a picture",
        ]
    )


def _next(found: CutNetwork) -> str:
    """Format the commands to run next, of those whose libraries are installed."""
    from importlib.util import find_spec

    file = found.file
    lines = [
        f"recommended schedule: {found.sidecar.schedule or 'none'}",
        "next:",
        f"  clockseg segment VIDEO --network {file} --out results",
    ]
    if found.sidecar.instances is not None:
        return "\n".join(lines)
    lines += [
        "  # find the best schedule for your video:",
        f"  clockseg plan VIDEO --network {file} --keep 0.98 --out {file.with_suffix('.toml')}",
    ]
    if find_spec("onnxruntime"):
        int8 = file.with_name(f"{file.stem}-int8.onnx")
        lines += ["  # int8:", f"  clockseg quantize {file} VIDEO --out {int8}"]
    return "\n".join(lines)
