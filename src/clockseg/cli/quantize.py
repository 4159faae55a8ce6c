"""``clockseg quantize``: a network in 8 bits, calibrated on video without labels."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from clockseg.cli import options
from clockseg.cli.loading import Clips
from clockseg.cli.terminal import columns, percent, print_result, say
from clockseg.errors import UsageError
from clockseg.libraries import CPU_ENGINES

if TYPE_CHECKING:
    from clockseg.networks.quantization import Agreement, Quantization

HELP = "write a network in 8 bits, calibrated on video"
DESCRIPTION = """Write a network in 8 bits: a quarter of the size, and about twice as fast on processors with 8-bit arithmetic.

The range of every feature map is measured on frames of VIDEO, which needs no labels. Use footage like that on which the
network will be used. NAME.onnx is an ordinary network with the same tensors and cuts, with its sidecar NAME.json beside it,
and every command takes it. The output shows how well it agrees with the original on frames that were not used for
calibration, and the time of each part on this machine."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``clockseg quantize``."""
    parser.add_argument("network", metavar="NET", help="a bundled network, or FILE.onnx with its sidecar beside it")
    options.add_data_options(parser, "VIDEO", "videos and clips; labels are not used")
    options.add_new_network_options(parser)
    help = "frames to calibrate on, evenly spaced (default: 60)"
    parser.add_argument("--frames", type=options.positive, default=60, metavar="N", help=help)
    parser.add_argument("--repeat", type=options.positive, default=20, metavar="N", help="timed runs (default: 20)")
    options.add_options(parser, "--json")
    group = parser.add_argument_group("network")
    options.add_options(
        group, "--size", help="working size to calibrate at, stated in NAME.json (default: the network's)"
    )
    options.add_options(group, "--engine", choices=("auto", *CPU_ENGINES), help="engine that runs both (default: auto)")
    options.add_options(group, "--threads")
    options.add_frames_options(parser)


def run(args: argparse.Namespace) -> int:
    """Quantize, write and print; 1 if a clip was left out or cut short."""
    if Path(args.network).resolve() == args.out.resolve():
        raise UsageError(f"--out {args.out} is the network itself; give another name.")
    options.check_new_network(args.out, overwrite=args.overwrite)
    clips = Clips(args)
    from clockseg.networks.quantization import quantize

    how = {name: getattr(args, name) for name in ("frames", "engine", "threads", "size", "repeat")}
    tell = (lambda what: None) if options.is_quiet(args) else say
    found = quantize(args.network, clips.all, args.out, say=tell, problem=clips.cut_short, **how)
    print_result(args, found.facts(), lambda: _text(found))
    if not options.is_quiet(args):
        print(f"{found.file}\nnext: clockseg segment VIDEO --network {found.file} --out results")
    return clips.exit_code


def _text(found: Quantization) -> str:
    """Return the result as a table for reading."""
    width, height = found.size
    cells: dict[str, Callable[[str], str]] = {
        "part": str,
        "ms in float": lambda name: f"{1e3 * found.parts[name]['f32_seconds']:.2f}",
        "ms": lambda name: f"{1e3 * found.parts[name]['int8_seconds']:.2f}",
        "times as fast": lambda name: f"{found.parts[name]['speed_up']:.2f}",
    }
    return "\n".join(
        [
            f"{found.network} in 8 bits: {found.layers['int8']} of {found.layers['all']} layers with weights; "
            f"{width}x{height}, {found.engine}, calibrated on {found.calibration_frames} frames",
            f"agreement with float on {found.held_out_frames} other frames: {_agreement(found.agreement)}",
            f"file: {found.bytes['f32'] / 1e6:.1f} MB, now {found.bytes['int8'] / 1e6:.1f} MB",
            "",
            columns([name for name, one in found.parts.items() if one["f32_seconds"] or one["int8_seconds"]], cells),
        ]
    )


def _agreement(found: Agreement) -> str:
    if found.mean_iu is not None:
        return f"mIoU {percent(found.mean_iu)}, pixels {percent(found.pixel_acc)}"
    if found.difference is not None:
        return f"relative difference {found.difference:.4f}"
    return "unknown, as there are no other frames"
