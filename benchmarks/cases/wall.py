"""Time of the whole command: `segment` by default, on every frame, and the plain script that people write first.

Each is a process of its own, from its start to its end, with labels and overlay written; they take turns, and ratios are
medians over rounds. The first round, in which engines compile into their cache, isn't counted. The driving video is measured
at its own 960x540 and enlarged to 1280x720. A second page says what a large archive would take, without overlays. On a machine
that also does other work, give ``--machine busy``, which the pages then say.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import cv2

from benchmarks.harness import Facts, figure, listing, number, say
from benchmarks.inputs import DRIVING, video, write_video
from benchmarks.measuring import ratio, turns
from clockseg.execution.machine import cores
from clockseg.networks import WEIGHTS
from clockseg.video import open_clip

OPTIONS = {
    "networks": ["street", "street-large", "street-large-int8"],
    "heights": [540, 720],
    "rounds": 5,
    "machine": "idle",
}
HOURS = 1_000_000
DEFAULT, EVERY, PLAIN, ARCHIVE = "default", "every frame", "plain script", "labels and trace"


def measure(asked: Namespace) -> Facts:
    """Measure all networks on the driving video."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for height in asked.heights:
            path = _video(Path(folder), height)
            for network in asked.networks:
                say(f"{network} at {height} lines")
                rows.append(_compared(network, path, asked.rounds) | {"network": network, "height": height})
    return {"machine": asked.machine, "wall": rows}


def _video(folder: Path, height: int) -> Path:
    """Return the driving video of 540 lines, enlarged to ``height`` lines unless it has them."""
    clip, made = video(DRIVING), folder / f"{height}.mp4"
    if height == 540:
        return clip.path
    enlarged = (cv2.resize(frame.image, (height * 16 // 9, height)) for frame in clip.frames())
    write_video(made, enlarged, 25, {"crf": "20"})
    return made


def _compared(network: str, video: Path, rounds: int) -> Facts:
    options = ("--network", network, "--quiet", "--engine", "openvino", "--out", "OUT")
    segment = ("clockseg", "segment", str(video), *options)
    commands: dict[str, Sequence[str]] = {
        DEFAULT: segment,
        EVERY: (*segment, "--schedule", "frame_oracle"),
        PLAIN: ("benchmarks.plain", str(WEIGHTS / f"{network}.onnx"), str(video), "OUT"),
        ARCHIVE: (*segment, "--write", "labels,trace"),
    }
    found = turns(commands, _run, rounds)
    wall, busy = ({name: [one[key] for one in each] for name, each in found.items()} for key in ("wall", "busy"))
    with open_clip(video) as clip:
        told = {"frames": sum(1 for _ in clip), "fps": float(clip.fps or 25)}
    return told | {
        "seconds": {name: round(statistics.median(each), 3) for name, each in wall.items()},
        "cores_used": {name: ratio({"busy": busy[name], "wall": wall[name]}, "busy", "wall") for name in wall},
        "ratios": {name: ratio(wall, name, DEFAULT) for name in (EVERY, PLAIN)},
        "bytes": {f"{name}: {file}": size for name, each in found.items() for file, size in each[0]["bytes"].items()},
        "cores": cores(),
    }


def _run(command: Sequence[str]) -> Facts:
    """Run a module in a process of its own: seconds, seconds of processors, and the bytes of videos in the folder OUT."""
    # An installed package is compiled to bytecode; here the round that is not counted does it.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        words = [str(out) if word == "OUT" else word for word in command]
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([sys.executable, "-m", *words], check=True, stdout=subprocess.DEVNULL, env=environment)
        wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {"wall": wall, "busy": busy, "bytes": {file.name: file.stat().st_size for file in out.rglob("*.m*")}}


def pages(facts: Facts) -> dict[str, str]:
    """A page of ratios, and one on archives."""
    rows = [row | {f"{name}, s": number(row["seconds"][name]) for name in row["seconds"]} for row in facts["wall"]]
    for row in rows:
        hours = row["frames"] / row["fps"] / 3600
        row["name"] = f"`{row['network']}`, {row['height']} lines"
        row["core hours"] = row["seconds"][ARCHIVE] * row["cores"] / 3600 / hours
        row["terabytes"] = row["bytes"][f"{ARCHIVE}: labels.mkv"] / hours * HOURS / 1e12
    wall: Facts = {"network": "name"} | {f"{name}, s": f"{name}, s" for name in (DEFAULT, EVERY, PLAIN)}
    for head, name in (("over every frame", EVERY), ("over plain", PLAIN)):
        wall[head] = lambda row, name=name: f"{number(row['ratios'][name])}x"
    wall["cores used"] = lambda row: number(row["cores_used"][DEFAULT])
    archive = {
        "network": lambda row: f"{row['name']}, {row['fps']:g} FPS",
        "core hours for an hour": figure("core hours"),
    }
    archive["cores for a million hours in 30 days"] = lambda row: f"{row['core hours'] * HOURS / 720:,.0f}"
    archive["labels"] = lambda row: f"{row['terabytes']:,.0f} TB"
    note = f"\n\nMeasured on a machine that was {facts.get('machine', 'idle')}."
    return {"wall": listing(rows, wall) + note, "archive": listing(rows, archive) + note}
