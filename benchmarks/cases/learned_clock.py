"""Moments at which a learned clock fires, against `motion_residual` and a fixed rate, and the time it takes.

Both forms are trained on the shared videos and DAVIS clips, and scored on their held-back ends and on CamVid's clip.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from pathlib import Path

import numpy as np

from benchmarks.harness import Facts, number, say, table
from benchmarks.inputs import VIDEOS, camvid, data, video
from benchmarks.measuring import milliseconds, took
from clockseg import load
from clockseg.carry import parse_carry
from clockseg.clocks.learned import load as load_clock
from clockseg.datasets import read_data
from clockseg.training.clock import score, takes, train_clock

OPTIONS = {"frames": 600, "passes": 4, "unseen": 600}
CARRY = parse_carry("warp(flow)")
PLACES = ("held-back ends", "CamVid")


def measure(asked: Namespace) -> Facts:
    """Train and score."""
    teaching = [*(video(name) for name in VIDEOS), *read_data(data("davis"))]
    net = load("street", threads=1)
    _, unseen = takes(net, camvid(), CARRY, frames=asked.unseen, warn=say)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "frames.onnx"
        found = train_clock("street", teaching, out, carry=CARRY, frames=asked.frames, passes=asked.passes, threads=1)
        on = dict(zip(PLACES, (found["held_out"], score(str(out), unseen, CARRY)), strict=True))
        graph = load_clock(str(out))
        values = {name: np.zeros(shape, np.float32) for name, shape in graph.inputs.items()}
        spent = milliseconds([took(lambda: graph.run(values)) for _ in range(400)])
    return {"clocks": [{"form": "frames", "milliseconds": spent, "trained": found["trained"], "on": on}]}


def pages(facts: Facts) -> dict[str, str]:
    """One row a clock and a kind of frames."""
    rows = []
    for place in PLACES:
        learned = [(f"learned, {row['form']}", row, "learned") for row in facts["clocks"]]
        others = [(name, facts["clocks"][-1], name) for name in ("motion_residual", "fixed rate")]
        for title, row, name in (*learned, *others):
            scored = row["on"][place]
            pixels = [f"{100 * each['pixels'][name]:.2f}" for each in scored["agreement"]]
            spent = f"{row['milliseconds']:.2f}" if name == "learned" else "-"
            rows.append([f"{title}, {place}", spent, number(scored.get("correlation", {}).get(name)), *pixels])
    return {"learned-clock": table(["clock, on", "ms", "rank correlation", "pixels at 1/4", "pixels at 1/8"], rows)}
