"""Time of the whole command: `segment` by default, on every frame, and the plain script that people write first.

Each is a process of its own, from its start to its end, with labels and overlay written; they take turns, and ratios are
medians over rounds. The first round, in which engines compile into their cache, isn't counted. The driving video is measured
at its own 960x540, enlarged to 1280x720, and four times in a row, where the start of the command weighs less. With the network
on the first frame alone, whose labels are reused, only decoding, drawing and encoding are left: no schedule is faster. A second
page says what a large archive would take, without overlays.
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

from benchmarks.harness import Facts, figure, listing, number, say, where
from benchmarks.inputs import DRIVING, video, write_video
from benchmarks.measuring import ratio, turns
from clockseg.execution.machine import cores
from clockseg.networks import WEIGHTS
from clockseg.video import open_clip

OPTIONS = {
    "networks": ["street", "street-large", "street-large-int8"],
    "rounds": 5,
}
HOURS = 1_000_000
PARTS = {"540 lines": (540, 1), "720 lines": (720, 1), "540 lines, four times": (540, 4)}
"""The height of the video, and how often it is played; the plain script runs on it once only."""
DEFAULT, EVERY, PLAIN, FIRST, ARCHIVE = "default", "every frame", "plain script", "first frame", "labels and trace"


def part(name: str, asked: Namespace) -> Facts:
    """Measure all networks on one form of the driving video."""
    height, repeats = PARTS[name]
    with tempfile.TemporaryDirectory() as folder:
        path = _video(Path(folder) / "video.mp4", height, repeats)
        rows = []
        for network in asked.networks:
            say(network)
            rows.append(_compared(network, path, asked.rounds, plain=repeats == 1) | {"name": f"`{network}`, {name}"})
    return {"wall": rows}


def _video(made: Path, height: int, repeats: int) -> Path:
    """Return the driving video of 540 lines, or write it enlarged, or several times in a row, to ``made``."""
    clip = video(DRIVING)
    if (height, repeats) == (540, 1):
        return clip.path
    frames = (frame.image for _ in range(repeats) for frame in clip.frames())
    write_video(made, (cv2.resize(image, (height * 16 // 9, height)) for image in frames), 25, {"crf": "20"})
    return made


def _compared(network: str, video: Path, rounds: int, *, plain: bool) -> Facts:
    options = ("--network", network, "--quiet", "--engine", "openvino", "--out", "OUT")
    segment = ("clockseg", "segment", str(video), *options)
    commands: dict[str, Sequence[str]] = {
        DEFAULT: segment,
        EVERY: (*segment, "--schedule", "frame_oracle"),
        FIRST: (*segment, "--schedule", "skip_frame(1000000)"),
        ARCHIVE: (*segment, "--write", "labels,trace"),
    }
    if plain:
        commands[PLAIN] = ("benchmarks.plain", str(WEIGHTS / f"{network}.onnx"), str(video), "OUT")
    found = turns(commands, _run, rounds)
    wall, busy = ({name: [one[key] for one in each] for name, each in found.items()} for key in ("wall", "busy"))
    with open_clip(video) as clip:
        told = {"frames": sum(1 for _ in clip), "fps": float(clip.fps or 25)}
    return told | {
        "seconds": {name: round(statistics.median(each), 3) for name, each in wall.items()},
        "cores_used": {name: ratio({"busy": busy[name], "wall": wall[name]}, "busy", "wall") for name in wall},
        "ratios": {name: ratio(wall, name, DEFAULT) for name in (EVERY, PLAIN) if name in wall}
        | {FIRST: ratio(wall, EVERY, FIRST)},
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
    parts = facts["parts"].values()
    rows = [row | _archived(row) for part in parts for row in part["wall"]]
    wall: Facts = {"network": "name"}
    for name in (DEFAULT, EVERY, PLAIN, FIRST):
        wall[f"{name}, s"] = lambda row, name=name: number(row["seconds"].get(name))
    for head, name in (("over every frame", EVERY), ("over plain", PLAIN), ("first frame over every frame", FIRST)):
        wall[head] = lambda row, name=name: number(row["ratios"].get(name), ".2f") + "x" * (name in row["ratios"])
    wall["cores used"] = lambda row: number(row["cores_used"][DEFAULT])
    archive = {
        "network": lambda row: f"{row['name']}, {row['fps']:g} FPS",
        "core hours for an hour": figure("core hours"),
        "cores for a million hours in 30 days": lambda row: f"{row['core hours'] * HOURS / 720:,.0f}",
        "labels": lambda row: f"{row['terabytes']:,.0f} TB",
    }
    end = "\n\n" + "\n".join({where(part): "" for part in parts})
    return {"wall": listing(rows, wall) + end, "archive": listing(rows, archive) + end}


def _archived(row: Facts) -> Facts:
    hours = row["frames"] / row["fps"] / 3600
    labels = row["bytes"][f"{ARCHIVE}: labels.mkv"]
    return {
        "core hours": row["seconds"][ARCHIVE] * row["cores"] / 3600 / hours,
        "terabytes": labels / hours * HOURS / 1e12,
    }
