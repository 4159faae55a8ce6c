"""Resident memory while `segment` writes labels, an overlay and a trace of a long video.

Small frames under `warp`, and two sizes under `interpolate` with 1,000 frames from one key frame to the next, of which only as
many may wait as fit into 400 MB. ``--parts 3840x2160 --write`` measures one part and keeps the others' stored figures.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import tempfile
from argparse import Namespace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import av
import cv2

from benchmarks.harness import RESULTS, Facts, provenance, say, table, where
from benchmarks.inputs import DRIVING, images, video
from clockseg import load, parse_schedule, segment

FAR = "carried(skip_frame(1000), interpolate(flow))"
PARTS = {
    "160x90": (100_000, "carried(skip_frame(3), warp(flow))"),
    "640x360": (20_000, FAR),
    "3840x2160": (1_000, FAR),
}
"""Frames and schedule of each part."""
OPTIONS = {"parts": list(PARTS), "frames": None}
SHARE, SETTLED = 0.01, 0.03
"""The share of the frames over which memory is averaged, and after which all that is made once is there."""


def measure(asked: Namespace) -> Facts:
    """Measure the parts asked for; the stored figures of the others stay."""
    stored = RESULTS / "memory.json"
    known = json.loads(stored.read_text())["parts"] if stored.exists() else {}
    for part in asked.parts:
        frames, schedule = PARTS[part]
        known[part] = {"provenance": provenance(), **_measured(part, asked.frames or frames, schedule)}
    return {"parts": {part: known[part] for part in PARTS if part in known}}


def _measured(part: str, frames: int, schedule: str) -> Facts:
    """Segment and sample."""
    samples: list[tuple[int, float]] = []
    each = max(1, frames // 1000)

    def sample(progress: Any) -> None:
        if progress.done % each == 0:
            samples.append((progress.done, _resident_mib()))
            say(f"frame {progress.done}: {samples[-1][1]:.1f} MiB", again=True)

    width, height = map(int, part.split("x"))
    with tempfile.TemporaryDirectory() as folder:
        clip = Path(folder) / "long.mkv"
        # In a process of its own, whose memory does not count.
        writing = multiprocessing.get_context("spawn").Process(target=_long_video, args=(clip, frames, (width, height)))
        writing.start()
        writing.join()
        net = load("street", engine="openvino", size=min(width, 480))
        done = segment(clip, Path(folder) / "out", net, parse_schedule(schedule), progress=sample)
    spans = {"first": (0, SHARE), "settled": (SETTLED, SETTLED + SHARE), "last": (1 - SHARE, 1)}
    means = {
        f"{name}_mib": round(statistics.mean(mib for at, mib in samples if low * frames < at <= high * frames), 1)
        for name, (low, high) in spans.items()
    }
    return {
        "frames": done.summary["frames"],
        "pieces": len(done.summary["starts"]),
        "schedule": schedule,
        **means,
        "most_mib": round(max(mib for _, mib in samples), 1),
    }


def _resident_mib() -> float:
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmRSS")).split()[1]) / 1024


def _long_video(target: Path, frames: int, size: tuple[int, int]) -> None:
    """Write the driving clip at ``size`` again and again, encoding each picture anew."""
    small = images(video(DRIVING))
    with av.open(str(target), "w") as out:
        stream = out.add_stream("libx264", rate=25, options={"bf": "0", "g": "50", "preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        for image in islice(cycle(small), frames):
            resized = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
            out.mux(stream.encode(av.VideoFrame.from_ndarray(resized, format="rgb24")))
        out.mux(stream.encode(None))


def pages(facts: Facts) -> dict[str, str]:
    """The ends of each run, and the growth."""
    head = ["resident memory, MiB", "schedule", "first 1 %", "from 3 % to 4 %", "last 1 %", "growth since", "most"]
    rows = []
    for part, one in facts["parts"].items():
        growth = f"{one['last_mib'] / one['settled_mib'] - 1:+.1%}"
        told = [f"{part}, {one['frames']:,} frames in {one['pieces']} pieces", f"`{one['schedule']}`"]
        rows.append(
            [*told, *(str(one[f"{name}_mib"]) for name in ("first", "settled", "last")), growth, str(one["most_mib"])]
        )
    notes = "\n".join(f"* {part}: {where(one)}" for part, one in facts["parts"].items())
    return {"memory": f"{table(head, rows)}\n\n{notes}"}
