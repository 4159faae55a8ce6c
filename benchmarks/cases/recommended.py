"""The schedule that `cut --video` recommends for SegFormer-B0 against twelve others, on the same video.

The network has random weights, so its labels are noisier than a trained one's, which makes every schedule look worse; time
does not depend on the weights. Time and agreement are relative to the uncut network on every frame, all in one interleaved run.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from argparse import Namespace
from pathlib import Path

from benchmarks.harness import Facts, code, figure, listing, share
from benchmarks.inputs import DRIVING, MEAN, STD, data, segformer, video
from benchmarks.measuring import clockseg, compared
from clockseg import load, parse_schedule

OPTIONS = {"engine": "openvino", "limit": 48}
OTHERS = (
    *(f"skip_frame({n})" for n in (2, 3, 6)),
    *(f"carried(skip_frame({n}), warp(flow))" for n in (2, 3, 6)),
    "carried(skip_frame(3), warp(auto))",
    *(f"carried(skip_frame({n}), interpolate(flow))" for n in (3, 6)),
    "alternating",
    'either(difference(0.1, of="features"), at_least_every(8))',
    "carried(budget(motion_residual, network_rate=0.25, cap=16), warp(flow))",
)


def measure(asked: Namespace) -> Facts:
    """Cut the network with the video, and compare the recommended schedule with others."""
    path = str(data("videos", DRIVING))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "net.onnx"
        model = shutil.copy(segformer(), Path(folder) / "model.onnx")
        frame = [f"--mean={','.join(map(str, MEAN))}", f"--std={','.join(map(str, STD))}", "--size", "512x256"]
        engine = ("--engine", asked.engine)
        told = clockseg("cut", str(model), "--out", str(out), "--video", path, *frame, *engine)
        found = re.search(r"recommended schedule: (.*)", told)
        text = found[1] if found else ""
        net = load(out, engine=asked.engine)
        ways = [(name, net, parse_schedule(name)) for name in (text, *(one for one in OTHERS if one != text))]
        rows = compared(net, ways, video(DRIVING, asked.limit))
    return {"recommended": text, "rows": rows}


def pages(facts: Facts) -> dict[str, str]:
    """One table, the recommended schedule first."""

    def schedule(row: Facts) -> str:
        return code(row["name"]) + (" (recommended)" if row["name"] == facts["recommended"] else "")

    columns: Facts = {
        "schedule": schedule,
        "pixels": share("pixels"),
        "mIoU": share("agreement"),
        "time": figure("time", ".3f"),
    }
    return {"recommended": listing(facts["rows"], columns)}
