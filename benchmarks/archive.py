"""What would an archive of a million hours take? Cores, storage and network, from figures measured here.

    python benchmarks/archive.py [--docs]      results/archive.json and a table for docs/many-videos.md

Two videos are segmented with labels and traces written, each as the network recommends, in one process and in two; the
rest is arithmetic.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from clockseg import read_trace
from clockseg.execution.machine import cores
from page import insert, table
from provenance import HERE, write_result
from shared_data import shared_data

VIDEOS = ("solidWhiteRight.mp4", "one-by-one-person-detection.mp4")
HOURS = 1_000_000
COPIES = 4
"""Of each video, so that two jobs have work of some length."""


def main() -> None:
    """Measure, multiply, write."""
    args = _arguments()
    facts: dict[str, Any] = {"hours": HOURS, "videos": [_video(name) for name in VIDEOS]}
    facts["two_jobs"] = _two_jobs(args.rounds)
    write_result("archive", facts)
    print(_table(facts))
    if args.docs:
        insert(HERE.parent / "docs" / "cluster.md", "archive", _table(facts))


def _video(name: str) -> dict[str, Any]:
    path = shared_data("videos", name)
    with tempfile.TemporaryDirectory() as folder:
        _segment([path], Path(folder), 1)  # compiles, and measures which engine
        start = time.perf_counter()
        _segment([path], Path(folder) / "again", 1)
        seconds = time.perf_counter() - start
        made = Path(folder) / "again" / path.stem
        trace = read_trace(made)
        times = [line["pts_seconds"] for line in trace]
        per_hour = 3600 / (times[-1] - times[0] + statistics.median(b - a for a, b in pairwise(times)))
        files = {file: (made / file).stat().st_size for file in ("labels.mkv", "trace.jsonl")}
        return {
            "video": name,
            "size": trace[0]["size"],
            "fps": round(len(trace) * per_hour / 3600, 2),
            "core_hours_per_hour": round(seconds * cores() * per_hour / 3600, 3),
            "source_gb_per_hour": round(path.stat().st_size * per_hour / 1e9, 3),
            "labels_gb_per_hour": round(files["labels.mkv"] * per_hour / 1e9, 4),
            "trace_gb_per_hour": round(files["trace.jsonl"] * per_hour / 1e9, 4),
        }


def _two_jobs(rounds: int) -> float:
    """Seconds of one process over those of two, on the same videos; the median of rounds, by turns."""
    with tempfile.TemporaryDirectory() as folder:
        copies = []
        for name in VIDEOS:
            for number in range(COPIES):
                copies.append(Path(folder) / f"{number}-{name}")
                copies[-1].symlink_to(shared_data("videos", name))
        ratios = []
        for number in range(rounds):
            seconds = []
            for jobs in (1, 2):
                start = time.perf_counter()
                _segment(copies, Path(folder) / f"{number}-{jobs}", jobs)
                seconds.append(time.perf_counter() - start)
            ratios.append(seconds[0] / seconds[1])
            print(f"round {number + 1} of {rounds}: {ratios[-1]:.2f}", file=sys.stderr)
        return round(statistics.median(ratios), 3)


def _segment(videos: list[Path], out: Path, jobs: int) -> None:
    command = [sys.executable, "-m", "clockseg", "segment", *map(str, videos), "--out", str(out), "--quiet"]
    subprocess.run([*command, "--write", "labels,trace", "--engine", "openvino", "--jobs", str(jobs)], check=True)


def _table(facts: dict[str, Any]) -> str:
    head = ["video", "core hours for an hour", "cores for a million hours in 30 days", "labels", "traces"]
    rows = [[*head, "read by all cores"]]
    for one in facts["videos"]:
        needed = one["core_hours_per_hour"] * HOURS / (30 * 24)
        read = one["source_gb_per_hour"] * HOURS / (30 * 24 * 3600)
        rows.append(
            [
                f"{one['size'][0]}x{one['size'][1]}, {one['fps']:g} fps",
                f"{one['core_hours_per_hour']:.2f}",
                f"{needed:,.0f}",
                f"{one['labels_gb_per_hour'] * HOURS / 1000:,.0f} TB",
                f"{one['trace_gb_per_hour'] * HOURS / 1000:,.0f} TB",
                f"{read * 8:.1f} Gbit/s",
            ]
        )
    return table(rows) + f"\n\nTwo jobs on two cores did {facts['two_jobs']:.2f} times the work of one process on both."


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--docs", action="store_true", help="put the table into docs/many-videos.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
