"""Errors, crashes and hangs on damaged inputs of every kind that is read from outside.

Inputs of the kinds in tests/fuzz_targets.py, each made from a good one and a seed, are used in processes of their own whose
memory and time are limited. ``--only KIND --again NUMBER`` tries one input again and shows its traceback.
"""

from __future__ import annotations

import random
import tempfile
from argparse import Namespace
from pathlib import Path

from benchmarks.harness import Facts, say, table

OPTIONS = {"minutes": 30.0, "only": "", "seed": "0", "again": -1}
QUICK = ("schedules", "carries", "layouts", "schedule and plan files", "names, palettes, class maps", "learned clocks")
"""Kinds of which thousands are tried in a minute; they get ``QUICK_SHARE`` of the time of the others."""
QUICK_SHARE = 0.2


def measure(asked: Namespace) -> Facts:
    """Fuzz every kind, or try one input again with its traceback."""
    from fuzz_processes import fuzzed
    from fuzz_targets import TARGETS

    if asked.again >= 0:
        _again(asked)
    kinds = [asked.only] if asked.only else list(TARGETS)
    shares = {kind: QUICK_SHARE if kind in QUICK else 1.0 for kind in kinds}
    second = 60 * asked.minutes / sum(shares.values())
    found = {kind: fuzzed(kind, asked.seed, second * shares[kind]) for kind in kinds}
    bad = sum(one[name] for one in found.values() for name in ("errors", "crashes", "hangs"))
    return {"seed": asked.seed, "minutes": asked.minutes, "kinds": found, "passed": not bad}


def pages(facts: Facts) -> dict[str, str]:
    """One row a kind."""
    keys = ("inputs", "taken", "refused", "errors", "crashes", "hangs")
    rows = [[kind, *(f"{found[key]:,}" for key in keys)] for kind, found in facts["kinds"].items()]
    return {"fuzz": table(["what", "inputs", "taken", "refused", "other errors", "crashes", "hangs"], rows)}


def _again(asked: Namespace) -> None:
    from fuzz_targets import TARGETS

    target = TARGETS[asked.only]
    with tempfile.TemporaryDirectory() as folder:
        given = target.make(random.Random(f"{asked.seed} {asked.again}"), Path(folder))
        say(ascii(given))
        target.use(given)
    raise SystemExit("the input was taken.")
