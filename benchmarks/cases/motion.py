"""Accuracy and cost of outputs that move with the picture, by optical flow or by the codec's own vectors.

CamVid's clip as H.264 without and with B-frames. Kept is the mean IU over that of the same network on every frame of the
same decoded video. Costs are those of finding motion and composing it, over flow's at its default scale, on one thread.
"""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Facts, code, percent, table
from benchmarks.inputs import P_ONLY, camvid, reencoded
from benchmarks.measuring import compared
from clockseg import carried, load, skip_frame
from clockseg.carry import parse_carry
from clockseg.libraries import opencv
from clockseg.video import Frame, open_clip

OPTIONS = {"limit": None, "rounds": 3}
STREAMS = {"P-frames only": P_ONLY, "x264's defaults, B-frames": {"crf": "23"}}
FLOW = "warp(flow)"
CARRIES = (
    *("identity", FLOW, "warp(flow, scale=0.25)", "warp(flow, fine=True)", "warp(codec)", "warp(codec, scale=0.25)"),
)
PERIODS = (2, 4, 8)


def measure(asked: Namespace) -> Facts:
    """Run every carry at every period on each stream."""
    return {"streams": [_stream(name, asked) for name in STREAMS]}


def _stream(name: str, asked: Namespace) -> Facts:
    opencv().setNumThreads(1)
    net = load("street", engine="openvino")
    ways = [
        (f"{text} {n}", net, carried(skip_frame(n), parse_carry(text))) for text in CARRIES for n in PERIODS
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        clip = reencoded(camvid(limit=asked.limit)[0], Path(folder) / "clip.mp4", options=STREAMS[name])
        uncut, *rows = compared(net, ways, clip)
        motion = _motion(clip.path, asked.rounds)
    kept = {row["name"]: row["mean_iu"] / uncut["mean_iu"] for row in rows}
    found = [
        {
            "carry": text,
            "kept": [kept[f"{text} {n}"] for n in PERIODS],
            "ms": motion.get(text),
            "over_network": motion.get(text, 0.0) / uncut["milliseconds"],
        }
        for text in CARRIES
    ]
    return {"stream": name, "mean_iu": uncut["mean_iu"], "ways": found}


def _motion(path: Path, rounds: int) -> dict[str, float]:
    """Return the milliseconds a frame of each warp's motion: the least of some rounds, all on each frame before the next."""
    frames = list(open_clip(path, vectors=True))
    each = [_once(frames) for _ in range(rounds)]
    return {text: 1000 * min(spent[text] for spent in each) / (len(frames) - 1) for text in each[0]}


def _once(frames: Sequence[Frame]) -> dict[str, float]:
    warps = {text: parse_carry(text) for text in CARRIES if text != "identity"}
    spent = dict.fromkeys(warps, 0.0)
    sights: dict[str, Any] = {}
    travels: dict[str, Any] = {}
    for frame in frames:
        for text, warp in warps.items():
            start = time.perf_counter()
            now = warp.see(None, frame.image, frame.vectors)
            if text in sights:
                travels[text] = warp.compose(travels.get(text), warp.observe(sights[text], now))
                spent[text] += time.perf_counter() - start
            sights[text] = now
            if frame.index % PERIODS[-1] == 0:
                travels.pop(text, None)
    return spent


def pages(facts: Facts) -> dict[str, str]:
    """A table for each stream."""
    return {"motion": "\n\n".join(_text(stream) for stream in facts["streams"])}


def _text(stream: Facts) -> str:
    flow = next(row["ms"] for row in stream["ways"] if row["carry"] == FLOW)
    head = ["carry", *(f"1/{n}" for n in PERIODS), "motion, over flow's", "over the network's time"]
    rows = []
    for row in stream["ways"]:
        cost = ["0", "0"] if row["ms"] is None else [f"{row['ms'] / flow:.2f}", percent(row["over_network"], 0)]
        rows.append([code(row["carry"]), *map(percent, row["kept"]), *cost])
    return f"**{stream['stream']}** (every frame: mean IU {percent(stream['mean_iu'])})\n\n{table(head, rows)}"
