"""Options that the trainings share, and the lines that tell how one is going."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clockseg.cli.options import above_zero, count, positive, size


def add_run(command: Any, *, seed: int = 0) -> None:
    """Add the options of every training: where it goes, how long it may take, and on what it runs."""
    command.add_argument("--out", required=True, metavar="DIR", type=Path, help="folder for the results")
    command.add_argument(
        "--resume", action="store_true", help="continue with the training that is in DIR, if there is one"
    )
    command.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="default: cpu")
    command.add_argument("--seed", type=count, default=seed, metavar="N", help=f"random seed (default: {seed})")
    command.add_argument(
        "--minutes", type=above_zero, metavar="M", help="time limit, all resumed parts together; a learning rate that "
        "falls reaches zero at the end either way",
    )  # fmt: skip
    command.add_argument("--workers", type=count, default=1, metavar="N", help="processes that draw views (default: 1)")
    command.add_argument("--quiet", action="store_true", help="print errors only")


def add_steps(command: Any) -> None:
    """Add what may differ from the recipe of street and scene."""
    command.add_argument("--iterations", type=positive, metavar="N", help="training steps (default: the recipe's)")
    command.add_argument("--batch", type=positive, metavar="N", help="views per step (default: the recipe's)")
    command.add_argument(
        "--size", type=size, metavar="WIDTHxHEIGHT", help="size of a view, multiples of 32 (default: the recipe's)"
    )
    command.add_argument(
        "--precision", choices=("f32", "bf16"), help="of the convolutions (default: bf16 on cuda, f32 on cpu)"
    )


def choices(args: Any) -> Any:
    """Return the `Choices` that these options make."""
    from recipes.run import Choices

    same = {
        name: getattr(args, name) for name in ("device", "seed", "workers", "resume", "iterations", "batch", "minutes")
    }
    bf16 = None if args.precision is None else args.precision == "bf16"
    return Choices(**same, view=args.size, bf16=bf16)


def line(entry: dict[str, Any]) -> str:
    """Return the line to print for an entry of a training's log."""
    step = f"step {entry.get('step')}  "
    net = f"{entry['net']} {step}" if "net" in entry else ""
    if entry["event"] == "score":
        iu = ", ".join(f"{name} {percent(share)}" for name, share in entry.get("iu", {}).items())
        scored = f"{net}{entry.get('of', 'validation')}: mIoU {percent(entry['mean_iu'])}, pixels {percent(entry['pixel_acc'])}"
        return f"{scored} ({iu})" if iu else scored
    if entry["event"] == "step":
        return f"{net or step}loss {entry['loss']:.5g}  {entry['minutes']:.1f} min"
    told = {key: entry[key] for key in ("pictures", "frames", "clips", "classes", "teachers", "device") if key in entry}
    return f"{entry['event']}: {', '.join(f'{key} {value}' for key, value in told.items())}"


def say_lines(*, quiet: bool) -> Callable[[dict[str, Any]], None]:
    """Return a function that prints the line for an entry of a training's log to standard error; nothing if ``quiet``."""
    return lambda entry: None if quiet else print(line(entry), file=sys.stderr, flush=True)


def percent(share: float | None) -> str:
    """Return a share as a percentage, or a dash for None."""
    return "-" if share is None else f"{100 * share:.1f}"
