"""Speed of this checkout against an older commit, both in one run: network whole and staged, schedules, and `segment`.

Two processes, one on each commit's sources, take turns; only public names are used. A ratio above 1 means that this
checkout is slower.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, Facts, number, say, table
from benchmarks.inputs import DRIVING, data

OPTIONS = {"base": "HEAD~1", "network": "street", "engine": "openvino", "threads": 2, "rounds": 15, "frames": 12}
SCHEDULES = ("frame_oracle", "alternating", "adaptive(0.15)", "carried(skip_frame(3), warp(flow))")
WORKER = """
import json, sys, tempfile, time
import clockseg
from clockseg.video import open_clip
asked = json.loads(sys.argv[1])
net = clockseg.load(asked["network"], engine=asked["engine"], threads=asked["threads"])
images = []
for frame in open_clip(asked["video"]):
    images.append(frame.image.copy())
    if len(images) == asked["frames"]:
        break
runs = {"uncut": clockseg.Session(net.uncut(), clockseg.frame_oracle)}
runs |= {text: clockseg.Session(net, clockseg.parse_schedule(text)) for text in asked["schedules"]}
def segment():
    with tempfile.TemporaryDirectory() as folder:
        clockseg.segment(asked["video"], folder + "/out", net, clockseg.frame_oracle, write=("labels", "trace"), limit=len(images))
for line in sys.stdin:
    name = line.strip()
    run = runs.get(name)
    for image in images[:2] if run else ():
        run(image)
    start = time.perf_counter()
    if run is None:
        segment()
    for image in images if run else ():
        run(image)
    print((time.perf_counter() - start) / len(images), flush=True)
"""


def measure(asked: Namespace) -> Facts:
    """Check the base out into a folder of its own, and let both take turns."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(base), asked.base], cwd=ROOT, check=True)
        try:
            return {"base": _git_name(base), "rows": _turns([_started(base, asked), _started(ROOT, asked)], asked)}
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(base)], cwd=ROOT, check=True)


def _git_name(folder: Path) -> str:
    asked = ("git", "rev-parse", "--short", "HEAD")
    return subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def _started(root: Path, asked: Namespace) -> Any:
    told = {name: getattr(asked, name) for name in ("network", "engine", "threads", "frames")}
    told |= {"video": str(data("videos", DRIVING)), "schedules": SCHEDULES}
    command = [sys.executable, "-c", WORKER, json.dumps(told)]
    environment = os.environ | {"PYTHONPATH": str(root / "src")}
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _turns(workers: list[Any], asked: Namespace) -> list[Facts]:
    names = ("uncut", *SCHEDULES, "segment")
    seconds: dict[str, list[list[float]]] = {name: [[], []] for name in names}
    for round_number in range(asked.rounds + 1):
        for name in names:
            for side in (0, 1) if round_number % 2 else (1, 0):
                workers[side].stdin.write(f"{name}\n")
                workers[side].stdin.flush()
                taken = float(workers[side].stdout.readline())
                if round_number:  # the first round compiles
                    seconds[name][side].append(taken)
        say(f"round {round_number} of {asked.rounds}", again=True)
    say("")
    for worker in workers:
        worker.communicate()
    return [{"run": name, **_row(*found, *seconds["uncut"])} for name, found in seconds.items()]


def _row(old: list[float], new: list[float], old_uncut: list[float], new_uncut: list[float]) -> Facts:
    def median_ratio(over: list[float], under: list[float]) -> float:
        return round(statistics.median(a / b for a, b in zip(over, under, strict=True)), 4)

    facts = {"old_over_uncut": median_ratio(old, old_uncut), "new_over_uncut": median_ratio(new, new_uncut)}
    return {"new_ms": 1000 * statistics.median(new), "new_over_old": median_ratio(new, old), **facts}


def pages(facts: Facts) -> dict[str, str]:
    """One row a run."""
    head = ["run", "now, ms a frame", f"now / {facts['base']}", "over uncut then", "over uncut now"]
    keys = ("new_ms", "new_over_old", "old_over_uncut", "new_over_uncut")
    cells = [
        [row["run"], *(number(row[key], ".1f" if key == "new_ms" else ".3f") for key in keys)] for row in facts["rows"]
    ]
    return {"commits": table(head, cells)}
