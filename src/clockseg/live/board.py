"""Board: the newest of each source, for all who watch; whoever is slow misses some, and the run never waits."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from clockseg.clockwork.network import StagedNetwork
from clockseg.evaluation.values import gives_numbers
from clockseg.live.channel import Channel, Shown
from clockseg.video.overlay import palette

HISTORY = 900
"""Frames of each source that a page can show when it is opened."""


class Moment(NamedTuple):
    """One frame's record, as sent to pages.

    ``fired``: bit s for stage s; ``signal``: the first that a clock gave, None unless finite; ``latency_ms``: None of a frame that had to wait
    until the network was compiled; ``dropped``: frames given up before it.
    """

    number: int
    seconds: float
    fired: int
    fill: bool
    signal: float | None
    latency_ms: float | None
    dropped: int


class Newest(NamedTuple):
    """The newest frame of a source, its number (from 1), and what happened at it."""

    number: int
    shown: Shown


class Board:
    """``show`` what comes (cheap: nothing is drawn or encoded for it), and ``wait`` for something newer.

    ``names``: of the sources, ``schedule``: what they run on.
    """

    def __init__(self, net: StagedNetwork, names: Sequence[str], schedule: str) -> None:
        self._net, self._names, self._schedule = net, tuple(names), schedule
        self._changed = threading.Condition()
        self._newest: list[Newest | None] = [None] * len(names)
        self._channels: list[Channel | None] = [None] * len(names)
        self._moments: list[deque[Moment]] = [deque(maxlen=HISTORY) for _ in names]
        self._closed = False

    def __len__(self) -> int:
        """The number of sources."""
        return len(self._names)

    @property
    def numbers(self) -> bool:
        """True if the network's output is numbers, not labels."""
        return gives_numbers(self._net)

    def about(self) -> dict[str, Any]:
        """Return what does not change: sources, stages, classes and their colours."""
        said = self._net.sidecar
        classes = [] if said is None else list(said.classes)
        colours = palette(len(classes) or 255) if said is None or not said.palette else said.palette
        return {
            "sources": list(self._names),
            "stages": [stage.name for stage in self._net.stages],
            "classes": classes,
            "palette": [list(colour) for colour in colours],
            "network": self._net.name,
            "engine": self._net.engine,
            "schedule": self._schedule,
            "history": HISTORY,
        }

    def show(self, source: int, channel: Channel, shown: Shown) -> None:
        """One more frame of a source."""
        record = shown.record
        signal = next((float(signal) for signal in record.signal if signal is not None), math.nan)
        with self._changed:
            before = self._newest[source]
            number = 1 if before is None else before.number + 1
            self._newest[source], self._channels[source] = Newest(number, shown), channel
            fired = sum(bool(fires) << stage for stage, fires in enumerate(record.fired))
            self._moments[source].append(
                Moment(
                    number,
                    round(shown.arrived_seconds, 3),
                    fired,
                    record.fill,
                    round(signal, 5) if math.isfinite(signal) else None,
                    None if shown.latency_seconds is None else round(1000 * shown.latency_seconds, 2),
                    shown.dropped,
                )
            )
            self._changed.notify_all()

    def wait(self, source: int, after: int, seconds: float) -> Newest | None:
        """The newest frame of a source, once it is newer than number ``after``; None after so many ``seconds`` without."""
        until = time.monotonic() + seconds
        with self._changed:
            while not self._closed and time.monotonic() < until:
                newest = self._newest[source]
                if newest is not None and newest.number > after:
                    return newest
                self._changed.wait(max(0.0, until - time.monotonic()))
        return None

    def since(self, source: int, after: int) -> list[Moment]:
        """Return the records of frames after number ``after`` that are still stored."""
        with self._changed:
            return [moment for moment in self._moments[source] if moment.number > after]

    def state(self, source: int) -> dict[str, Any]:
        """Return the state of a source."""
        channel = self._channels[source]
        if channel is None:
            return {"state": "connecting"}
        tally = channel.figures.tally
        return {
            "state": channel.feed.state,
            "trouble": channel.feed.trouble if channel.feed.state in ("connecting", "failed") else "",
            "frames": tally.frames,
            "dropped": channel.dropped,
            "reconnects": channel.feed.reconnects,
            "source_fps": round(channel.fps, 2),
            "network_rate": tally.network_rate,
            "fire_rate": list(tally.fire_rate.values()),
            "latency_ms": channel.latencies.facts(),
        }

    def close(self) -> None:
        """Let all who wait go."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
