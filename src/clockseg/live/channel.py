"""One source of a live run: its stream through the network, its figures and its latencies."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule
from clockseg.clockwork.trace import Record, Tally
from clockseg.errors import ClocksegError
from clockseg.live.feed import Feed
from clockseg.live.line import Arrived, Line
from clockseg.live.source import Source
from clockseg.segmenting.figures import Figures, run_facts
from clockseg.showing.seeing import Shown as Output
from clockseg.showing.stream import stream
from clockseg.video import Frame

GAP_SECONDS = 2.0
"""After so long without a frame, cached values are discarded."""
_WEIGHT = 0.05
"""The weight of a new interval between frames in the running mean."""
_USUAL_FPS = 25.0
_FASTEST = 240.0
_MICROSECOND = Fraction(1, 1_000_000)


_LEAST, _STEP, _BINS = 1e-4, 1.01, 1700


class Delays:
    """Counts of delays, in seconds, in steps of 1 %; from 0.1 ms to half an hour, beyond that the ends.

    >>> delays = Delays()
    >>> for milliseconds in range(1, 101):
    ...     delays.add(milliseconds / 1000)
    >>> len(delays), round(delays.quantile(0.5), 3), round(delays.quantile(0.99), 3), delays.most
    (100, 0.05, 0.099, 0.1)
    """

    def __init__(self) -> None:
        self._counts = np.zeros(_BINS, np.int64)
        self.most = 0.0

    def __len__(self) -> int:
        return int(self._counts.sum())

    def add(self, seconds: float) -> None:
        """Add a delay."""
        place = int(math.log(max(seconds, _LEAST) / _LEAST, _STEP) + 0.5)
        self._counts[min(place, _BINS - 1)] += 1
        self.most = max(self.most, seconds)

    def quantile(self, share: float) -> float | None:
        """Return the quantile ``share`` of the delays (nearest rank, to half a percent); None without any."""
        if not len(self):
            return None
        place = int(np.argmax(np.cumsum(self._counts) >= max(1, share * len(self))))
        return float(min(self.most, _LEAST * _STEP**place))

    def facts(self) -> dict[str, Any]:
        """Return the median, the 95th and 99th percentile and the maximum, in milliseconds; None without any.

        >>> Delays().facts()["median"] is None
        True
        """
        quantiles = {"median": 0.5, "p95": 0.95, "p99": 0.99}
        found = {name: self.quantile(share) for name, share in quantiles.items()}
        found["most"] = self.most if len(self) else None
        return {name: None if seconds is None else round(1000 * seconds, 3) for name, seconds in found.items()}


class Shown(NamedTuple):
    """A frame with its output and record, the time of its arrival (seconds of the run), and its latency.

    ``latency_seconds`` is None if the network was compiled meanwhile. ``dropped``: frames dropped since the previous one.
    """

    frame: Frame
    output: Any
    record: Record
    arrived_seconds: float
    latency_seconds: float | None
    dropped: int


class _Waiting(NamedTuple):
    """A frame in the network: the time of its arrival, and True if its latency counts."""

    frame: Frame
    seconds: float
    timed: bool
    dropped: int


class Channel:
    """One source: ``step`` runs its next frame.

    ``latencies``: from a frame's arrival to its labels, without frames that waited for the network to be compiled. ``skipped``:
    frames dropped meanwhile. ``gaps``: fills after a gap in the source. ``taken``: frames that were run.
    """

    def __init__(
        self,
        source: Source,
        feed: Feed,
        line: Line,
        net: StagedNetwork,
        schedule: Callable[[Channel], Schedule],
        *,
        began: float,
        lookahead: int = 0,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.source, self.feed, self.line = source, feed, line
        self.latencies = Delays()
        self.figures = Figures(Tally(net.names))
        self.skipped = self.gaps = 0
        self.fault: Exception | None = None
        self.age_from = began
        self._began, self._now = began, now
        self.taken = self._dropped = 0
        self._last: Arrived | None = None
        self._interval: float | None = None
        self.stream = stream(net, schedule(self), lookahead=lookahead)

    @property
    def fps(self) -> float:
        """Arriving frames per second, as measured; before that as the source states."""
        if self._interval is not None:
            return min(_FASTEST, 1 / max(self._interval, 1e-6))
        fps = self.feed.fps or _USUAL_FPS
        return fps if fps <= _FASTEST else _USUAL_FPS

    @property
    def error(self) -> Exception | None:
        """The error that ended the source, or None."""
        return self.fault or self.feed.error

    @property
    def dropped(self) -> int:
        """Frames dropped for newer ones since the network was ready."""
        return self.line.dropped - self.skipped

    def age(self) -> float:
        """Return the seconds since the arrival of the frame that is being run."""
        return self._now() - self.age_from

    def step(self) -> list[Shown]:
        """Run the next frame that waits, and return the frames whose outputs are known now.

        An error of the network ends this source.
        """
        arrived = self.line.take(self._now())
        try:
            shown = [] if arrived is None else self._run(arrived)
            self.feed.ready()
            return shown
        except ClocksegError as error:
            self.fault = error
            self.feed.stop()
            return []

    def end(self) -> list[Shown]:
        """Return the frames that still wait for a key frame which will not come."""
        return [] if self.fault is not None else self._ended()

    def _ended(self) -> list[Shown]:
        """End the clip, and return the frames that waited."""
        return [self._shown(one) for one in self.stream.end()]

    def _run(self, arrived: Arrived) -> list[Shown]:
        self._measure(arrived)
        shown = self._after_gap(arrived)
        ready, before = self._ready(arrived.frame), self.line.dropped
        if not ready:
            # Compile for frames of this size, so that no record and no latency has it in it.
            shown += self._ended()
            self.stream.compile(arrived.frame.image)
        self.age_from = arrived.seconds
        waiting = _Waiting(self._placed(arrived), arrived.seconds, timed=ready, dropped=self.dropped - self._dropped)
        self._dropped = self.dropped
        self.taken += 1
        shown += [self._shown(one) for one in self.stream.push(arrived.frame.image, item=waiting)]
        if not ready:
            self._forgive(0 if self._last is None else before)
        self._last = arrived
        return shown

    def _shown(self, one: Output) -> Shown:
        waiting: _Waiting = one.item
        latency = self._now() - waiting.seconds if waiting.timed else None
        if latency is not None:
            self.latencies.add(latency)
        first = not self.figures.tally.frames
        self.figures = self.figures.add(one.record, first=first)
        seconds = waiting.seconds - self._began
        return Shown(waiting.frame, one.output, one.record, seconds, latency, waiting.dropped)

    def _ready(self, frame: Frame) -> bool:
        """Return True if the network has run on frames of this size."""
        return self._last is not None and self._last.frame.image.shape == frame.image.shape

    def _forgive(self, before: int) -> None:
        """Count the frames dropped while the network was compiled as skipped."""
        if self.line.drop == "latest":
            self.line.give_up()
        self.skipped += self.line.dropped - before

    def _measure(self, arrived: Arrived) -> None:
        last = self._last
        frames = 0 if last is None else arrived.frame.index - last.frame.index
        if last is None or arrived.connection != last.connection or frames < 1:
            return
        interval = (arrived.seconds - last.seconds) / frames
        if interval < GAP_SECONDS:
            # As often as frames came: those given up count as well.
            weight = 1 - (1 - _WEIGHT) ** frames
            before = 1 / self.fps if self._interval is None else self._interval
            self._interval = before + weight * (interval - before)

    def _after_gap(self, arrived: Arrived) -> list[Shown]:
        """End the clip after a gap: the next frame is a fill. Return the frames that still waited."""
        last = self._last
        if last is None:
            return []
        # Frames that were given up came, too.
        came = max(1, arrived.frame.index - last.frame.index)
        if arrived.connection != last.connection or (arrived.seconds - last.seconds) / came > GAP_SECONDS:
            self.gaps += 1
            return self._ended()
        return []

    def _placed(self, arrived: Arrived) -> Frame:
        """Return the frame with its time in the run, since a source may start anywhere after a reconnect; a file's times stay."""
        if self.source.kind == "file":
            return arrived.frame
        microseconds = round((arrived.seconds - self._began) * 1_000_000)
        return replace(arrived.frame, pts=microseconds, time_base=_MICROSECOND, duration=None)

    def summary(self, name: str | None, latency_seconds: float, wall_seconds: float) -> dict[str, Any]:
        """Return the summary: that of ``segment``, and under "live" the figures of live sources only.

        ``name``: of the schedule; None for the default budget.
        """
        source, feed, net = self.source, self.feed, self.stream.net
        return {
            "input": source.stem,
            "source": os.path.abspath(source.given) if source.kind == "file" else source.name,
            **self.figures.summary(wall_seconds),
            "starts": [0],
            "live": {
                "arrived": feed.arrived,
                "dropped": self.dropped,
                "skipped_at_start": self.skipped,
                "source_fps": round(self.fps, 3),
                "latency_ms": self.latencies.facts(),
                "latency_budget_ms": round(1000 * latency_seconds, 3),
                "drop": self.line.drop,
                "reconnects": feed.reconnects,
                "gaps": self.gaps,
            },
            **run_facts(net, name or "on time", str(self.stream.schedule.carry)),
            "problems": [feed.trouble] if feed.trouble not in ("", "it ended") else [],
        }
