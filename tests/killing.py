"""Runs of many videos that are killed again and again, and resumed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import Any

from clockseg.segmenting.manifest import read

AT_WORK, UNDER_WAY = 0.85, "*/.part/.*.part"
"""The share of kills that come when pieces are being written, and what these are called."""


def command(folder: Path, out: str, *options: str) -> list[str]:
    arguments = [
        sys.executable,
        "-m",
        "clockseg",
        "segment",
        str(folder / "videos"),
        "--out",
        str(folder / out),
        "--quiet",
    ]
    return [*arguments, "--schedule", "adaptive(0.1)", "--size", "96x64", "--engine", "openvino", *options]


def disturbed(folder: Path, asked: Namespace) -> dict[str, Any]:
    chance, killed, out = random.Random(asked.seed), Counter[str](), folder / "disturbed"
    runs, there = 0, []
    while True:
        arguments = command(folder, "disturbed", "--jobs", "2", "--resume")
        process = subprocess.Popen(arguments, start_new_session=True, stderr=subprocess.DEVNULL)
        runs += 1
        if killed.total() == asked.kills:
            if process.wait():
                raise SystemExit("the run that nobody killed failed.")
            return {"videos": asked.videos, "kills": asked.kills, "runs": runs, "killed": dict(killed), "there": there}
        if chance.random() < AT_WORK:
            before = set(out.glob(UNDER_WAY))
            while process.poll() is None and not set(out.glob(UNDER_WAY)) - before:
                time.sleep(0.02)
        time.sleep(chance.uniform(0, asked.longest))
        if process.poll() is not None:
            _forget(out / "manifest.jsonl")  # it had ended already: make work to kill
            continue
        killed[_kill(process, chance)] += 1
        done = sum(entry.state == "done" for entry in read(out).values())
        there.append([done, len(list(out.glob("*/.part/*/piece.json")))])


def _kill(process: subprocess.Popen[bytes], chance: random.Random) -> str:
    """Kill the run, or a worker of it and then the run; return what was killed."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    workers = children.read_text().split() if children.exists() else []
    what = chance.choice(("first process", "worker", "all"))
    if what == "worker" and workers:
        os.kill(int(chance.choice(workers)), signal.SIGKILL)
        time.sleep(chance.uniform(0, 1))
    if what == "all":
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    return what


def _forget(manifest: Path) -> None:
    """Take away that every second video is done."""
    lines = manifest.read_text().splitlines(keepends=True)
    lines[::2] = [line.replace('"state": "done"', '"state": "waiting"') for line in lines[::2]]
    manifest.write_text("".join(lines))
