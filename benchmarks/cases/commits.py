"""Speed of this checkout against an older commit, both in one run: network whole and staged, schedules, and `segment`.

Two processes, one on each commit's sources, take turns; only public names are used. A ratio above 1 means that this
checkout is slower.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, Facts, figure, listing
from benchmarks.inputs import DRIVING, data
from benchmarks.measuring import milliseconds, ratio, turns

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
sessions = {"uncut": clockseg.Session(net.uncut(), clockseg.frame_oracle)}
sessions |= {text: clockseg.Session(net, clockseg.parse_schedule(text)) for text in asked["schedules"]}
def segment():
    with tempfile.TemporaryDirectory() as folder:
        clockseg.segment(asked["video"], folder + "/out", net, clockseg.frame_oracle, write=("labels", "trace"), limit=len(images))
for line in sys.stdin:
    session, start = sessions.get(line.strip()), time.perf_counter()
    segment() if session is None else [session(image) for image in images]
    print((time.perf_counter() - start) / len(images), flush=True)
"""


def measure(asked: Namespace) -> Facts:
    """Check the base out into a folder of its own, and let both take turns."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(base), asked.base], cwd=ROOT, check=True)
        try:
            return {"base": asked.base, "rows": _rows(_started(base, asked), _started(ROOT, asked), asked.rounds)}
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(base)], cwd=ROOT, check=True)


def _started(root: Path, asked: Namespace) -> Any:
    told = {name: getattr(asked, name) for name in ("network", "engine", "threads", "frames")}
    told |= {"video": str(data("videos", DRIVING)), "schedules": SCHEDULES}
    command = [sys.executable, "-c", WORKER, json.dumps(told)]
    environment = os.environ | {"PYTHONPATH": str(root / "src")}
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _asked(worker: Any, name: str) -> float:
    """Return the seconds a frame that a run takes in a worker."""
    worker.stdin.write(f"{name}\n")
    worker.stdin.flush()
    return float(worker.stdout.readline())


def _rows(old: Any, new: Any, rounds: int) -> list[Facts]:
    names = ("uncut", *SCHEDULES, "segment")
    runs = {f"{side} {name}": (worker, name) for name in names for side, worker in (("old", old), ("new", new))}
    seconds = turns(runs, lambda run: _asked(*run), rounds)
    for worker in (old, new):
        worker.communicate()
    return [
        {
            "run": name,
            "new_ms": milliseconds(seconds[f"new {name}"]),
            "new_over_old": ratio(seconds, f"new {name}", f"old {name}"),
            "old_over_uncut": ratio(seconds, f"old {name}", "old uncut"),
            "new_over_uncut": ratio(seconds, f"new {name}", "new uncut"),
        }
        for name in names
    ]


def pages(facts: Facts) -> dict[str, str]:
    """One row a run."""
    columns: Facts = {"run": "run", "now, ms a frame": figure("new_ms", ".1f")}
    columns[f"now / {facts['base']}"] = figure("new_over_old", ".3f")
    columns |= {
        f"over uncut {one}": figure(f"{key}_over_uncut", ".3f") for one, key in (("then", "old"), ("now", "new"))
    }
    return {"commits": listing(facts["rows"], columns)}
