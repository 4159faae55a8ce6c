"""``clockseg train clock``: a clock that predicts what a firing would change, learnt from unlabelled video."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clockseg.cli._clips import Account, clips_of
from clockseg.cli._options import (
    add_data_options,
    add_engine_options,
    add_frames_options,
    check_new_network,
    count,
    need_torch,
    positive,
)
from clockseg.cli._progress import counting, watched
from clockseg.cli._terminal import align, percent, shown

if TYPE_CHECKING:
    from clockseg.datasets.clips import Clip
    from clockseg.training import Trained

DESCRIPTION = """Teach a small graph when the network is worth running.

The network runs once on every frame of VIDEO, which needs no labels. What would be shown between firings is then played at
random ages, under --carry, and the graph learns to predict the share of labels that differ from the network's own: what a
firing would change. --form frames reads small pictures now and at the last firing, and what motion leaves unexplained;
history reads five numbers for each of the last 16 frames. NAME.onnx is the clock: learned("NAME.onnx", threshold), or
budget(learned("NAME.onnx"), network_rate=0.25). NAME.json says what it reads and how good it is on the last fifth of
the frames, which it didn't learn from; NAME.log.jsonl is the log, and --resume goes on from NAME.state.pt."""


def add_parser(networks: Any) -> None:
    """``clockseg train clock`` and its options."""
    parser = networks.add_parser(
        "clock",
        help="a clock that predicts what a firing would change, from unlabelled video",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("data", nargs="+", metavar="VIDEO", help="videos, clips, folders of frames; labels aren't read")
    parser.add_argument("--network", default="street", metavar="NET", help="the network it is for (default: street)")
    parser.add_argument("--out", required=True, type=Path, metavar="NAME.onnx", help="the file to write")
    parser.add_argument("--overwrite", action="store_true", help="replace what is there")
    parser.add_argument("--resume", action="store_true", help="go on from NAME.state.pt, if it is there")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    _add_how(parser.add_argument_group("how"))
    add_data_options(parser)
    add_engine_options(parser.add_argument_group("engine"))
    add_frames_options(parser)
    parser.set_defaults(run=run)


def _add_how(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--form", choices=("frames", "history"), default="frames", help="what it reads (default: frames)"
    )
    group.add_argument(
        "--carry",
        default="warp(flow)",
        metavar="SPEC",
        help='the carry that the clock will run under: identity, or "warp(flow|codec|auto, scale=0.5)" (default: warp(flow))',
    )
    group.add_argument(
        "--frames",
        type=positive,
        default=600,
        metavar="N",
        help="of video to run the network on, the first of each clip (default: 600)",
    )
    group.add_argument(
        "--passes", type=positive, default=4, metavar="N", help="over the frames, at other ages each (default: 4)"
    )
    group.add_argument("--steps", type=positive, metavar="N", help="of the training (default: 1500)")
    group.add_argument("--seed", type=count, default=0, metavar="N", help="of everything random (default: 0)")


def run(args: argparse.Namespace) -> int:
    """Train, write and print; 1 if a clip was left out or cut short."""
    need_torch("training")
    check_new_network(args.out, overwrite=args.overwrite or args.resume)
    account = Account()
    clips = clips_of(args, account)
    if not clips:
        return 1
    found = _trained(args, clips, account)
    if args.json:
        print(json.dumps(found.facts, allow_nan=False))
    elif not args.quiet:
        print(table(found.facts))
        print(f"{found.path}\nnext: {_next(args, found)}")
    return 1 if account.troubles else 0


def _next(args: argparse.Namespace, found: Trained) -> str:
    schedule = f'budget(learned("{found.path}"), network_rate=0.25)'
    return f"clockseg segment VIDEO --out results --network {args.network} --carry \"{args.carry}\" --schedule '{schedule}'"


def _trained(args: argparse.Namespace, clips: list[Clip], account: Account) -> Trained:
    from dataclasses import replace

    from clockseg.carry import parse_carry
    from clockseg.training.clock import RECIPE, Choices, train_clock

    choices = Choices(
        form=args.form,
        carry=parse_carry(args.carry),
        frames=args.frames,
        passes=args.passes,
        seed=args.seed,
        resume=args.resume,
        recipe=RECIPE if args.steps is None else replace(RECIPE, steps=args.steps),
    )
    quiet = args.quiet or args.json
    return train_clock(
        args.network,
        clips,
        args.out,
        choices=choices,
        engine=args.engine,
        precision=args.precision,
        threads=args.threads,
        size=args.size,
        say=watched(_line, quiet=quiet),
        progress=counting("frames", quiet=quiet),
        warn=account.cut_short,
    )


def table(facts: dict[str, Any]) -> str:
    """A row a clock on the frames kept apart: rank correlation, and pixel agreement at each rate; ``-``: not told."""
    held = facts["held_out"]
    names = [*held["agreement"][0]["pixels"], "since"]
    rows = [["on held-out frames", "correlation", *(f"pixels at 1/{row['period']}" for row in held["agreement"])]]
    for name in names:
        correlation = shown(held["correlation"].get(name), lambda value: f"{value:.2f}")
        rows.append([name, correlation, *(shown(row["pixels"].get(name), percent) for row in held["agreement"])])
    return align(rows, left=1)


def _line(entry: dict[str, Any]) -> str | None:
    """Of an entry of the log, what one wants to watch."""
    if entry["event"] == "step":
        return f"step {entry['step']} of {entry['of']}  loss {entry['loss']:.4f}  {entry['minutes']:.1f} min"
    if entry["event"] == "start":
        return f"{entry['samples']} samples; a firing would change {percent(entry['change'])} of their labels"
    return None
