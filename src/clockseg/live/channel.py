"""One source of a live run: its stream through the network, its figures and its latencies."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import ScheduleLike
from clockseg.clockwork.trace import Record
from clockseg.errors import ClocksegError
from clockseg.evaluation.tally import Tally
from clockseg.live.feed import Feed
from clockseg.live.sources import Arrived, Source
from clockseg.segmenting.figures import Figures, run_facts
from clockseg.showing.stream import Shown as Output
from clockseg.showing.stream import stream
from clockseg.video import Frame

GAP_SECONDS = 2.0
"""After so long without a frame, cached values are discarded."""
_WEIGHT = 0.05
"""The weight of a new interval between frames in the running mean."""
_USUAL_FPS = 25.0
_FASTEST = 240.0
_MICROSECOND = Fraction(1, 1_000_000)


class Delays:
    """Counts of delays in seconds, each to three digits, so that memory is bounded however many there are."""

    def __init__(self) -> None:
        self._counts = Counter[float]()

    def __len__(self) -> int:
        return self._counts.total()

    def add(self, seconds: float) -> None:
        """Add a delay."""
        self._counts[float(f"{seconds:.3g}")] += 1

    def quantile(self, share: float) -> float | None:
        """Return the quantile ``share`` of the delays (nearest rank, to half a percent); None without any."""
        below, rank = 0, share * len(self)
        for seconds, count in sorted(self._counts.items()):
            below += count
            if below >= rank:
                return seconds
        return None

    def facts(self) -> dict[str, Any]:
        """Return the median, the 95th and 99th percentile and the maximum, in milliseconds; None without any."""
        shares = {"median": 0.5, "p95": 0.95, "p99": 0.99, "most": 1.0}
        found = {name: self.quantile(share) for name, share in shares.items()}
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


class Channel:
    """One source: ``step`` runs its next frame, until ``limit`` were run.

    ``latencies``: from a frame's arrival to its labels, without frames that waited for the network to be compiled. ``skipped``:
    frames dropped meanwhile. ``gaps``: fills after a gap in the source.
    """

    def __init__(
        self,
        source: Source,
        feed: Feed,
        net: StagedNetwork,
        schedule: Callable[[Channel], ScheduleLike],
        *,
        began: float,
        lookahead: int = 0,
        limit: int | None = None,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.source, self.feed = source, feed
        self.latencies = Delays()
        self.figures = Figures(Tally(net.names))
        self.skipped = self.gaps = 0
        self.fault: Exception | None = None
        self._began, self._limit, self._now = began, limit, now
        self._taken = self._lost = 0
        self._age_from = began
        self._last: Arrived | None = None
        self._interval: float | None = None
        self.stream = stream(net, schedule(self), lookahead=lookahead)

    @property
    def fps(self) -> float:
        """Arriving frames per second, as measured; before that as the source states."""
        if self._interval is not None:
            return 1 / max(self._interval, 1 / _FASTEST)
        fps = self.feed.fps or _USUAL_FPS
        return fps if fps <= _FASTEST else _USUAL_FPS

    @property
    def error(self) -> Exception | None:
        """The error that ended the source, or None."""
        return self.fault or self.feed.error

    @property
    def dropped(self) -> int:
        """Frames dropped for newer ones since the network was ready."""
        return self.feed.dropped - self.skipped

    @property
    def waiting_since(self) -> float | None:
        """The arrival of the frame that ``step`` would run, if there is one."""
        return None if self._ended else self.feed.oldest()

    @property
    def over(self) -> bool:
        """True if there is nothing left to run, and nothing will come."""
        return self._ended or (self.feed.done and not len(self.feed))

    @property
    def _ended(self) -> bool:
        return self.fault is not None or self._taken == self._limit

    def age(self) -> float:
        """Return the seconds since the arrival of the frame that is being run."""
        return self._now() - self._age_from

    def step(self) -> list[Shown]:
        """Run the next frame that waits, and return the frames whose outputs are known now.

        An error of the network ends this source.
        """
        arrived = self.feed.take(self._now())
        try:
            shown = [] if arrived is None else self._run(arrived)
            self.feed.ready()
            return shown
        except ClocksegError as error:
            self.fault = error
            self.feed.stop()
            return []

    def end(self) -> list[Shown]:
        """End the clip, and return the frames that still wait for a key frame which will not come."""
        return [] if self.fault is not None else [self._shown(one) for one in self.stream.end()]

    def _run(self, arrived: Arrived) -> list[Shown]:
        shown: list[Shown] = []
        if self._after_gap(arrived):
            self.gaps += 1
            shown += self.end()
        dropped = self._dropped_since()
        ready = self._last is not None and self._last.frame.image.shape == arrived.frame.image.shape
        if not ready:
            shown += self.end()
        if self._last is None:
            self.skipped, dropped = dropped, 0
        item = self._placed(arrived), arrived.seconds, ready, dropped
        seen = self.stream.see(arrived.frame.image, item=item)
        if not ready:
            # Compile for frames of this size, so that no record and no latency has it in it.
            self.stream.compile(seen)
        self._age_from = arrived.seconds
        self._taken += 1
        shown += [self._shown(one) for one in self.stream.run(seen)]
        if not ready:
            self.feed.give_up()
            self.skipped += self._dropped_since()
        self._last = arrived
        return shown

    def _dropped_since(self) -> int:
        """Return how many frames were dropped since this was asked last."""
        before, self._lost = self._lost, self.feed.dropped
        return self._lost - before

    def _shown(self, one: Output) -> Shown:
        frame, seconds, timed, dropped = one.item
        latency = self._now() - seconds if timed else None
        if latency is not None:
            self.latencies.add(latency)
        first = not self.figures.tally.frames
        self.figures = self.figures.add(one.record, first=first)
        return Shown(frame, one.output, one.record, seconds - self._began, latency, dropped)

    def _after_gap(self, arrived: Arrived) -> bool:
        """Return True if the source was away before this frame; else measure the interval between its frames."""
        if self._last is None:
            return False
        # As often as frames came: those given up count as well.
        frames = max(1, arrived.frame.index - self._last.frame.index)
        interval = (arrived.seconds - self._last.seconds) / frames
        if arrived.connection != self._last.connection or interval > GAP_SECONDS:
            return True
        weight = 1 - (1 - _WEIGHT) ** frames
        before = 1 / self.fps
        self._interval = before + weight * (interval - before)
        return False

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
        source, feed = self.source, self.feed
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
                "drop": feed.drop,
                "reconnects": feed.reconnects,
                "gaps": self.gaps,
            },
            **run_facts(self.stream.net, name or "on time", str(self.stream.schedule.carry)),
            "problems": [feed.trouble] if feed.trouble else [],
        }
