"""Train the paper's FCNs and its stage baselines.

python -m recipes.fcn fcn8s DATA --vgg16 VGG_ILSVRC_16_layers.caffemodel --out DIR
clockseg evaluate DATA --network DIR/fcn8s.onnx
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from clockseg.cli.main import run_command
from clockseg.cli.options import above_zero, add_group, need, positive, size
from clockseg.errors import UsageError
from recipes.options import add_run, say_lines

if TYPE_CHECKING:
    from recipes.fcn.recipe import FCNRecipe

NETWORKS = {
    "fcn8s": "the paper's network",
    "fcn16s": "without the skip from pool3",
    "fcn32s": "without skips: fc7 alone",
    "pool3": "a net that ends at pool3: the baseline of one stage",
    "pool4": "a net that ends at pool4: the baseline of two stages",
}
DESCRIPTION = """Train a fully convolutional network on the labelled frames of a data set in any layout.

Recipes. at-once: from VGG-16, all in one go. staged: FCN-32s, then 16s from it, then 8s (fcn8s, fcn16s, fcn32s). Both as
they were published: one whole picture a step, the summed softmax loss (1e3 to 1e5 is normal, which is why the rates are so
low), SGD with momentum .99. scratch: ours, from random weights, for narrow nets (--width) and where there are no VGG-16
weights: Adam, the mean loss, random views at a small size.

DIR gets NET.onnx and NET.json (which every command of clockseg runs), NET.safetensors (to train on from), NET.state.pt (to
resume from) and log.jsonl: the loss along the way, and with --validation the scores whenever a state is saved."""


def parser() -> argparse.ArgumentParser:
    """Return a parser with one command per network; all have the same options."""
    top = argparse.ArgumentParser(prog="python -m recipes.fcn", description="Train an FCN.", allow_abbrev=False)
    networks = top.add_subparsers(metavar="NETWORK", required=True)
    for name, what in NETWORKS.items():
        command = networks.add_parser(
            name, help=what, description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        command.add_argument("data", metavar="DATA", type=Path, help="a data set with labels")
        add_run(command, seed=1337)
        command.add_argument("--validation", type=Path, metavar="DATA", help="a data set to score")
        command.add_argument(
            "--validation-layout", metavar="SPEC", help="how that one lies on disk (default: --layout's)"
        )
        add_group(command, "data", "--layout")
        _add_network(command.add_argument_group("network"))
        _add_recipe(command.add_argument_group("recipe"))
        command.set_defaults(run=run, variant=name)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    return run_command(parser().parse_args(argv))


def _add_network(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--width",
        type=above_zero,
        default=1.0,
        metavar="FACTOR",
        help="share of the channels, such as 0.25 (default: 1)",
    )
    group.add_argument("--fc", type=positive, metavar="N", help="channels of fc6 and fc7 (default: 4096, times FACTOR)")
    start = group.add_mutually_exclusive_group()
    start.add_argument(
        "--vgg16", type=Path, metavar="FILE", help="start from VGG-16's weights: a .caffemodel, or torchvision's .pth"
    )
    start.add_argument(
        "--from",
        dest="initial",
        type=Path,
        metavar="FILE",
        help="start from an FCN (.safetensors); its scores only if it has the same classes",
    )
    start.add_argument("--random", action="store_true", help="start from random weights (default for scratch alone)")


def _add_recipe(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--recipe", default="at-once", choices=("at-once", "staged", "scratch"), help="see above (default: at-once)"
    )
    group.add_argument("--iterations", type=positive, metavar="N", help="steps of each net (default: the recipe's)")
    group.add_argument("--rate", type=above_zero, metavar="R", help="learning rate of each net (default: the recipe's)")
    group.add_argument(
        "--loss",
        choices=("sum", "mean"),
        help="over the pixels of a step (default: the recipe's). mean makes the same steps as sum in at-once and staged: "
        "their rates are multiplied by 187500, the pixels of a 500x375 picture, and their decay divided",
    )
    group.add_argument("--batch", type=positive, metavar="N", help="views a step, for scratch (default: 2)")
    group.add_argument(
        "--size",
        type=size,
        metavar="WIDTHxHEIGHT",
        help="fit pictures into this (default: their own; scratch: 320x240)",
    )
    group.add_argument(
        "--halves", action="store_true", help="train on the left and right half of pictures, as done for Cityscapes"
    )
    group.add_argument(
        "--save-every", type=positive, metavar="N", help="steps between saved states and scores (default: the recipe's)"
    )


def run(args: argparse.Namespace) -> int:
    """Train, and print where the result is."""
    need("torch", "safetensors", what="training")
    from clockseg.paper.fcn import FCNShape, write_fcn
    from recipes.fcn.checkpoint import read_state
    from recipes.fcn.phase import FCNChoices
    from recipes.fcn.training import train_fcn

    recipe = _recipe(args)
    shape = FCNShape(args.variant).narrowed(args.width)
    choices = FCNChoices(
        device=args.device,
        seed=args.seed,
        workers=args.workers,
        resume=args.resume,
        minutes=args.minutes,
        vgg16=args.vgg16,
        initial=args.initial,
        halves=args.halves,
    )
    found = train_fcn(
        args.data,
        args.out,
        recipe=recipe,
        shape=replace(shape, fc=args.fc or shape.fc),
        choices=choices,
        layout=args.layout,
        validation=args.validation,
        validation_layout=args.validation_layout,
        say=say_lines(quiet=args.quiet),
    )
    network = write_fcn(*read_state(found), found.with_suffix(".onnx"))
    if not args.quiet:
        print(f"{network}\nnext: clockseg evaluate DATA --network {network} --size own")
    return 0


def _recipe(args: argparse.Namespace) -> FCNRecipe:
    """The recipe with what the user chose otherwise."""
    from recipes.fcn.recipe import recipe

    if args.recipe != "scratch" and not (args.vgg16 or args.initial or args.random):
        raise UsageError(
            f"--recipe {args.recipe} starts from VGG-16: give --vgg16 FILE, --from an FCN or --random, or --recipe scratch."
        )
    if args.recipe != "scratch" and args.batch is not None:
        raise UsageError(f"--recipe {args.recipe} takes one picture a step; --batch is for --recipe scratch.")
    found = recipe(args.recipe, args.variant)
    if args.loss not in (None, found.loss):
        if found.loss == "mean":
            raise UsageError("--recipe scratch has the mean loss: Adam's steps don't depend on the loss' scale.")
        found = found.averaged()
    phases = tuple(
        replace(phase, rate=args.rate or phase.rate, iterations=args.iterations or phase.iterations)
        for phase in found.phases
    )
    return replace(
        found,
        phases=phases,
        batch=args.batch or found.batch,
        working=args.size or found.working,
        every=args.save_every or found.every,
    )


if __name__ == "__main__":
    sys.exit(main())
