"""``clockseg train``: a clock for a network, learned from its outputs on unlabelled video."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import Any

from clockseg.cli import options
from clockseg.cli.loading import Clips
from clockseg.cli.terminal import align, counting, percent, print_result
from clockseg.networks import DRIVING

HELP = "train a clock for a network"
DESCRIPTION = "Train a clock for a network on unlabelled video. Options: clockseg train clock --help"
CLOCK = """Train a clock: a small network that predicts how much a firing would change.

The network runs once on every frame of VIDEO, which needs no labels. Schedules that fire at random intervals are then
replayed under --carry, and the clock learns to predict the share of labels that differ from the network's own. The clock
reads thumbnails of this frame and of the last firing, and the motion residual. NAME.json holds its inputs and its scores on
the last fifth of the frames, which are held out.

Use the clock as learned("NAME.onnx", threshold) or budget(learned("NAME.onnx"), network_rate=0.25)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``clock`` and its arguments to ``clockseg train``."""
    kinds = parser.add_subparsers(metavar="KIND", required=True)
    help = "a clock that predicts how much a firing would change"
    parser = kinds.add_parser("clock", help=help, description=CLOCK)
    options.add_data_options(parser, "VIDEO", "videos and clips; labels are not used")
    options.add_options(parser, "--network", default=DRIVING, help=f"{options.NETWORK_HELP} (default: {DRIVING})")
    options.add_new_network_options(parser)
    group = parser.add_argument_group("training")
    help = 'carry that the clock will run under: identity, or "warp(flow|codec|auto, scale=0.5)" (default: warp(flow))'
    group.add_argument("--carry", default="warp(flow)", metavar="SPEC", help=help)
    help = "frames to run the network on, the first ones of each clip (default: 600)"
    group.add_argument("--frames", type=options.positive, default=600, metavar="N", help=help)
    group.add_argument(
        "--steps", type=options.positive, default=1500, metavar="N", help="training steps (default: 1500)"
    )
    group.add_argument("--seed", type=options.count, default=0, metavar="N", help="random seed (default: 0)")
    options.add_options(parser, "--json")
    options.add_group(parser, "engine", *options.ENGINE)
    options.add_frames_options(parser)


def run(args: argparse.Namespace) -> int:
    """Train a clock, write and print; 1 if a clip was left out or cut short."""
    options.need("torch", "safetensors", what="training")
    from clockseg.carry import parse_carry
    from clockseg.training.clock import train_clock

    options.check_new_network(args.out, overwrite=args.overwrite)
    carry, clips, quiet = parse_carry(args.carry), Clips(args), options.is_quiet(args)
    found = train_clock(
        args.network,
        clips.all,
        args.out,
        carry=carry,
        say=(lambda line: None) if quiet else partial(print, file=sys.stderr, flush=True),
        progress=counting("frames", quiet=quiet),
        warn=clips.cut_short,
        **{name: getattr(args, name) for name in ("frames", "steps", "seed")},
        **options.engine_options(args),
    )
    print_result(args, found, lambda: _table(found))
    if not quiet:
        schedule = f"'budget(learned(\"{args.out}\"), network_rate=0.25)'"
        print(
            f'{args.out}\nnext: clockseg segment VIDEO --out results --network {args.network} --carry "{args.carry}" '
            f"--schedule {schedule}"
        )
    return clips.exit_code


def _table(facts: dict[str, Any]) -> str:
    """Format one row per clock on held-out frames: pixel agreement at each rate."""
    rates = facts["held_out"]["agreement"]
    rows = [["on held-out frames", *(f"pixels at 1/{row['period']}" for row in rates)]]
    rows += [[name, *(percent(row["pixels"][name]) for row in rates)] for name in rates[0]["pixels"]]
    return align(rows)
