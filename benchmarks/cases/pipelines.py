"""Latency and throughput of pipelines, serial and ahead.

All on equal numbers of threads. Latency is the time from a frame to its output; ratios to the uncut network, named "full", are
medians over rounds.
"""

from __future__ import annotations

import os
import time
from argparse import Namespace
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean, median

import numpy as np

from benchmarks.harness import Facts, figure, listing
from benchmarks.inputs import DRIVING, RECIPES, images, video
from benchmarks.measuring import turns
from clockseg import frame_oracle, load, parse_schedule
from clockseg.clockwork.session import Session
from clockseg.execution.pipeline import Ahead
from clockseg.types import Image

OPTIONS = {"threads": 2, "rounds": 7}
TRUNCATED = [str(RECIPES / "street" / "weights" / f"street-{end}.onnx") for end in ("stride8", "stride16")]
FRAMES, WARM = 24, 2
"""Frames of a turn, and how many run before it unmeasured."""


def measure(asked: Namespace) -> Facts:
    """Measure the latency of every way."""
    return {"load_average": round(os.getloadavg()[0], 2), "latency": _latency(asked)}


def _latency(asked: Namespace) -> list[Facts]:
    """Return the figures of every way to run `street`, and of the truncated networks."""
    net = load("street", engine="openvino", threads=asked.threads)
    ways: dict[str, Session] = {"full": Session(net.uncut(), frame_oracle)}
    ways |= {text: Session(net, parse_schedule(text)) for text in ("frame_oracle", "alternating", "skip_frame(2)")}
    for text in ("pipelined(2)", "pipelined(3)"):
        ways[f"{text} serial"] = Session(net, parse_schedule(text))
        ways[f"{text} ahead"] = Ahead(net, parse_schedule(text))
    for file in TRUNCATED:
        truncated = load(file, engine="openvino", threads=asked.threads)
        ways[Path(file).stem] = Session(truncated.uncut(), frame_oracle)
    frames = images(video(DRIVING), FRAMES)
    found = turns(ways, lambda way: _turn(way, frames), asked.rounds)
    return [_facts(name, rounds, found["full"]) for name, rounds in found.items()]


def _turn(way: Session, frames: Sequence[Image]) -> tuple[list[float], float]:
    """Return the seconds from each frame to its output, and from the first frame until the one after the last could start."""
    for frame in frames[:WARM]:
        way(frame)
        if isinstance(way, Ahead):
            way.between()
    waits, begun = [], time.perf_counter()
    for frame in frames:
        start = time.perf_counter()
        way(frame)
        waits.append(time.perf_counter() - start)
        if isinstance(way, Ahead):
            way.between()
    return waits, time.perf_counter() - begun


def _facts(name: str, rounds: Sequence[tuple[list[float], float]], full: Sequence[tuple[list[float], float]]) -> Facts:
    every = list(chain.from_iterable(waits for waits, _ in rounds))
    told = {"mean": fmean(every), "median": median(every)}
    told |= {f"p{n}": float(np.percentile(every, n, method="inverted_cdf")) for n in (95, 99)}
    pairs = list(zip(rounds, full, strict=True))
    return {
        "name": name,
        "latency_ms": {key: round(1000 * seconds, 3) for key, seconds in told.items()},
        "fps": round(len(every) / sum(busy for _, busy in rounds), 3),
        "relative_latency": round(median(fmean(own[0]) / fmean(whole[0]) for own, whole in pairs), 4),
        "relative_fps": round(median(whole[1] / own[1] for own, whole in pairs), 4),
    }


def pages(facts: Facts) -> dict[str, str]:
    """A page on latency."""
    ways = [one | {key: f"{ms:.1f}" for key, ms in one["latency_ms"].items()} for one in facts["latency"]]
    columns: Facts = {"way": "name", "mean ms": "mean", "median": "median", "p95": "p95", "p99": "p99"}
    columns |= {
        "relative": figure("relative_latency"),
        "fps": figure("fps", ".1f"),
        "relative fps": figure("relative_fps"),
    }
    note = f"Load average at the start: {facts['load_average']:.1f} (what else the machine did; 0 is nothing)."
    return {"latency": f"{listing(ways, columns)}\n\n{note}"}
