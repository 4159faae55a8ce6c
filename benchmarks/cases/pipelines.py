"""Latency, throughput and accuracy on a stream of pipelines, serial and ahead.

All on equal numbers of threads; streams are CamVid's clip coming in real time. Latency is the time from a frame to its output;
ratios to the uncut network, named "full", are medians over rounds.
"""

from __future__ import annotations

import json
import os
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean, median

import numpy as np

from benchmarks.harness import Facts, figure, listing, share
from benchmarks.inputs import DRIVING, RECIPES, data, images, video
from benchmarks.measuring import clockseg, turns
from clockseg import frame_oracle, load, parse_schedule
from clockseg.execution.pipeline import Runner, runner
from clockseg.types import Image

OPTIONS = {"threads": 2, "rounds": 7, "limit": 200, "fps": [30.0, 60.0]}
TRUNCATED = [str(RECIPES / "street" / "weights" / f"street-{end}.onnx") for end in ("stride8", "stride16")]
BASELINES = [part for file in TRUNCATED for part in ("--baseline", file)]
FRAMES, WARM = 24, 2
"""Frames of a turn, and how many run before it unmeasured."""
SCHEDULES = {
    "serial": ("alternating", "skip_frame(2)", "pipelined(2)", "pipelined(3)"),
    "ahead": ("pipelined(2)", "pipelined(3)"),
}


def measure(asked: Namespace) -> Facts:
    """Measure latencies, and run `evaluate --streaming` at each rate in each way."""
    load_average = round(os.getloadavg()[0], 2)
    streams = [{"fps": fps, "schedules": _streamed(fps, asked)} for fps in asked.fps]
    return {"load_average": load_average, "latency": _latency(asked), "streaming": streams}


def _streamed(fps: float, asked: Namespace) -> list[Facts]:
    rows: list[Facts] = []
    for how, schedules in SCHEDULES.items():
        flags = [*BASELINES] if how == "serial" else [f"--{how}"]
        flags += [part for text in schedules for part in ("--schedule", text)]
        flags += ["--streaming", f"{fps:g}", "--limit", str(asked.limit), "--threads", str(asked.threads)]
        told = clockseg("evaluate", str(data("camvid", "val")), *flags, "--engine", "openvino", "--json", "--quiet")
        found = json.loads(told)["schedules"]
        rows += [{**row, "how": how} for row in found if how == "serial" or row["schedule"] != "full"]
    return rows


def _latency(asked: Namespace) -> list[Facts]:
    """Return the figures of every way to run `street`, and of the truncated networks."""
    net = load("street", engine="openvino", threads=asked.threads)
    ways = {"full": runner(net.uncut(), frame_oracle)}
    ways |= {text: runner(net, parse_schedule(text)) for text in ("frame_oracle", "alternating", "skip_frame(2)")}
    for text in SCHEDULES["ahead"]:
        ways[f"{text} serial"] = runner(net, parse_schedule(text))
        ways[f"{text} ahead"] = runner(net, parse_schedule(text), ahead=True)
    for file in TRUNCATED:
        truncated = load(file, engine="openvino", threads=asked.threads)
        ways[Path(file).stem] = runner(truncated.uncut(), frame_oracle)
    frames = images(video(DRIVING), FRAMES)
    found = turns(ways, lambda way: _turn(way, frames), asked.rounds)
    return [_facts(name, rounds, found["full"]) for name, rounds in found.items()]


def _turn(way: Runner, frames: Sequence[Image]) -> tuple[list[float], float]:
    """Return the seconds from each frame to its output, and from the first frame until the one after the last could start."""
    for frame in frames[:WARM]:
        way.session(frame)
        way.between()
    waits, begun = [], time.perf_counter()
    for frame in frames:
        start = time.perf_counter()
        way.session(frame)
        waits.append(time.perf_counter() - start)
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
    """A page on latency, and one on streams."""
    ways = [one | {key: f"{ms:.1f}" for key, ms in one["latency_ms"].items()} for one in facts["latency"]]
    columns: Facts = {"way": "name", "mean ms": "mean", "median": "median", "p95": "p95", "p99": "p99"}
    columns |= {
        "relative": figure("relative_latency"),
        "fps": figure("fps", ".1f"),
        "relative fps": figure("relative_fps"),
    }
    note = f"Load average at the start: {facts['load_average']:.1f} (what else the machine did; 0 is nothing)."
    streams = [f"At {one['fps']:g} FPS:\n\n{_stream(one['schedules'])}" for one in facts["streaming"]]
    return {"latency": f"{listing(ways, columns)}\n\n{note}", "streaming": "\n\n".join([*streams, note])}


def _stream(rows: list[Facts]) -> str:
    for row in rows:
        schedule = row["schedule"]
        row["way"] = Path(schedule).stem if schedule.endswith(".onnx") else f"{schedule} {row.get('how', '')}".strip()
        row["like full"], row["in time"] = row["agreement"]["mean_iu"], row["on_time"] / row["frames"]
        row |= {"median": None, "p95": None} | (row["age_ms"] or {})
    scores = {"mean IU": share("mean_iu"), "kept": share("kept"), "agreement": share("like full")}
    ages = {"age ms": figure("median", ".0f"), "p95": figure("p95", ".0f")}
    columns: dict[str, str | Callable[[Facts], str]] = {
        "schedule": "way",
        **scores,
        **ages,
        "finished": "finished",
        "dropped": "dropped",
        "on time": share("in time"),
    }
    return listing(rows, columns)
