"""Does a live run stay on time? The tables of docs/live.md.

* steady: a video sent through a pipe at 30 frames a second for five minutes: latency in its first and its last minute. SideDataReader
  the run's own (from the decoder to the labels), that from the sender's clock on: sent, piped, decoded, run.
* slow: the same on a machine that is made slower (every part of the network takes FACTOR times its time): fewer firings, and
  when frames are dropped; on time, and the whole network on every frame beside it.
* return: a server that is killed and comes back, again and again.

    python benchmarks/live.py                   results/live.json and the tables; about ten minutes
    python benchmarks/live.py --minutes 0.5     shorter
    python benchmarks/live.py --docs            the same, and the tables into docs/live.md between their markers
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from clockseg import frame_oracle, load
from clockseg.clockwork.network import Part, StagedNetwork, Value
from clockseg.live import Until, live
from clockseg.live.channel import Channel, Shown
from clockseg.live.delays import Delays
from live_source import piped
from page import insert, table
from provenance import HERE, provenance, write_result
from shared_data import shared_data

DOCS = HERE.parent / "docs" / "live.md"
PORT = 18_733
SOURCE = HERE / "live_source.py"


def main() -> None:
    """Measure, write, print."""
    args = _arguments()
    load_average = os.getloadavg()[0]
    net = load(args.network, engine=args.engine)
    video = str(args.video or shared_data("videos", "solidWhiteRight.mp4"))
    setting = {"network": net.name, "engine": net.engine, "fps": args.fps, "latency_ms": args.latency, "size": "960x540",
               "load_average": round(load_average, 2)}  # fmt: skip
    _warm(net, video)
    measures: dict[str, Callable[[], Any]] = {
        "steady": lambda: steady(net, video, args),
        "slow": lambda: [one for factor in args.factors for one in slow(net, video, factor, args)],
        "return": lambda: returning(net, video, args),
    }
    figures = {name: measure() for name, measure in measures.items() if name in args.only}
    path = write_result("live", setting | figures)
    tables: dict[str, Callable[[Any], str]] = {"steady": steady_table, "slow": slow_table, "return": return_table}
    for name, found in figures.items():
        text = f"{tables[name](found)}\n\n{made_where(setting)}"
        print(f"{name}\n{text}\n")
        if args.docs:
            insert(DOCS, f"live-{name}", text)
    print(f"{path.relative_to(HERE.parent)} written", file=sys.stderr)


def _warm(net: StagedNetwork, video: str) -> None:
    """Compile all that runs later: it is no part of what is measured, and takes long."""
    for one in (net, slowed(net, 1.0)):
        live(one, [video], until=Until(frames=2))


class SoLong:
    """The end of a run, so many seconds after its first frame came out: a sender takes a while to begin."""

    def __init__(self, seconds: float, seen: Callable[[int, Channel, Shown], None] = lambda *shown: None) -> None:
        self._seconds, self._seen = seconds, seen
        self._until: float | None = None

    def __call__(self) -> bool:
        """Whether it has come."""
        return self._until is not None and time.perf_counter() > self._until

    def seen(self, number: int, channel: Channel, shown: Shown) -> None:
        """A frame has come out."""
        self._until = self._until or time.perf_counter() + self._seconds
        self._seen(number, channel, shown)


class Watched:
    """The latencies of a run, in parts of so many seconds, the run's own and from the sender's clock on."""

    def __init__(self, note: Path | None, fps: float, part_seconds: float) -> None:
        self.parts: list[tuple[Delays, Delays]] = []
        self.frames: list[float] = []
        self._note, self._fps, self._part_seconds = note, fps, part_seconds
        self._sent: float | None = None
        self._began: float | None = None

    def __call__(self, number: int, channel: Channel, shown: Shown) -> None:
        """One more frame with its labels."""
        now = time.perf_counter()
        self.frames.append(now)
        if shown.latency_seconds is None:
            return
        self._began = now if self._began is None else self._began
        part = int((now - self._began) / self._part_seconds)
        while len(self.parts) <= part:
            self.parts.append((Delays(), Delays()))
        self.parts[part][0].add(shown.latency_seconds)
        if self._note is not None:
            self._sent = float(self._note.read_text()) if self._sent is None else self._sent
            self.parts[part][1].add(now - self._sent - shown.frame.index / self._fps)


def steady(net: StagedNetwork, video: str, args: argparse.Namespace) -> dict[str, Any]:
    """Through a pipe for ``--minutes``."""
    seconds = 60 * args.minutes
    with tempfile.TemporaryDirectory() as folder:
        note = Path(folder) / "sent"
        watched = Watched(note, args.fps, min(60.0, seconds / 4))
        with piped(video, args.fps, note):
            end = SoLong(seconds, watched)
            [one] = live(net, ["-"], latency_seconds=args.latency / 1000, until=Until(stop=end), on_frame=end.seen)
    whole = [(own.facts(), sent.facts()) for own, sent in watched.parts if len(own)]
    return _facts(one.summary) | {
        "minutes": args.minutes,
        "part_seconds": min(60.0, seconds / 4),
        "parts": [{"latency_ms": own, "from_sender_ms": sent} for own, sent in whole],
    }


def slow(net: StagedNetwork, video: str, factor: float, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """With parts that take ``factor`` times their time: on time, and every frame through the whole network."""
    slower = slowed(net, factor)
    for name, schedule in (("on time", None), ("frame_oracle", frame_oracle)):
        with piped(video, args.fps):
            end, latency = SoLong(args.slow_seconds), args.latency / 1000
            [one] = live(
                slower, ["-"], schedule, name=name, latency_seconds=latency, until=Until(stop=end), on_frame=end.seen
            )
        print(f"{factor:g} times: {name} done", file=sys.stderr)
        yield {"factor": factor, "schedule": name} | _facts(one.summary)


def slowed(net: StagedNetwork, factor: float) -> StagedNetwork:
    """``net`` on a slower machine: each part waits until it has taken ``factor`` times what it took."""

    def slower(name: str, part: Part) -> Part:
        def call(*values: Value) -> Value:
            begun = time.perf_counter()
            made = part(*values)
            time.sleep((factor - 1) * (time.perf_counter() - begun))
            return made

        return call

    return net.map(slower)


def returning(net: StagedNetwork, video: str, args: argparse.Namespace) -> dict[str, Any]:
    """Over TCP, from a server that is killed ``--deaths`` times, and is back three seconds later each time."""
    watched = Watched(None, args.fps, 1e9)
    killed: list[float] = []
    over = threading.Event()

    def kill_and_start() -> None:
        for death in range(args.deaths + 1):
            server = subprocess.Popen([sys.executable, str(SOURCE), video, "--fps", str(args.fps), "--port", str(PORT)])
            over.wait(args.alive_seconds)
            server.kill()
            server.wait()
            if death < args.deaths:
                killed.append(time.perf_counter())
                over.wait(3.0)

    thread = threading.Thread(target=kill_and_start)
    thread.start()
    seconds = (args.deaths + 1) * args.alive_seconds + 3.0 * args.deaths - 1.0
    try:
        url = f"tcp://127.0.0.1:{PORT}"
        until = Until(seconds=seconds)
        [one] = live(net, [url], latency_seconds=args.latency / 1000, until=until, on_frame=watched)
    finally:
        over.set()
        thread.join()
    edges = [*killed, watched.frames[-1] + 1e-6]
    silent = [
        max((b - a for a, b in pairwise(watched.frames) if begin < b and a < end), default=None)
        for begin, end in pairwise(edges)
    ]
    return _facts(one.summary) | {
        "deaths": args.deaths,
        "down_seconds": 3.0,
        "silent_seconds": [one and round(one, 2) for one in silent],
    }


def _facts(summary: dict[str, Any]) -> dict[str, Any]:
    kept = ("arrived", "dropped", "skipped_at_start", "source_fps", "latency_ms", "reconnects", "gaps")
    told = {name: summary["live"][name] for name in kept}
    return {"frames": summary["frames"], "network_rate": summary["network_rate"], **told}


def steady_table(found: dict[str, Any]) -> str:
    """The first part of the run beside the last one."""
    parts, seconds = found["parts"], found["part_seconds"]
    named = [(f"first {seconds:g} s", parts[0]), (f"last {seconds:g} s", parts[-1])]
    rows = [
        [name, *(_ms(part[of][key]) for of in ("latency_ms", "from_sender_ms") for key in ("median", "p99"))]
        for name, part in named
    ]
    head = ["", "latency: median", "99 %", "from the sender: median", "99 %"]
    return (
        f"{table([head, *rows])}\n\n{found['minutes']:g} minutes: {found['frames']} frames, {found['dropped']} dropped; "
        f"the network ran on {_percent(found['network_rate'])} of them."
    )


def slow_table(found: list[dict[str, Any]]) -> str:
    """A row for each factor and schedule."""
    head = ["times slower", "schedule", "network rate", "dropped", "latency: median", "99 %"]
    rows = [
        [
            f"{one['factor']:g}",
            f"`{one['schedule']}`" if one["schedule"] != "on time" else "on time",
            _percent(one["network_rate"]),
            _percent(one["dropped"] / max(1, one["dropped"] + one["frames"])),
            *(_ms(one["latency_ms"][key]) for key in ("median", "p99")),
        ]
        for one in found
    ]
    return table([head, *rows])


def return_table(found: dict[str, Any]) -> str:
    """One row."""
    silent = ", ".join("-" if one is None else f"{one:.1f} s" for one in found["silent_seconds"])
    rows = [
        ["killed", "reconnects", "down", "without a frame", "frames", "latency: median", "99 %"],
        [
            str(found["deaths"]),
            str(found["reconnects"]),
            f"{found['down_seconds']:g} s",
            silent,
            str(found["frames"]),
            *(_ms(found["latency_ms"][key]) for key in ("median", "p99")),
        ],
    ]
    return table(rows)


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} ms"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def made_where(setting: dict[str, Any]) -> str:
    """On what, where and when."""
    made = provenance()
    return (
        f"`{setting['network']}` on frames of {setting['size']} at {setting['fps']:g} a second, latency budget "
        f"{setting['latency_ms']:g} ms, {setting['engine']} on {made['machine']['cores']} cores of "
        f"{made['machine']['processor']} (the sender runs on them too), {made['date']}, commit {made['commit']}. Load average "
        f"at the start: {setting['load_average']:.1f} (what else the machine did; 0 is nothing)."
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="street")
    parser.add_argument("--engine", default="openvino")
    parser.add_argument("--video", help="what is sent (default: a road of 960x540 in the shared data)")
    parser.add_argument("--fps", type=float, default=30.0)
    parser.add_argument("--latency", type=float, default=100.0, metavar="MS")
    parser.add_argument("--minutes", type=float, default=5.0, help="of the steady run")
    parser.add_argument("--factors", type=float, nargs="*", default=(1.0, 1.5, 2.0, 3.0, 4.0, 8.0))
    parser.add_argument("--slow-seconds", type=float, default=20.0, help="of each slow run")
    parser.add_argument("--deaths", type=int, default=3)
    parser.add_argument("--alive-seconds", type=float, default=12.0)
    parser.add_argument("--only", nargs="*", default=("steady", "slow", "return"), choices=("steady", "slow", "return"))
    parser.add_argument("--docs", action="store_true", help="put the tables into docs/live.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
