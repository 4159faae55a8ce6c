"""The time that `plan` promises for the whole command against what `segment` then takes, wall clock.

The promise is made from the first frames of the video (see `clockseg.planning.command_time`); then the command runs over
more of it, in a process of its own, with labels, overlay and trace written. Both take turns; all figures are medians over
the rounds.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from argparse import Namespace

from benchmarks.harness import Facts, say, table
from benchmarks.inputs import FIXED_CAMERA, data
from benchmarks.measuring import clockseg, took
from clockseg.planning.command_time import command_times

OPTIONS = {"networks": ["street", "street-large-int8"], "engine": "openvino", "frames": 600, "rounds": 3}
SCHEDULES = (
    "skip_frame(3)",
    "carried(skip_frame(6), interpolate(flow))",
    "carried(budget(motion_residual, network_rate=0.25, cap=16), warp(flow))",
)


def measure(asked: Namespace) -> Facts:
    """Promise and run every network with every schedule."""
    load = round(os.getloadavg()[0], 1)
    rows = [_compared(asked, network, schedule) for network in asked.networks for schedule in SCHEDULES]
    return {"frames": asked.frames, "load_average": load, "rows": rows}


def _compared(asked: Namespace, network: str, schedule: str) -> Facts:
    path, frames = data("videos", FIXED_CAMERA), asked.frames
    way = ["--network", network, "--schedule", schedule, "--engine", asked.engine]
    promised, taken = [], []
    for _ in range(asked.rounds):
        [found] = command_times(path, frames, [way], rounds=1)
        promised.append(found.seconds(frames))
        with tempfile.TemporaryDirectory() as folder:
            command = ("segment", str(path), "--out", folder, "--limit", str(frames), "--quiet", *way)
            taken.append(took(lambda command=command: clockseg(*command)))
    ratio = statistics.median(a / b for a, b in zip(promised, taken, strict=True))
    seconds = f"{statistics.median(promised):.1f} s promised, {statistics.median(taken):.1f} s taken"
    say(f"{network}, {schedule}: {seconds}, ratio {ratio:.2f}")
    return {"network": network, "schedule": schedule, "promised": promised, "taken": taken, "ratio": ratio}


def pages(facts: Facts) -> dict[str, str]:
    """One table."""
    rows = []
    for one in facts["rows"]:
        seconds = [f"{statistics.median(one[name]):.1f}" for name in ("promised", "taken")]
        rows.append([one["network"], f"`{one['schedule']}`", *seconds, f"{one['ratio']:.2f}"])
    head = ["network", "schedule", "promised, s", "taken, s", "promised over taken"]
    load = f"Load average {facts['load_average']:g} (other work on the machine; 0 is none)."
    return {"command-time": f"{facts['frames']} frames. {load}\n\n{table(head, rows)}"}
