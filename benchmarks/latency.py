"""Latency and throughput of a network: seconds from a frame to its output, and frames per second."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import alternating, frame_oracle, pipelined, skip_frame
from clockseg.errors import UsageError
from clockseg.execution.pipeline import Runner, runner

UNMEASURED = 2
"""Frames that warm up each turn and are not measured."""


@dataclass(frozen=True)
class Latency:
    """Timings of one runner, in seconds.

    ``waits``: from a frame to its output, one tuple per round with one number per frame. ``busy``: per round the time from
    its first frame until the frame after its last could start.

    >>> one = Latency("full", ((0.02, 0.04), (0.02, 0.02)), (0.06, 0.04))
    >>> one.median, one.fps, one.relative(one)
    (0.02, 40.0, 1.0)
    """

    name: str
    waits: tuple[tuple[float, ...], ...] = field(repr=False)
    busy: tuple[float, ...] = field(repr=False)

    @property
    def frames(self) -> int:
        """Number of measured frames."""
        return sum(map(len, self.waits))

    @property
    def mean(self) -> float:
        """Mean wait; more telling than the median for schedules on which frames differ, such as skip-frame."""
        return fmean(self._all())

    @property
    def median(self) -> float:
        """Median wait."""
        return median(self._all())

    def tail(self, percent: float) -> float:
        """Return the percentile of the waits, such as 95 or 99 (nearest rank)."""
        return float(np.percentile(list(self._all()), percent, method="inverted_cdf"))

    @property
    def fps(self) -> float:
        """Frames per second, one directly after another."""
        return self.frames / sum(self.busy)

    def relative(self, other: Latency) -> float:
        """Return the ratio of the mean waits: the median over rounds of the ratio in one round, which both shared."""
        return median(fmean(a) / fmean(b) for a, b in zip(self.waits, other.waits, strict=True))

    def relative_fps(self, other: Latency) -> float:
        """Return the ratio of the throughputs, as ``relative``."""
        return median(b / a for a, b in zip(self.busy, other.busy, strict=True))

    def facts(self, full: Latency) -> dict[str, Any]:
        """Return the figures as plain values, ratios relative to ``full``."""
        waits = {"mean": self.mean, "median": self.median, "p95": self.tail(95), "p99": self.tail(99)}
        return {
            "name": self.name,
            "latency_ms": {name: round(1000 * seconds, 3) for name, seconds in waits.items()},
            "fps": round(self.fps, 3),
            "relative_latency": round(self.relative(full), 4),
            "relative_fps": round(self.relative_fps(full), 4),
        }

    def _all(self) -> Iterator[float]:
        return (wait for round in self.waits for wait in round)


def measure(
    runners: Mapping[str, Runner],
    images: Sequence[Any],
    *,
    rounds: int = 8,
    now: Callable[[], float] = time.perf_counter,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[Latency, ...]:
    """Measure each runner over ``images``, in rounds; in each round every runner has a turn, in another order.

    A round before the first compiles and is not measured. At least ``UNMEASURED`` images; sessions go on from turn to turn.
    """
    if len(images) < UNMEASURED or rounds < 1:
        raise UsageError(f"{len(images)} images, {rounds} rounds; give at least {UNMEASURED} images and 1 round.")
    waits: dict[str, list[tuple[float, ...]]] = {name: [] for name in runners}
    busy: dict[str, list[float]] = {name: [] for name in runners}
    for number in range(rounds + 1):
        order = list(runners)
        random.Random(number).shuffle(order)
        for name in order:
            one, took = _turn(runners[name], images, now)
            if number:
                waits[name].append(one)
                busy[name].append(took)
        progress(number)
    return tuple(Latency(name, tuple(waits[name]), tuple(busy[name])) for name in runners)


def _turn(runner: Runner, images: Sequence[Any], now: Callable[[], float]) -> tuple[tuple[float, ...], float]:
    for image in images[:UNMEASURED]:
        runner.session(image)
        runner.between()
    waits, begun = [], now()
    for image in images:
        start = now()
        runner.session(image)
        waits.append(now() - start)
        runner.between()
    return tuple(waits), now() - begun


def pipeline_runners(net: StagedNetwork, *, beside: Mapping[str, StagedNetwork] | None = None) -> dict[str, Runner]:
    """Return the runners that the paper compares: the uncut network, named "full", then by schedule.

    Those are the frame oracle, alternating, skip-frame, and each pipeline of up to three segments, run serially and ahead.
    ``beside``: other networks by name, each run whole on every frame. ``UsageError`` for a network of one stage, which has no
    pipeline.
    """
    if len(net) < 2:
        raise UsageError(f"network {net.name!r} has one stage; a pipeline needs two. Cut it at more tensors.")
    found = {
        "full": runner(net.uncut(), frame_oracle),
        "frame_oracle": runner(net, frame_oracle),
        "alternating": runner(net, alternating),
        "skip_frame(2)": runner(net, skip_frame(2)),
    }
    for k in range(2, min(3, len(net)) + 1):
        found[f"pipelined({k}) serial"] = runner(net, pipelined(k))
        found[f"pipelined({k}) ahead"] = runner(net, pipelined(k), ahead=True)
    return found | {name: runner(other.uncut(), frame_oracle) for name, other in (beside or {}).items()}
