"""``clockseg train heads``: score maps for the stages of a network that has none, learnt from its own output."""

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
    positive,
    read_data_options,
)
from clockseg.cli._progress import counting
from clockseg.cli._terminal import align, percent, shown

if TYPE_CHECKING:
    from clockseg.datasets.clips import Clip
    from clockseg.training import Trained

DESCRIPTION = """Give the stages of a network class scores, so that adaptive clocks can watch them.

Most networks give class scores at their end only. A head is a 1x1 convolution on a stage's features, fitted to the labels
that the network itself gives: VIDEO needs no labels, and the network stays as it is, bit for bit. NAME.onnx is the same
file with the heads' score maps as further outputs; its sidecar NAME.json names them. The last fifth of each clip is kept
apart to tell how well each head agrees with the output (over cells), and how well the change of its labels tells how much
the output's labels change: the rank correlation over pairs of frames, beside that of the features' difference."""


def add_parser(networks: Any) -> None:
    """``clockseg train heads`` and its options."""
    parser = networks.add_parser(
        "heads",
        help="score maps for the stages of any network with classes, from unlabelled video",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("network", metavar="NET", help="a NAME.onnx with its sidecar NAME.json beside it")
    parser.add_argument(
        "data", nargs="+", metavar="VIDEO", help="videos, clips, folders of pictures; labels aren't read"
    )
    parser.add_argument("--out", required=True, type=Path, metavar="NAME.onnx", help="the file to write")
    parser.add_argument("--overwrite", action="store_true", help="replace what is there")
    parser.add_argument(
        "--stage",
        action="append",
        default=[],
        metavar="NAME",
        help="the stage to give a head; may be given several times (default: all but the last that have no scores)",
    )
    parser.add_argument(
        "--validation",
        action="append",
        default=[],
        metavar="VIDEO",
        help="tell how good they are on these frames instead",
    )
    parser.add_argument(
        "--frames", type=positive, default=240, metavar="N", help="frames to learn from, spread evenly (default: 240)"
    )
    parser.add_argument("--seed", type=count, default=0, metavar="N", help="which cells are looked at (default: 0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    add_data_options(parser)
    add_engine_options(parser.add_argument_group("engine"))
    add_frames_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Train, write and print; 1 if a clip was left out or cut short."""
    check_new_network(args.out, overwrite=args.overwrite)
    account = Account()
    clips = clips_of(args, account)
    if not clips:
        return 1
    validation = [clip for data in args.validation for clip in read_data_options(args, data)]
    found = _trained(args, clips, validation, account)
    print(json.dumps(found.facts, allow_nan=False) if args.json else table(found))
    if not (args.json or args.quiet):
        print(f"{found.path}\nnext: clockseg tune {args.data[0]} --fire-rate 0.5 --network {found.path}")
    return 1 if account.troubles else 0


def _trained(args: argparse.Namespace, clips: list[Clip], validation: list[Clip], account: Account) -> Trained:
    from clockseg.training.heads import train_heads

    return train_heads(
        args.network,
        clips,
        args.out,
        stages=args.stage,
        validation=validation,
        frames=args.frames,
        seed=args.seed,
        engine=args.engine,
        precision=args.precision,
        threads=args.threads,
        size=args.size,
        progress=counting("frames", quiet=args.quiet),
        warn=account.cut_short,
    )


HEAD = ("stage", "features", "channels", "cells", "mean IU", "pixels", "change: head", "features")


def table(found: Trained) -> str:
    """A row a head, aligned; ``-`` where nothing was kept apart to tell."""
    rows = []
    for head in found.facts["heads"]:
        agreement, correlation = head["agreement"], head["correlation"]
        rows.append(
            [
                head["stage"],
                head["features"],
                str(head["channels"]),
                str(head["cells"]),
                percent(agreement["mean_iu"]),
                percent(agreement["pixel_acc"]),
                *(shown(correlation[which], lambda value: f"{value:.2f}") for which in ("head", "features")),
            ]
        )
    return align([list(HEAD), *rows], left=2)
