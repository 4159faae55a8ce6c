"""Train a correction for propagated scores.

    python -m recipes.street.correction street camvid/train solidWhiteRight.mp4 --hold-out 0001TP --out DIR

Under a carry that estimates motion (--carry "warp(flow)"), most frames show the scores of an earlier frame, propagated along
the motion. The correction is a small fusion network that reads the propagated scores, the motion residual, and the picture; no
stage of the network runs on such a frame. The network stays as it is; its own scores are the target, and labels are not read.
DATA are videos or folders of consecutive frames.

DIR gets NAME.onnx (the unchanged network followed by its correction) with its sidecar, log.jsonl, and state.pt, from
which --resume continues. The correction is not used on frames on which a stage fires.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from clockseg.cli.clips import Clips
from clockseg.cli.main import run_command
from clockseg.cli.options import above_zero, add_data_options, add_frames_options, count, need, positive
from clockseg.cli.progress import counting
from clockseg.cli.terminal import align, percent


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    found = argparse.ArgumentParser(prog="python -m recipes.street.correction", description=__doc__, allow_abbrev=False)
    found.formatter_class = argparse.RawDescriptionHelpFormatter
    found.add_argument("network", metavar="NET", help="a bundled network, or FILE.onnx with its sidecar beside it")
    add_data_options(found, "DATA", "videos, clips, folders of pictures")
    found.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder for the results")
    found.add_argument(
        "--name", metavar="NAME", help="name of the file NAME.onnx (default: the network's, with -stale)"
    )
    found.add_argument("--resume", action="store_true", help="continue from DIR/state.pt, if it exists")
    found.add_argument("--samples", type=positive, default=1000, metavar="N", help="samples (default: 1000)")
    found.add_argument("--steps", type=positive, default=2400, metavar="N", help="steps (default: 2400)")
    found.add_argument(
        "--minutes", type=above_zero, metavar="M", help="stop after this many minutes, if that is sooner"
    )
    help = "hold out this clip to score on; repeatable (default: every eighth frame)"
    found.add_argument("--hold-out", action="append", default=[], metavar="CLIP", help=help)
    found.add_argument("--seed", type=count, default=0, metavar="N", help="random seed (default: 0)")
    found.add_argument("--engine", default="auto", help="default: auto")
    found.add_argument("--threads", type=positive, metavar="N", help="default: all cores")
    add_frames_options(found)
    found.set_defaults(run=train)
    return found


def train(args: argparse.Namespace) -> int:
    """Train, print the scores on held-out frames and the path of the network; 1 if a clip was left out or cut short."""
    need("torch", "safetensors", what="training")
    from recipes.street.correction.training import RECIPE, Choices, train_correction

    clips = Clips(args)
    same = {name: getattr(args, name) for name in ("samples", "seed", "minutes", "resume")}
    choices = Choices(hold_out=tuple(args.hold_out), recipe=replace(RECIPE, steps=args.steps), **same)
    found = train_correction(
        args.network,
        clips.all,
        args.out,
        choices=choices,
        name=args.name,
        say=lambda entry: None if args.quiet or not _line(entry) else print(_line(entry), file=sys.stderr, flush=True),
        progress=counting("samples", quiet=args.quiet),
        warn=clips.cut_short,
        engine=args.engine,
        threads=args.threads,
    )
    print(f"{_table(found.facts)}\n{found.path}")
    return clips.exit_code


def _line(entry: dict[str, Any]) -> str | None:
    """Format an entry of the log; None if it is not shown."""
    if entry["event"] == "step":
        return f"step {entry['step']} of {entry['of']}  loss {entry['loss']:.4f}  {entry['minutes']:.1f} min"
    return f"{entry['samples']} samples, {entry['held_out']} held out" if entry["event"] == "start" else None


def _table(facts: dict[str, Any]) -> str:
    """Format the mIoU with the network's own labels, by the age of the scores."""
    rows = [["frames old", "samples", "propagated", "corrected"]]
    for age, row in facts["held_out"].items():
        rows.append([age, str(row["samples"]), *(percent(row[name]) for name in ("moved", "corrected"))])
    return align(rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    return run_command(parser().parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
