"""Latency of live runs: over minutes, and on machines made slower.

* steady: a video through a pipe at 30 frames a second; its latency in its first and its last minute.
* slow: every part of the network takes FACTOR times its time; on time, and the whole network on every frame beside it.
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
from clockseg.live.channel import Delays

OPTIONS = {"network": "street", "engine": "openvino", "fps": 30.0, "latency": 100.0, "minutes": 5.0, "slow_seconds": 20.0,
           "factors": [1.0, 1.5, 2.0, 3.0, 4.0, 8.0]}  # fmt: skip


def measure(asked: Namespace) -> Facts:
    """Measure both."""
    load_average = round(os.getloadavg()[0], 2)
    net, video = load(asked.network, engine=asked.engine), str(data("videos", DRIVING))
    for one in (net, _slowed(net, 1.0)):  # compiles
        live(one, [video], until=Until(frames=2))
    setting = {"network": net.name, "engine": net.engine, "fps": asked.fps, "latency_ms": asked.latency}
    slow = [one for factor in asked.factors for one in _slow(net, video, factor, asked)]
    return setting | {"load_average": load_average, "steady": _steady(net, video, asked), "slow": slow}


class _Watched:
    """The latencies of a run by parts of so many seconds, and its end so long after the first frame came out."""

    def __init__(self, end_seconds: float, part_seconds: float = 1e9) -> None:
        self.parts: list[Delays] = []
        self.frames: list[float] = []
        self._end, self._part = end_seconds, part_seconds

    def ended(self) -> bool:
        return bool(self.frames) and time.perf_counter() > self.frames[0] + self._end

    def seen(self, number: int, channel: Any, shown: Any) -> None:
        self.frames.append(time.perf_counter())
        if shown.latency_seconds is not None:
            part = int((self.frames[-1] - self.frames[0]) / self._part)
            self.parts += [Delays() for _ in range(part + 1 - len(self.parts))]
            self.parts[part].add(shown.latency_seconds)


def _run(net: Any, video: str, watched: _Watched, asked: Namespace, schedule: Any = None) -> Facts:
    until, latency = Until(stop=watched.ended), asked.latency / 1000
    with sender.piped(video, asked.fps):
        [one] = live(net, ["-"], schedule, latency_seconds=latency, until=until, on_frame=watched.seen)
    kept = ("arrived", "dropped", "skipped_at_start", "latency_ms", "reconnects", "gaps")
    told = {name: one.summary["live"][name] for name in kept}
    return {"frames": one.summary["frames"], "network_rate": one.summary["network_rate"], **told}


def _steady(net: StagedNetwork, video: str, asked: Namespace) -> Facts:
    part = min(60.0, 15 * asked.minutes)
    watched = _Watched(60 * asked.minutes, part)
    found = _run(net, video, watched, asked)
    parts = [{"latency_ms": one.facts()} for one in watched.parts if len(one)]
    return found | {"minutes": asked.minutes, "part_seconds": part, "parts": parts}


def _slow(net: StagedNetwork, video: str, factor: float, asked: Namespace) -> Iterator[Facts]:
    for name, schedule in (("on time", None), ("frame_oracle", frame_oracle)):
        found = _run(_slowed(net, factor), video, _Watched(asked.slow_seconds), asked, schedule)
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
    """A page for each measure."""
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
    steady = facts["steady"]
    seconds, parts = steady["part_seconds"], [steady["parts"][index] for index in (0, -1)]
    named = [part | {"": f"{name} {seconds:g} s"} for name, part in zip(("first", "last"), parts, strict=True)]
    told = f"{steady['minutes']:g} minutes: {steady['frames']} frames, {steady['dropped']} dropped; the network ran on "
    told += f"{percent(steady['network_rate'])} of them."
    return {
        "live-steady": f"{listing(named, {'': ''} | latency)}\n\n{told}\n\n{note}",
        "live-slow": f"{listing(facts['slow'], slow | latency)}\n\n{note}",
    }
