"""Does anything that is read from outside end clockseg otherwise than with an error it raises on purpose?

    python benchmarks/fuzz.py [--minutes 30] [--only KIND] [--docs]      results/fuzz.json and a table
    python benchmarks/fuzz.py --only KIND --again NUMBER                 one input again, with its traceback

Inputs of every kind in tests/fuzz_targets.py, each made from a good one and a seed, are used in processes of their own,
whose memory is limited and whose time for one input is, too. Told are exceptions that aren't clockseg's own, processes
that die, those that go on and on, and how many inputs were taken and refused.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from page import insert, table
from provenance import HERE, write_result

sys.path.append(str(HERE.parent / "tests"))

MEMORY_BYTES = 8 << 30
FILE_BYTES = 1 << 30
INPUT_SECONDS = 60
"""What one input may take."""
QUICK = ("schedules", "carries", "layouts", "schedule and plan files", "names, palettes, class maps", "learned clocks")
"""Kinds of which thousands are tried in a minute; they get ``QUICK_SHARE`` of the time of the others."""
QUICK_SHARE = 0.2


def main() -> None:
    """Fuzz, write, print."""
    args = _arguments()
    if args.again is not None:
        _again(args)
    elif args.child:
        _child(args)
    else:
        _all(args)


def _all(args: argparse.Namespace) -> None:
    from fuzz_targets import TARGETS

    kinds = [args.only] if args.only else list(TARGETS)
    shares = {kind: QUICK_SHARE if kind in QUICK else 1.0 for kind in kinds}
    second = 60 * args.minutes / sum(shares.values())
    facts = {kind: _fuzzed(kind, args.seed, second * shares[kind]) for kind in kinds}
    rows = [["what", "inputs", "taken", "refused", "other errors", "crashes", "hangs"]]
    rows += [
        [kind, *(f"{found[name]:,}" for name in ("inputs", "taken", "refused", "errors", "crashes", "hangs"))]
        for kind, found in facts.items()
    ]
    print(table(rows))
    if not args.only:
        write_result("fuzz", {"seed": args.seed, "minutes": args.minutes, "kinds": facts})
    if args.docs:
        insert(HERE.parent / "docs" / "safety.md", "fuzz", table(rows))


def _fuzzed(kind: str, seed: str, seconds: float) -> dict[str, Any]:
    """Inputs of one kind until the time is over; a process that dies or hangs is replaced by one that goes on behind it."""
    found: dict[str, Any] = {"inputs": 0, "taken": 0, "refused": 0, "errors": 0, "crashes": 0, "hangs": 0, "finds": []}
    end, first = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        last, how = _process(kind, seed, first, end, found)
        if how is None:
            break
        found["crashes" if how != "hang" else "hangs"] += 1
        _note(found, {"input": last, "what": how})
        first = last + 1
    print(f"{kind}: {found['inputs']} inputs; {json.dumps(found['finds'])}", file=sys.stderr, flush=True)
    return found


def _process(kind: str, seed: str, first: int, end: float, found: dict[str, Any]) -> tuple[int, str | None]:
    """Take in what one process tells; the last input it began, and how it ended if not by itself."""
    command = [sys.executable, __file__, "--child", "--only", kind, "--seed", seed, "--first", str(first)]
    last = first
    command += ["--until", str(end)]
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said) as child,
    ):
        for line in _lines(child):
            if line is None:
                child.kill()
                return last, "hang"
            told = json.loads(line)
            last = told.pop("input")
            if "begun" not in told:
                found["inputs"] += 1
                found[told["came"]] += 1
                if told["came"] == "errors":
                    _note(found, {"input": last, "what": told["what"]})
        code = child.wait()
        said.seek(max(0, said.tell() - 500))
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return last, None if code == 0 else f"{how}: {said.read().decode(errors='replace')}"


def _lines(child: subprocess.Popen[bytes]) -> Iterator[bytes | None]:
    """The child's lines as they come; None where none comes for too long."""
    rest = b""
    with selectors.DefaultSelector() as wait:
        wait.register(child.stdout, selectors.EVENT_READ)  # type: ignore[arg-type]
        while wait.select(INPUT_SECONDS):
            data = child.stdout.read1()  # type: ignore[union-attr]
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            yield from lines
    yield None


def _note(found: dict[str, Any], one: dict[str, Any]) -> None:
    """Of finds that look the same, the first."""
    if one["what"] not in [each["what"] for each in found["finds"]]:
        found["finds"].append(one)


def _child(args: argparse.Namespace) -> None:
    from clockseg.errors import ClocksegError
    from fuzz_targets import TARGETS, tried

    _limit()
    target, number = TARGETS[args.only], args.first
    while time.monotonic() < args.until:
        print(json.dumps({"input": number, "begun": True}), flush=True)
        told: dict[str, Any] = {"input": number}
        with tempfile.TemporaryDirectory() as folder:
            try:
                told["came"] = "taken" if tried(target, f"{args.seed} {number}", Path(folder)) else "refused"
            except ClocksegError:
                raise
            except BaseException as error:
                told |= {"came": "errors", "what": _where(error)}
        print(json.dumps(told), flush=True)
        number += 1


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    warnings.simplefilter("error")


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "clockseg" in Path(frame.filename).parts] or frames
    return f"{type(error).__name__} in {Path(ours[-1].filename).name}, {ours[-1].name}: {str(error)[:100]}"


def _again(args: argparse.Namespace) -> None:
    from fuzz_targets import TARGETS

    target = TARGETS[args.only]
    with tempfile.TemporaryDirectory() as folder:
        given = target.make(random.Random(f"{args.seed} {args.again}"), Path(folder))
        print(ascii(given))
        target.use(given)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--only", metavar="KIND", help="one of those in the table")
    parser.add_argument("--seed", default="0", help="a text; others give other inputs (default: 0)")
    parser.add_argument("--again", type=int, metavar="NUMBER", help="of --only KIND: the input of that number")
    parser.add_argument("--docs", action="store_true", help="put the table into docs/safety.md")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, default=0.0, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
