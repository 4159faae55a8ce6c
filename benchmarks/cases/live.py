"""Latency of live runs: over minutes, on machines made slower, and from a server that is killed and comes back.

* steady: a video through a pipe at 30 frames a second; its latency in its first and its last minute.
* slow: every part of the network takes FACTOR times its time; on time, and the whole network on every frame beside it.
* return: the server is back three seconds after it was killed, again and again.
"""

from __future__ import annotations

import os
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from benchmarks import sender
from benchmarks.harness import Facts, code, number, percent, say, table
from benchmarks.inputs import DRIVING, data
from clockseg import frame_oracle, load
from clockseg.clockwork.network import StagedNetwork
from clockseg.live import Until, live
from clockseg.live.channel import Delays

OPTIONS = {"network": "street", "engine": "openvino", "fps": 30.0, "latency": 100.0, "minutes": 5.0, "slow_seconds": 20.0,
           "factors": [1.0, 1.5, 2.0, 3.0, 4.0, 8.0], "deaths": 3, "only": ["steady", "slow", "return"]}  # fmt: skip
PORT, DOWN_SECONDS, ALIVE_SECONDS = 18_733, 3.0, 12.0


def measure(asked: Namespace) -> Facts:
    """Measure what is asked for."""
    load_average = round(os.getloadavg()[0], 2)
    net, video = load(asked.network, engine=asked.engine), str(data("videos", DRIVING))
    for one in (net, _slowed(net, 1.0)):  # compiles
        live(one, [video], until=Until(frames=2))
    measures: dict[str, Callable[[], Any]] = {
        "steady": lambda: _steady(net, video, asked),
        "slow": lambda: [one for factor in asked.factors for one in _slow(net, video, factor, asked)],
        "return": lambda: _return(net, video, asked),
    }
    setting = {"network": net.name, "engine": net.engine, "fps": asked.fps, "latency_ms": asked.latency}
    return setting | {"load_average": load_average} | {name: measures[name]() for name in asked.only}


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


def _run(net: Any, source: str, watched: _Watched, asked: Namespace, schedule: Any = None, **options: Any) -> Facts:
    until = Until(stop=watched.ended)
    latency = asked.latency / 1000
    [one] = live(net, [source], schedule, latency_seconds=latency, until=until, on_frame=watched.seen, **options)
    kept = ("arrived", "dropped", "skipped_at_start", "latency_ms", "reconnects", "gaps")
    told = {name: one.summary["live"][name] for name in kept}
    return {"frames": one.summary["frames"], "network_rate": one.summary["network_rate"], **told}


def _steady(net: StagedNetwork, video: str, asked: Namespace) -> Facts:
    seconds = 60 * asked.minutes
    part = min(60.0, seconds / 4)
    watched = _Watched(seconds, part)
    with sender.piped(video, asked.fps):
        found = _run(net, "-", watched, asked)
    parts = [{"latency_ms": one.facts()} for one in watched.parts if len(one)]
    return found | {"minutes": asked.minutes, "part_seconds": part, "parts": parts}


def _slow(net: StagedNetwork, video: str, factor: float, asked: Namespace) -> Iterator[Facts]:
    for name, schedule in (("on time", None), ("frame_oracle", frame_oracle)):
        with sender.piped(video, asked.fps):
            found = _run(_slowed(net, factor), "-", _Watched(asked.slow_seconds), asked, schedule, name=name)
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


def _return(net: StagedNetwork, video: str, asked: Namespace) -> Facts:
    watched = _Watched((asked.deaths + 1) * ALIVE_SECONDS + DOWN_SECONDS * asked.deaths - 1.0)
    killed: list[float] = []
    over = threading.Event()

    def kill_and_start() -> None:
        for death in range(asked.deaths + 1):
            server = sender.started(video, asked.fps, str(PORT))
            over.wait(ALIVE_SECONDS)
            server.kill()
            server.wait()
            if death < asked.deaths:
                killed.append(time.perf_counter())
                over.wait(DOWN_SECONDS)

    thread = threading.Thread(target=kill_and_start)
    thread.start()
    try:
        found = _run(net, f"tcp://127.0.0.1:{PORT}", watched, asked)
    finally:
        over.set()
        thread.join()
    edges = [*killed, watched.frames[-1] + 1e-6]
    gaps = list(pairwise(watched.frames))
    silent = [max((b - a for a, b in gaps if begin < b and a < end), default=None) for begin, end in pairwise(edges)]
    silent = [one and round(one, 2) for one in silent]
    return found | {"deaths": asked.deaths, "down_seconds": DOWN_SECONDS, "silent_seconds": silent}


def pages(facts: Facts) -> dict[str, str]:
    """A page for each measure."""
    note = (
        f"`{facts['network']}` on frames of 960x540 at {facts['fps']:g} a second, latency budget {facts['latency_ms']:g} ms, "
        f"{facts['engine']}; the sender runs on the same cores. Load average at the start: {facts['load_average']:.1f}."
    )
    made = {"steady": _steady_table, "slow": _slow_table, "return": _return_table}
    return {f"live-{name}": f"{made[name](facts[name])}\n\n{note}" for name in made if name in facts}


def _ms(found: Facts) -> list[str]:
    return [f"{number(found[key], '.1f')} ms" for key in ("median", "p99")]


def _steady_table(found: Facts) -> str:
    parts, seconds = found["parts"], found["part_seconds"]
    named = [(f"first {seconds:g} s", parts[0]), (f"last {seconds:g} s", parts[-1])]
    rows = [[name, *_ms(part["latency_ms"])] for name, part in named]
    told = f"{found['minutes']:g} minutes: {found['frames']} frames, {found['dropped']} dropped; the network ran on "
    head = ["", "latency: median", "99 %"]
    return f"{table(head, rows)}\n\n{told}{percent(found['network_rate'])} of them."


def _slow_table(found: list[Facts]) -> str:
    rows = []
    for one in found:
        dropped = one["dropped"] / max(1, one["dropped"] + one["frames"])
        shares = [percent(one["network_rate"]), percent(dropped)]
        rows.append([f"{one['factor']:g}", code(one["schedule"]), *shares, *_ms(one["latency_ms"])])
    return table(["times slower", "schedule", "network rate", "dropped", "latency: median", "99 %"], rows)


def _return_table(found: Facts) -> str:
    silent = ", ".join(f"{number(one, '.1f')} s" for one in found["silent_seconds"])
    cells = [
        str(found["deaths"]),
        str(found["reconnects"]),
        f"{found['down_seconds']:g} s",
        silent,
        str(found["frames"]),
    ]
    head = ["killed", "reconnects", "down", "without a frame", "frames", "latency: median", "99 %"]
    return table(head, [[*cells, *_ms(found["latency_ms"])]])
