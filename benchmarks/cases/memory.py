"""Resident memory over a video of 100,000 small frames that `segment` writes labels, an overlay and a trace of."""

from __future__ import annotations

import statistics
import tempfile
from argparse import Namespace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import av
import cv2

from benchmarks.harness import Facts, say, table
from benchmarks.inputs import DRIVING, images, video
from clockseg import load, parse_schedule, segment

OPTIONS = {"frames": 100_000}
SIZE, SCHEDULE = (160, 90), "carried(skip_frame(3), warp(flow))"
EVERY, ENDS, SETTLED = 100, 1000, 3000
"""Frames between samples, at each end, and until all that is made once is there."""


def measure(asked: Namespace) -> Facts:
    """Segment and sample."""
    samples: list[tuple[int, float]] = []

    def sample(progress: Any) -> None:
        if progress.done % EVERY == 0:
            samples.append((progress.done, _resident_mib()))
            say(f"frame {progress.done}: {samples[-1][1]:.1f} MiB", again=True)

    with tempfile.TemporaryDirectory() as folder:
        clip = _long_video(Path(folder) / "long.mkv", asked.frames)
        net = load("street", engine="openvino", size=SIZE[0])
        done = segment(clip, Path(folder) / "out", net, parse_schedule(SCHEDULE), progress=sample)
    end = samples[-1][0]
    spans = {"first": (0, ENDS), "settled": (SETTLED, SETTLED + ENDS), "last": (end - ENDS, end)}
    means = {
        f"{name}_mib": round(statistics.mean(mib for at, mib in samples if low < at <= high), 1)
        for name, (low, high) in spans.items()
    }
    most = {"most_mib": round(max(mib for _, mib in samples), 1)}
    return {
        "frames": done.summary["frames"],
        "pieces": len(done.summary["starts"]),
        "schedule": SCHEDULE,
        **means,
        **most,
    }


def _resident_mib() -> float:
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmRSS")).split()[1]) / 1024


def _long_video(target: Path, frames: int) -> Path:
    """Write the driving clip at ``SIZE`` again and again, encoding each picture anew."""
    with av.open(str(target), "w") as out:
        stream = out.add_stream("libx264", rate=25, options={"bf": "0", "g": "50", "preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv420p"
        small = [cv2.resize(image, SIZE, interpolation=cv2.INTER_AREA) for image in images(video(DRIVING))]
        for image in islice(cycle(small), frames):
            out.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        out.mux(stream.encode(None))
    return target


def pages(facts: Facts) -> dict[str, str]:
    """The ends of the run, and the growth."""
    head = ["resident memory, MiB", "first thousand frames", "the thousand from 3,000 on", "last thousand", "most"]
    cells = [str(facts[f"{name}_mib"]) for name in ("first", "settled", "last", "most")]
    growth = [f"{facts['last_mib'] / facts[f'{name}_mib'] - 1:+.1%}" for name in ("first", "settled")]
    rows = [[f"{facts['frames']:,} frames in {facts['pieces']} pieces", *cells]]
    return {"memory": table(head, [*rows, ["the last thousand against it", *growth, "", ""]])}
