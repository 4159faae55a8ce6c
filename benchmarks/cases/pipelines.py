"""Latency, throughput and accuracy on a stream of pipelines, serial and ahead.

All on equal numbers of threads; streams are CamVid's clip coming in real time.
"""

from __future__ import annotations

import json
import os
from argparse import Namespace
from pathlib import Path

from benchmarks.harness import Facts, number, percent, table
from benchmarks.inputs import DRIVING, RECIPES, data, images, video
from benchmarks.latency import measure as latencies
from benchmarks.latency import pipeline_runners
from benchmarks.measuring import clockseg
from benchmarks.truncated import truncated
from clockseg import load
from clockseg.engines import engine

OPTIONS = {"threads": 2, "rounds": 7, "limit": 200, "fps": [30.0, 60.0]}
TRUNCATED = [str(RECIPES / "street" / "weights" / f"street-{end}.onnx") for end in ("stride8", "stride16")]
BASELINES = [part for file in TRUNCATED for part in ("--baseline", file)]
FRAMES = 24
"""Frames of a round."""
SCHEDULES = {
    "serial": ("alternating", "skip_frame(2)", "pipelined(2)", "pipelined(3)"),
    "ahead": ("pipelined(2)", "pipelined(3)"),
}


def measure(asked: Namespace) -> Facts:
    """Measure latencies, and run `evaluate --streaming` at each rate in each way."""
    options = ("--engine", "openvino", "--threads", str(asked.threads), "--json", "--quiet")
    load_average = round(os.getloadavg()[0], 2)
    latency = _latency(asked)
    streams = []
    for fps in asked.fps:
        rows = []
        for how, schedules in SCHEDULES.items():
            flags = [] if how == "serial" else [f"--{how}"]
            flags += [part for text in schedules for part in ("--schedule", text)]
            flags += [*BASELINES] if how == "serial" else []
            flags += ["--streaming", f"{fps:g}", "--limit", str(asked.limit)]
            found = json.loads(clockseg("evaluate", str(data("camvid", "val")), *flags, *options))["schedules"]
            rows += [{**row, "how": how} for row in found if how == "serial" or row["schedule"] != "full"]
        streams.append({"fps": fps, "schedules": rows})
    return {"load_average": load_average, "latency": latency, "streaming": streams}


def _latency(asked: Namespace) -> list[Facts]:
    """Return the figures of every way to run `street`, of it cut off after a stage, and of the truncated networks."""
    graph, compile = load("street", engine=None), engine("openvino", threads=asked.threads)
    scored = [depth for depth, stage in enumerate(graph.stages[:-1], start=1) if stage.scores is not None]
    beside = {f"truncated({depth})": compile(truncated(graph, depth)) for depth in scored}
    beside |= {Path(file).stem: load(file, engine="openvino", threads=asked.threads) for file in TRUNCATED}
    runners = pipeline_runners(load("street", engine="openvino", threads=asked.threads), beside=beside)
    ways = latencies(runners, images(video(DRIVING), FRAMES), rounds=asked.rounds)
    return [one.facts(ways[0]) for one in ways]


def pages(facts: Facts) -> dict[str, str]:
    """A page on latency, and one on streams."""
    ways = [
        [one["name"]]
        + [f"{one['latency_ms'][key]:.1f}" for key in ("mean", "median", "p95", "p99")]
        + [f"{one['relative_latency']:.2f}", f"{one['fps']:.1f}", f"{one['relative_fps']:.2f}"]
        for one in facts["latency"]
    ]
    head = ["way", "mean ms", "median", "p95", "p99", "of full", "fps", "of full"]
    note = f"Load average at the start: {facts['load_average']:.1f} (what else the machine did; 0 is nothing)."
    streams = [f"At {one['fps']:g} FPS:\n\n{_stream(one['schedules'])}" for one in facts["streaming"]]
    return {"latency": f"{table(head, ways)}\n\n{note}", "streaming": "\n\n".join([*streams, note])}


def _stream(rows: list[Facts]) -> str:
    head = ["schedule", "mean IU", "kept", "agreement", "age ms", "p95", "finished", "dropped", "on time"]
    cells = [
        [f"{row['schedule']} {row.get('how', '')}".strip()]
        + [percent(share) for share in (row["mean_iu"], row["kept"], row["agreement"]["mean_iu"])]
        + [number((row["age_ms"] or {}).get(key), ".0f") for key in ("median", "p95")]
        + [str(row["finished"]), str(row["dropped"]), percent(row["on_time"] / row["frames"])]
        for row in rows
    ]
    return table(head, cells)
