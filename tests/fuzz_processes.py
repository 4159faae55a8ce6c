"""Fuzzing in processes of their own, whose memory and time for one input are limited."""

from __future__ import annotations

import json
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

MEMORY_BYTES = 8 << 30
FILE_BYTES = 1 << 30
INPUT_SECONDS = 60
"""What one input may take."""


def fuzzed(kind: str, seed: str, seconds: float) -> dict[str, Any]:
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
    command, last = [sys.executable, __file__, kind, seed, str(first), str(end)], first
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


def _child(kind: str, seed: str, number: int, until: float) -> None:
    """Try inputs until the time is over, and tell what came of each."""
    from clockseg.errors import ClocksegError
    from fuzz_targets import TARGETS, tried

    _limit()
    while time.monotonic() < until:
        print(json.dumps({"input": number, "begun": True}), flush=True)
        told: dict[str, Any] = {"input": number}
        with tempfile.TemporaryDirectory() as folder:
            try:
                told["came"] = "taken" if tried(TARGETS[kind], f"{seed} {number}", Path(folder)) else "refused"
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


if __name__ == "__main__":
    _child(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
