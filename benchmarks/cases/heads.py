"""Heads fitted to a network's own output against those it was trained with, and against features alone.

`street` with its scores taken away; heads are fitted on CamVid's training frames without their labels, and on two other
videos. Clocks are compared at about the same firing rates; the threshold of each is found on the clip itself.
"""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx

from benchmarks.harness import Facts, percent, table
from benchmarks.inputs import VIDEOS, camvid, video
from benchmarks.measuring import compared
from clockseg import adaptive, difference, load, record, replay
from clockseg.datasets import Clip
from clockseg.execution.recording import needs
from clockseg.graph import sidecar
from clockseg.networks.load import read
from clockseg.training.heads import train_heads

OPTIONS = {"network": "street", "frames": 240, "limit": None}
RATES = (0.5, 0.25)
"""Shares of frames on which the last stage fires."""


def measure(asked: Namespace) -> Facts:
    """Train on both kinds of frames, and compare what clocks may watch."""
    sources = {"CamVid train": camvid("train"), "two other videos": [video(name) for name in VIDEOS]}
    val = camvid(limit=asked.limit)
    with tempfile.TemporaryDirectory() as folder:
        bare = _bare(asked.network, Path(folder))
        files = {name: bare.with_name(f"{name.replace(' ', '-')}.onnx") for name in sources}
        heads = {name: _train(bare, clips, files[name], val, asked.frames) for name, clips in sources.items()}
        watched = {"shipped": asked.network, **{name: str(file) for name, file in files.items()}, "features": str(bare)}
        clocks = [row for name, file in watched.items() for row in _clocks(name, file, val[0])]
    return {"network": asked.network, "heads": heads, "clocks": clocks}


def _bare(network: str, folder: Path) -> Path:
    """Write the network without its own scores."""
    model, said = read(network)
    path = folder / "bare.onnx"
    onnx.save(model, path)
    sidecar.write(replace(said, name="bare", scores=(), schedule=None), path.with_suffix(".json"))
    return path


def _train(bare: Path, clips: Sequence[Clip], out: Path, val: Sequence[Clip], frames: int) -> Facts:
    start = time.perf_counter()
    found = train_heads(bare, clips, out, validation=val, frames=frames, engine="openvino").facts
    return {**found, "seconds": round(time.perf_counter() - start, 1)}


def _clocks(name: str, network: str, clip: Clip) -> list[Facts]:
    net = load(network, engine="openvino")

    def clock(threshold: float) -> Any:
        return difference(threshold, of="features") if name == "features" else adaptive(threshold)

    recording = record(net, (frame.image for frame in clip), keep=needs(net, [clock(0.1)]))
    thresholds = [_threshold(recording, clock, rate) for rate in RATES]
    rows = compared(net, [(f"{one:.4g}", net, clock(one)) for one in thresholds], clip)[1:]
    return [{"watches": name, "fires": list(row["fire_rate"].values())[-1], **row} for row in rows]


def _threshold(recording: Any, clock: Callable[[float], Any], rate: float) -> float:
    """Return the lowest threshold at which the last stage fires on no more than this share of frames, by halving."""
    low, high = 0.0, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        fired = [one.fired[-1] for one in replay(recording, clock(middle))][1:]
        low, high = (middle, high) if sum(fired) > rate * len(fired) else (low, middle)
    return high


def pages(facts: Facts) -> dict[str, str]:
    """Two tables."""
    heads = [
        [name, each["stage"], percent(each["agreement"]["pixel_acc"]), percent(each["agreement"]["mean_iu"])]
        + [f"{each['correlation'][kind]:.2f}" if "correlation" in each else "-" for kind in ("head", "features")]
        for name, found in facts["heads"].items()
        for each in found["heads"]
    ]
    clocks = [
        [row["watches"], row["name"], *(percent(row[key]) for key in ("fires", "agreement", "pixels", "mean_iu"))]
        for row in facts["clocks"]
    ]
    head = ["heads", "stage", "cells like the output", "mIoU", "change: head", "change: features"]
    clock_head = ["the clock watches", "threshold", "last stage fires", "agreement: mean IU", "pixels", "mean IU"]
    took = ", ".join(f"{name} {found['seconds']:.0f} s" for name, found in facts["heads"].items())
    note = f"Scored on CamVid val. Training and scoring took: {took}."
    return {"heads": f"{table(head, heads)}\n\n{table(clock_head, clocks)}\n\n{note}"}
