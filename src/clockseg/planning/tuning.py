"""Finds the threshold that gives a fire rate on unlabelled video: one recording, many replays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from operator import add
from typing import NamedTuple, TypeAlias

from clockseg.clocks.maps import change
from clockseg.clocks.threshold import NEVER, with_threshold
from clockseg.clockwork.clock import Watch, as_clock, is_clock
from clockseg.clockwork.schedule import Schedule, ScheduleLike
from clockseg.clockwork.trace import Record, Tally
from clockseg.errors import DataError, UsageError
from clockseg.execution.recording import Recording, replay

ByThreshold: TypeAlias = Callable[[float], ScheduleLike]
"""A schedule for each threshold, such as ``adaptive``."""

MOST_REPLAYS = 80
"""Limit of replays."""


@dataclass(frozen=True)
class Replayed:
    """The result of a schedule replayed on recordings, over the frames after each clip's first; addable.

    ``tally``: firings; its ``seconds`` are an estimate, ``full_seconds`` those of full passes. ``agreeing``: the sum over
    frames of the share of places at which the last stage's label map, fresh or held, is the oracle's; None if it has no
    score map.
    """

    tally: Tally
    full_seconds: float
    agreeing: float | None

    @property
    def fire_rate(self) -> float:
        """The fire rate of the last stage, which fires if any clocked stage does; NaN without frames."""
        return self.tally.fires[-1] / self.tally.later if self.tally.later else math.nan

    @property
    def held_agreement(self) -> float | None:
        """The mean share of places at which the last stage's label map, fresh or held, is what it would be if it fired."""
        return None if self.agreeing is None or not self.tally.later else self.agreeing / self.tally.later

    @property
    def relative_time_estimate(self) -> float | None:
        """Seconds of the stages that fire over those of all stages on every frame, without the clocks' own time."""
        return self.tally.seconds / self.full_seconds if self.full_seconds else None

    def __add__(self, other: Replayed) -> Replayed:
        agreeing = None if self.agreeing is None or other.agreeing is None else self.agreeing + other.agreeing
        return Replayed(self.tally + other.tally, self.full_seconds + other.full_seconds, agreeing)


class Point(NamedTuple):
    """A threshold and its result on the recordings; every threshold in (``low``, ``high``] gives the same firings on these frames."""

    threshold: float
    trial: Replayed
    low: float
    high: float

    @property
    def fire_rate(self) -> float:
        return self.trial.fire_rate


@dataclass(frozen=True)
class Tuned:
    """The point whose fire rate is closest to the one ``asked`` for, and the ``curve`` of all points tried, by threshold."""

    asked: float
    point: Point
    curve: tuple[Point, ...]


def tried(recordings: Iterable[Recording], schedule: ScheduleLike) -> Replayed:
    """Replay ``schedule`` on all recordings: each is a clip whose first frame is a fill and does not count.

    >>> import numpy as np
    >>> from clockseg.execution.recording import record
    >>> from clockseg.clocks.rates import skip_frame
    >>> from clockseg.clockwork.network import Stage, StagedNetwork
    >>> still = record(StagedNetwork("one", (Stage("a", lambda image: image, scores=None),)), [np.zeros(1)] * 5)
    >>> tried([still], skip_frame(2)).fire_rate
    0.5
    """
    found = [_tried(recording, replay(recording, schedule)) for recording in recordings]
    if not found:
        raise UsageError("no recordings to try a schedule on; give at least one.")
    return reduce(add, found)


def _tried(recording: Recording, records: Iterable[Record]) -> Replayed:
    tally, last, fill = Tally(recording.net.names), len(recording.net), 0
    full, agreeing, watched = 0.0, 0.0, Watch("labels", len(recording.net)) in recording.keep
    for index, record in enumerate(records):
        tally = tally.add(record, first=index == 0)
        fill = index if record.fill else fill
        if index == 0:
            continue
        full += recording.frames[index].seconds.network
        reflects = fill + record.reflects[-1]
        if watched and reflects != index:
            now, held = (recording.look(Watch("labels", last), at) for at in (index, reflects))
            agreeing += 1 - change(now, held)
        else:
            agreeing += 1
    return Replayed(tally, full, agreeing if watched else None)


def tune(
    recordings: Sequence[Recording],
    schedule: ByThreshold,
    fire_rate: float,
    *,
    points: int = 16,
    between: tuple[float, float] = (0.0, NEVER),
) -> Tuned:
    """Find the threshold at which the fire rate of the last stage, over all recordings, is closest to ``fire_rate`` (0..1).

    ``schedule``: a function of the threshold, such as ``adaptive``, or a clock with a threshold. The fire rate is a step
    function of the threshold, and not quite monotone. A replay shows all signals, so its result holds for every threshold
    between the largest signal that did not fire and the smallest that did, which is one step. The search bisects to a curve
    of about ``points`` steps, then around the requested rate. The threshold returned is the shortest number in its step.
    ``DataError`` if no recording has a second frame.

    >>> from clockseg.clocks import adaptive
    >>> tune([], adaptive, 0.5)
    Traceback (most recent call last):
        ...
    clockseg.errors.DataError: nothing to tune on: no clip has two frames or more.
    """
    if not 0 <= fire_rate <= 1:
        raise UsageError(f"a fire rate of {fire_rate!r}; give a share of frames from 0 to 1, such as 0.5.")
    if isinstance(schedule, Schedule):
        raise UsageError("a schedule has its threshold already; give a function of the threshold, such as adaptive.")
    by_threshold = partial(with_threshold, as_clock(schedule)) if is_clock(schedule) else schedule
    if not any(len(recording) > 1 for recording in recordings):
        raise DataError("nothing to tune on: no clip has two frames or more.")
    search = _Search([recording for recording in recordings if len(recording)], by_threshold, fire_rate, between)
    search.close_in(points)
    best = search.best()
    return Tuned(fire_rate, search.at(_short(best.low, best.high)), tuple(search.points))


class _Search:
    """The points tried so far, by threshold."""

    def __init__(
        self, recordings: Sequence[Recording], schedule: ByThreshold, asked: float, between: tuple[float, float]
    ) -> None:
        self.recordings, self.schedule, self.asked, self.between = recordings, schedule, asked, between
        self.points = [self._point(threshold) for threshold in between]
        self.replays = len(self.points)

    def at(self, threshold: float) -> Point:
        """Return the point at ``threshold``, and keep it among the points."""
        point = self._point(threshold)
        self.replays += 1
        others = [known for known in self.points if (known.low, known.high) != (point.low, point.high)]
        self.points = sorted([*others, point], key=lambda known: known.threshold)
        return point

    def close_in(self, count: int) -> None:
        """Bisect where the rate makes its widest steps until there are ``count`` points, then where it passes the one asked for."""
        while self.replays < MOST_REPLAYS:
            # Two neighbouring pieces, with thresholds in between that neither covers.
            pairs = [(left, right) for left, right in pairwise(self.points) if left.high < right.low]
            stepping = [pair for pair in pairs if pair[0].fire_rate != pair[1].fire_rate]
            if self.replays < count and stepping:
                left, right = max(stepping, key=lambda pair: abs(pair[0].fire_rate - pair[1].fire_rate))
            elif passing := [(a, b) for a, b in pairs if (a.fire_rate - self.asked) * (b.fire_rate - self.asked) < 0]:
                left, right = passing[0]
            else:
                return
            self.at(_short(left.high, right.low))

    def best(self) -> Point:
        """Return the closest point; of several the one of the widest piece, which depends least on these frames."""
        return min(self.points, key=lambda point: (abs(point.fire_rate - self.asked), point.low - point.high))

    def _point(self, threshold: float) -> Point:
        made = self.schedule(threshold)
        records = [list(replay(recording, made)) for recording in self.recordings]
        signals = [signal for each in records for record in each for signal in record.signal if signal is not None]
        low = max((signal for signal in signals if signal < threshold), default=-math.inf)
        high = min((signal for signal in signals if signal >= threshold), default=math.inf)
        return Point(threshold, reduce(add, map(_tried, self.recordings, records)), low, high)


def _short(low: float, high: float) -> float:
    """Return the number of fewest digits above ``low`` and up to ``high``, near the middle; 0 if that is among them.

    >>> _short(0.1832, 0.1891), _short(-math.inf, 0.002)
    (0.186, 0.0)
    """
    if low < 0:
        return 0.0
    middle = (low + min(high, NEVER)) / 2
    shorter = (round(middle, digits) for digits in range(17))
    return next((number for number in shorter if low < number <= high), high)
