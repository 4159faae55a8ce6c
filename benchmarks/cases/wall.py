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

import av

from benchmarks.harness import Facts, number, say, table
from benchmarks.inputs import DRIVING, data
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
            video = _video(Path(folder), height)
            for network in asked.networks:
                say(f"{network} at {height} lines")
                rows.append(_compared(network, video, asked.rounds) | {"network": network, "height": height})
    return {"machine": asked.machine, "wall": rows}


def _video(folder: Path, height: int) -> Path:
    """Return the driving video, enlarged to ``height`` lines unless it has them."""
    path = data("videos", DRIVING)
    with open_clip(path) as clip:
        if clip.size[1] == height:
            return path
    made = folder / f"{height}.mp4"
    with av.open(str(path)) as source, av.open(str(made), "w") as target:
        given = source.streams.video[0]
        stream = target.add_stream("libx264", rate=given.average_rate, options={"crf": "20"})
        stream.height, stream.width = height, round(given.width * height / given.height / 2) * 2
        for frame in source.decode(given):
            target.mux(stream.encode(frame.reformat(stream.width, height, "yuv420p")))
        target.mux(stream.encode(None))
    return made


def _compared(network: str, video: Path, rounds: int) -> Facts:
    segment = ("clockseg", "segment", str(video), "--network", network, "--quiet", "--engine", "openvino", "--out")
    commands: dict[str, Sequence[str]] = {
        DEFAULT: (*segment, "OUT"),
        EVERY: (*segment, "OUT", "--schedule", "frame_oracle"),
        PLAIN: ("benchmarks.plain", str(WEIGHTS / f"{network}.onnx"), str(video), "OUT"),
        ARCHIVE: (*segment, "OUT", "--write", "labels,trace"),
    }
    wall: dict[str, list[float]] = {name: [] for name in commands}
    busy: dict[str, list[float]] = {name: [] for name in commands}
    sizes: dict[str, int] = {}
    for round_ in range(rounds + 1):
        for name, command in commands.items():
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder) / "out"
                seconds, spent = _run([str(out) if word == "OUT" else word for word in command])
                sizes |= {f"{name}: {file.name}": file.stat().st_size for file in out.rglob("*.m*") if round_ == 1}
            if round_:
                wall[name].append(seconds)
                busy[name].append(spent)
        say(f"round {round_} of {rounds}", again=True)
    say("")
    with open_clip(video) as clip:
        told = {"frames": sum(1 for _ in clip), "fps": float(clip.fps or 25)}
    medians = {name: round(statistics.median(found), 3) for name, found in wall.items()}
    used = {name: round(statistics.median(map(lambda s, w: s / w, busy[name], wall[name])), 2) for name in wall}
    ratios = {
        name: round(statistics.median(a / b for a, b in zip(wall[name], wall[DEFAULT], strict=True)), 3)
        for name in (EVERY, PLAIN)
    }
    return told | {"seconds": medians, "cores_used": used, "ratios": ratios, "bytes": sizes, "cores": cores()}


def _run(command: Sequence[str]) -> tuple[float, float]:
    """Run a module in a process of its own: seconds, and seconds of processors."""
    # An installed package is compiled to bytecode; here the round that is not counted does it.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-m", *command], check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, spent


def pages(facts: Facts) -> dict[str, str]:
    """A page of ratios, and one on archives."""
    rows, archive = [], []
    for one in facts["wall"]:
        seconds, ratios = one["seconds"], one["ratios"]
        rows.append(
            [
                f"`{one['network']}`, {one['height']} lines",
                *(f"{seconds[name]:.2f}" for name in (DEFAULT, EVERY, PLAIN)),
                *(f"{number(ratios[name])}x" for name in (EVERY, PLAIN)),
                number(one["cores_used"][DEFAULT]),
            ]
        )
        hours = one["frames"] / one["fps"] / 3600
        core_hours = seconds[ARCHIVE] * one["cores"] / 3600 / hours
        terabytes = one["bytes"][f"{ARCHIVE}: labels.mkv"] / hours * HOURS / 1e12
        need = [f"{core_hours:.2f}", f"{core_hours * HOURS / 720:,.0f}", f"{terabytes:,.0f} TB"]
        archive.append([rows[-1][0] + f", {one['fps']:g} FPS", *need])
    head = [
        "network",
        "default, s",
        "every frame, s",
        "plain script, s",
        "over every frame",
        "over plain",
        "cores used",
    ]
    archive_head = ["network", "core hours for an hour", "cores for a million hours in 30 days", "labels"]
    note = f"\n\nMeasured on a machine that was {facts.get('machine', 'idle')}."
    return {"wall": table(head, rows) + note, "archive": table(archive_head, archive) + note}
