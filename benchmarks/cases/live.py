"""Latency of live runs on machines made slower.

A video comes through a pipe at 30 frames a second, and every part of the network takes FACTOR times its time: on time, and the
whole network on every frame beside it.
"""

from __future__ import annotations

import os
import time
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from benchmarks import sender
from benchmarks.harness import Facts, code, figure, listing, number, percent, say, share
from benchmarks.inputs import DRIVING, data
from clockseg import frame_oracle, load
from clockseg.clockwork.network import StagedNetwork
from clockseg.live import Until, live

OPTIONS = {"network": "street", "engine": "openvino", "fps": 30.0, "latency": 100.0, "seconds": 20.0,
           "factors": [1.0, 1.5, 2.0, 3.0, 4.0, 8.0]}  # fmt: skip


def measure(asked: Namespace) -> Facts:
    """Run live on each machine."""
    load_average = round(os.getloadavg()[0], 2)
    net, video = load(asked.network, engine=asked.engine), str(data("videos", DRIVING))
    for one in (net, _slowed(net, 1.0)):  # compiles
        live(one, [video], until=Until(frames=2))
    setting = {"network": net.name, "engine": net.engine, "fps": asked.fps, "latency_ms": asked.latency}
    slow = [one for factor in asked.factors for one in _slow(net, video, factor, asked)]
    return setting | {"load_average": load_average, "slow": slow}


def _run(net: Any, video: str, asked: Namespace, schedule: Any = None) -> Facts:
    """Run live until so many seconds after the first frame came out."""
    first: list[float] = []

    def seen(number: int, channel: Any, shown: Any) -> None:
        first.append(time.perf_counter())

    def ended() -> bool:
        return bool(first) and time.perf_counter() > first[0] + asked.seconds

    with sender.piped(video, asked.fps):
        [one] = live(net, ["-"], schedule, latency_seconds=asked.latency / 1000, until=Until(stop=ended), on_frame=seen)
    kept = ("arrived", "dropped", "skipped_at_start", "latency_ms", "reconnects", "gaps")
    told = {name: one.summary["live"][name] for name in kept}
    return {"frames": one.summary["frames"], "network_rate": one.summary["network_rate"], **told}


def _slow(net: StagedNetwork, video: str, factor: float, asked: Namespace) -> Iterator[Facts]:
    for name, schedule in (("on time", None), ("frame_oracle", frame_oracle)):
        found = _run(_slowed(net, factor), video, asked, schedule)
        say(f"{factor:g} times: {name} done")
        yield {"factor": factor, "schedule": name} | found


def _slowed(net: StagedNetwork, factor: float) -> StagedNetwork:
    """Return ``net`` on a slower machine: each part waits until it has taken ``factor`` times its time."""

    def slower(name: str, part: Any) -> Any:
        def call(*values: Any) -> Any:
            begun = time.perf_counter()
            made = part(*values)
            time.sleep((factor - 1) * (time.perf_counter() - begun))
            return made

        return call

    return net.map(slower)


def pages(facts: Facts) -> dict[str, str]:
    """One row for each machine and schedule."""
    note = (
        f"`{facts['network']}` on frames of 960x540 at {facts['fps']:g} a second, latency budget {facts['latency_ms']:g} ms, "
        f"{facts['engine']}; the sender runs on the same cores. Load average at the start: {facts['load_average']:.1f}."
    )
    latency: Facts = {
        f"{before}{key}": lambda row, of=of: f"{number(row['latency_ms'][of], '.1f')} ms"
        for before, key, of in (("latency: ", "median", "median"), ("", "99 %", "p99"))
    }
    slow: Facts = {
        "times slower": figure("factor", "g"),
        "schedule": lambda row: code(row["schedule"]),
        "network rate": share("network_rate"),
        "dropped": lambda row: percent(row["dropped"] / max(1, row["dropped"] + row["frames"])),
    }
    return {"live-slow": f"{listing(facts['slow'], slow | latency)}\n\n{note}"}
