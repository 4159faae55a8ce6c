"""Time of the whole command: `segment` of two videos over a bare loop of the uncut network, and what an archive would take.

Every stage on every frame, and the recommended schedule; labels and trace are written, the loop's frames are decoded
already. The second page multiplies this for a million hours of video.
"""

from __future__ import annotations

import statistics
import tempfile
from argparse import Namespace
from pathlib import Path

from benchmarks.harness import Facts, code, say, table
from benchmarks.inputs import VIDEOS, data, images, video
from benchmarks.measuring import took
from clockseg import Session, frame_oracle, load, parse_schedule, segment
from clockseg.execution.machine import cores
from clockseg.video import open_clip

OPTIONS = {"network": "street", "engine": "auto", "threads": None, "limit": 200, "rounds": 5}
HOURS = 1_000_000


def measure(asked: Namespace) -> Facts:
    """Measure both videos."""
    return {"wall": [row for name in VIDEOS for row in _video(name, asked)]}


def _video(name: str, asked: Namespace) -> list[Facts]:
    net = load(asked.network, engine=asked.engine, threads=asked.threads)
    session, path = Session(net.uncut(), frame_oracle), data("videos", name)
    frames = images(video(name), asked.limit)
    schedules = ("frame_oracle", net.sidecar.schedule or "frame_oracle")
    sizes: dict[str, dict[str, int]] = {}

    def loop() -> None:
        for image in frames:
            session(image)

    def whole(text: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out"
            segment(path, out, net, parse_schedule(text), write=("labels", "trace"), limit=len(frames))
            sizes[text] = {file: (out / file).stat().st_size for file in ("labels.mkv", "trace.jsonl")}

    seconds: dict[str, list[float]] = {text: [] for text in ("", *schedules)}
    for number in range(asked.rounds + 1):
        for text in seconds:
            seconds[text].append(took(lambda text=text: whole(text) if text else loop()))
        say(f"{name}: round {number} of {asked.rounds}", again=True)
    say("")
    bare = seconds.pop("")[1:]  # the first round compiles
    with open_clip(path) as opened:
        fps = float(opened.fps or 25)
    told = {"video": name, "frames": len(frames), "fps": round(fps, 2), "size": frames[0].shape[1::-1]}
    return [
        told
        | {
            "schedule": text,
            "bare_seconds": round(statistics.median(bare), 3),
            "segment_seconds": round(statistics.median(found[1:]), 3),
            "ratio": round(statistics.median(b / a for a, b in zip(bare, found[1:], strict=True)), 3),
            "bytes": sizes[text],
            "cores": cores(),
        }
        for text, found in seconds.items()
    ]


def pages(facts: Facts) -> dict[str, str]:
    """A page of ratios, and one on archives under the recommended schedule."""
    rows, archive = [], []
    for one in facts["wall"]:
        spent = [f"{one[key]:.2f}" for key in ("bare_seconds", "segment_seconds")]
        rows.append([one["video"], code(one["schedule"]), str(one["frames"]), *spent, f"{one['ratio']:.3f}"])
        hours = one["frames"] / one["fps"] / 3600
        core_hours = one["segment_seconds"] * one["cores"] / 3600 / hours
        terabytes = [f"{size / hours * HOURS / 1e12:,.0f} TB" for size in one["bytes"].values()]
        if one["schedule"] != "frame_oracle":
            size = f"{'x'.join(map(str, one['size']))}, {one['fps']:g} FPS"
            archive.append([size, f"{core_hours:.2f}", f"{core_hours * HOURS / 720:,.0f}", *terabytes])
    head = ["video", "schedule", "frames", "bare loop, s", "segment, s", "ratio"]
    archive_head = ["video", "core hours for an hour", "cores for a million hours in 30 days", "labels", "traces"]
    return {"wall": table(head, rows), "archive": table(archive_head, archive)}
