"""What the commands that train share: lines of the log as one watches them, and what a seed may be."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from clockseg.errors import UsageError


def watched(line: Callable[[dict[str, Any]], str | None], *, quiet: bool) -> Callable[[dict[str, Any]], None]:
    """What prints ``line`` of each entry of a training's log to standard error; None and ``quiet``: nothing.

    >>> watched(lambda entry: entry["event"], quiet=True)({"event": "step"})
    """

    def say(entry: dict[str, Any]) -> None:
        text = None if quiet else line(entry)
        if text is not None:
            print(text, file=sys.stderr, flush=True)

    return say


def check_seed(args: argparse.Namespace) -> None:
    """``UsageError`` for a ``--seed`` below 0, which numpy refuses.

    >>> check_seed(argparse.Namespace(seed=0))
    """
    if args.seed < 0:
        raise UsageError(f"--seed {args.seed}: give 0 or more.")
