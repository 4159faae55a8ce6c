"""``clockseg train``: score heads and clocks for a network, learned from its own outputs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from clockseg.cli.clips import Clips
from clockseg.cli.options import (
    ENGINE,
    NETWORK_HELP,
    add_data_options,
    add_frames_options,
    add_group,
    add_options,
    check_new_network,
    count,
    engine_options,
    is_quiet,
    need,
    new_command,
    positive,
)
from clockseg.cli.progress import counting, watched
from clockseg.cli.terminal import align, percent, print_result
from clockseg.networks import DRIVING

if TYPE_CHECKING:
    from clockseg.datasets.clips import Clip
    from clockseg.training import Trained

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

HEADS = """Give the stages of a network class scores, so that adaptive clocks can watch them.

Most networks compute class scores at their end only. A head is a 1x1 convolution on a stage's features, fitted to the labels
that the network itself gives: VIDEO needs no labels, and the network stays as it is, bit for bit. NAME.onnx is the same
network with the heads' score maps as further outputs, which its sidecar NAME.json names. The last fifth of each clip is held
out to measure how well each head agrees with the output, over the cells of its map."""
CLOCK = """Train a clock: a small network that predicts how much a firing would change.

The network runs once on every frame of VIDEO, which needs no labels. Schedules that fire at random intervals are then
replayed under --carry, and the clock learns to predict the share of labels that differ from the network's own. The clock
reads small pictures of this frame and of the last firing, and the motion residual. NAME.onnx is the clock: learned("NAME.onnx", threshold), or
budget(learned("NAME.onnx"), network_rate=0.25). NAME.json holds its inputs and its scores on the last fifth of the frames,
which are held out."""


def add_parser(commands: Commands) -> None:
    """Add ``clockseg train heads`` and ``clock``."""
    parser = commands.add_parser(
        "train",
        help="train score heads or a clock for a network",
        description="Train an addition to a network from unlabelled video. Options: clockseg train KIND --help",
    )
    kinds = parser.add_subparsers(metavar="KIND", required=True)
    _add_heads(kinds)
    _add_clock(kinds)


def _add_heads(kinds: Commands) -> None:
    help = "score maps for the stages of any network with classes, from unlabelled video"
    parser = new_command(kinds, "heads", run_heads, help=help, description=HEADS)
    parser.add_argument("network", metavar="NET", help="a NAME.onnx with its sidecar NAME.json beside it")
    add_data_options(parser, "VIDEO", "videos, clips, folders of pictures; labels are not read")
    parser.add_argument("--out", required=True, type=Path, metavar="NAME.onnx", help="file to write")
    add_options(parser, "--overwrite", help="replace existing NAME.onnx and NAME.json")
    group = parser.add_argument_group("training")
    help = "stage to add a head to; repeatable (default: every stage without scores but the last)"
    group.add_argument("--stage", action="append", default=[], metavar="NAME", help=help)
    help = "frames to learn from, evenly spaced (default: 240)"
    group.add_argument("--frames", type=positive, default=240, metavar="N", help=help)
    _add_shared(parser, group)


def _add_clock(kinds: Commands) -> None:
    help = "a clock that predicts what a firing would change, from unlabelled video"
    parser = new_command(kinds, "clock", run_clock, help=help, description=CLOCK)
    add_data_options(parser, "VIDEO", "videos, clips, folders of frames; labels are not read")
    add_options(parser, "--network", default=DRIVING, help=f"{NETWORK_HELP} (default: {DRIVING})")
    parser.add_argument("--out", required=True, type=Path, metavar="NAME.onnx", help="file to write")
    add_options(parser, "--overwrite", help="replace existing NAME.onnx and NAME.json")
    group = parser.add_argument_group("training")
    help = 'carry that the clock will run under: identity, or "warp(flow|codec|auto, scale=0.5)" (default: warp(flow))'
    group.add_argument("--carry", default="warp(flow)", metavar="SPEC", help=help)
    help = "frames of video to run the network on, the first of each clip (default: 600)"
    group.add_argument("--frames", type=positive, default=600, metavar="N", help=help)
    group.add_argument("--steps", type=positive, default=1500, metavar="N", help="steps (default: 1500)")
    _add_shared(parser, group)


def _add_shared(parser: argparse.ArgumentParser, training: argparse._ArgumentGroup) -> None:
    training.add_argument("--seed", type=count, default=0, metavar="N", help="random seed (default: 0)")
    add_options(parser, "--json")
    add_group(parser, "engine", *ENGINE)
    add_frames_options(parser)


def run_heads(args: argparse.Namespace) -> int:
    """Train heads, write and print; 1 if a clip was left out or cut short."""
    from clockseg.training.heads import train_heads

    check_new_network(args.out, overwrite=args.overwrite)
    same = {name: getattr(args, name) for name in ("frames", "seed")}

    def train(clips: list[Clip], how: dict[str, Any]) -> Trained:
        return train_heads(args.network, clips, args.out, stages=args.stage, **same, **how)

    def next(found: Trained) -> str:
        return f"next: clockseg tune {args.data[0]} --fire-rate 0.5 --network {found.path}"

    return _run(args, train, _heads_table, next, "frames")


def run_clock(args: argparse.Namespace) -> int:
    """Train a clock, write and print; 1 if a clip was left out or cut short."""
    need("torch", "safetensors", what="training")
    from clockseg.carry import parse_carry
    from clockseg.training.clock import train_clock

    check_new_network(args.out, overwrite=args.overwrite)
    same = {name: getattr(args, name) for name in ("frames", "steps", "seed")}
    carry = parse_carry(args.carry)

    def train(clips: list[Clip], how: dict[str, Any]) -> Trained:
        say = watched(_line, quiet=is_quiet(args))
        return train_clock(args.network, clips, args.out, carry=carry, say=say, **same, **how)

    def next(found: Trained) -> str:
        schedule = f"'budget(learned(\"{found.path}\"), network_rate=0.25)'"
        return (
            f'next: clockseg segment VIDEO --out results --network {args.network} --carry "{args.carry}" '
            f"--schedule {schedule}"
        )

    return _run(args, train, _clock_table, next, "frames")


def _run(
    args: argparse.Namespace,
    train: Callable[[list[Clip], dict[str, Any]], Trained],
    table: Callable[[dict[str, Any]], str],
    next: Callable[[Trained], str],
    unit: str,
) -> int:
    """Read the clips, ``train`` on them and print the ``table`` of the results and the ``next`` command."""
    clips = Clips(args)
    how = {"progress": counting(unit, quiet=is_quiet(args)), "warn": clips.cut_short}
    found = train(clips.all, engine_options(args) | how)
    print_result(args, found.facts, lambda: table(found.facts))
    if not is_quiet(args):
        print(f"{found.path}\n{next(found)}")
    return clips.exit_code


def _line(entry: dict[str, Any]) -> str | None:
    """Format an entry of a training's log; None if it is not shown."""
    if entry["event"] == "step":
        return f"step {entry['step']} of {entry['of']}  loss {entry['loss']:.4f}"
    if entry["event"] != "start":
        return None
    return f"{entry['samples']} samples; a firing would change {percent(entry['change'])} of their labels"


def _heads_table(facts: dict[str, Any]) -> str:
    """Format one row per head; a dash where nothing was held out to measure on."""
    rows = [["stage", "features", "channels", "cells", "mIoU", "pixels"]]
    for head in facts["heads"]:
        row = [head["stage"], head["features"], str(head["channels"]), str(head["cells"])]
        rows.append(row + [percent(head["agreement"][name]) for name in ("mean_iu", "pixel_acc")])
    return align(rows, left=2)


def _clock_table(facts: dict[str, Any]) -> str:
    """Format one row per clock on held-out frames: pixel agreement at each rate."""
    rates = facts["held_out"]["agreement"]
    rows = [["on held-out frames", *(f"pixels at 1/{row['period']}" for row in rates)]]
    rows += [[name, *(percent(row["pixels"][name]) for row in rates)] for name in rates[0]["pixels"]]
    return align(rows)
