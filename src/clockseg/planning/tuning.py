"""Finds the threshold that gives a fire rate on unlabelled video: one recording, many replays, and the schedule file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from operator import add
from typing import Any, NamedTuple, TypeAlias

from clockseg.clocks.maps import change
from clockseg.clocks.spec import parse_schedule, uncarried
from clockseg.clocks.threshold import NEVER, with_threshold
from clockseg.clockwork.clock import Watch, as_clock, is_clock
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule, ScheduleLike
from clockseg.clockwork.trace import Record
from clockseg.errors import DataError, UsageError
from clockseg.evaluation.tally import Tally
from clockseg.execution.recording import Key, Recording, needs, replay
from clockseg.planning.candidates import PLACE
from clockseg.planning.schedule_file import ScheduleFile

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

    def facts(self) -> dict[str, float | None]:
        """Return the threshold and the result as plain values."""
        return {
            "threshold": self.threshold,
            "fire_rate": self.fire_rate,
            "held_agreement": self.trial.held_agreement,
            "relative_time_estimate": self.trial.relative_time_estimate,
        }


@dataclass(frozen=True)
class Tuned:
    """The point whose fire rate is closest to the one ``asked`` for, and the ``curve`` of all points tried, by threshold."""

    asked: float
    point: Point
    curve: tuple[Point, ...]


def tried(recordings: Iterable[Recording], schedule: ScheduleLike) -> Replayed:
    """Replay ``schedule`` on all recordings: each is a clip whose first frame is a fill and does not count."""
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
    if all(math.isinf(one.low) and math.isinf(one.high) for one in search.points):
        raise UsageError(
            f"the clock {by_threshold(between[0])} gave no signal on these frames; to be tuned, a clock returns Decision(fire, signal)."
        )
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
    """Return the number of fewest digits above ``low`` and up to ``high``, near the middle; 0 if that is among them."""
    if low < 0:
        return 0.0
    middle = (low + min(high, NEVER)) / 2
    shorter = (round(middle, digits) for digits in range(17))
    return next((number for number in shorter if low < number <= high), high)


def to_record(net: StagedNetwork, clock: str, *, paced: bool) -> frozenset[Key]:
    """Return what a recording must hold: what the clock watches, and the last stage's labels, which tell what holding costs.

    ``clock``, ``paced``: as for ``at_fire_rate``. ``UsageError`` for a clock that can't be tuned or paced.
    """
    if PLACE not in clock:
        raise UsageError(
            f"the clock {clock!r} has no {PLACE} for its threshold; give one such as adaptive({PLACE}, watch=1)."
        )
    last = {Watch("labels", len(net))} if net.stages[-1].scores is not None else set()
    return needs(net, [parse_schedule(_spelled(clock, 0.5, 0.5 if paced else None, None))]) | last


def default_clock(net: StagedNetwork) -> str:
    """Return the clock on change, with ``{}`` for its threshold, of the first map that this network has: labels, features, the picture."""
    if len(net) == 1:
        return f'difference({PLACE}, of="pixels")'
    return f"adaptive({PLACE})" if net.stages[-2].scores is not None else f'difference({PLACE}, of="features")'


def _spelled(clock: str, threshold: float, rate: float | None, cap: int | None) -> str:
    """Return ``clock`` with a threshold, paced to ``rate`` and capped; under the carry that it names."""
    text = clock.replace(PLACE, repr(threshold))
    text, carry = uncarried(text)
    text = text if rate is None else f"paced({text}, {rate!r})"
    text = text if cap is None else f"either({text}, at_least_every({cap}))"
    return text if carry is None else f"carried({text}, {carry})"


@dataclass(frozen=True)
class FireRate:
    """The schedule found, its rate on the clips (``point``), and the search for the fixed threshold it starts from.

    ``clips``: the path, the number of frames and the result of each. ``setting``: the options the threshold is valid for.
    """

    net: StagedNetwork
    schedule: str
    fixed_schedule: str
    point: Point
    fixed: Tuned
    clips: tuple[tuple[str, int, Replayed], ...]
    setting: Mapping[str, Any]

    def facts(self) -> dict[str, Any]:
        """Return what ``clockseg tune --json`` prints."""
        return {
            "network": self.net.name,
            "engine": self.net.engine,
            "asked": self.fixed.asked,
            "schedule": self.schedule,
            **self.point.facts(),
            "fixed": {"schedule": self.fixed_schedule, **self.fixed.point.facts()},
            "clips": [
                {"clip": path, "frames": frames, "fire_rate": trial.fire_rate if trial.tally.later else None}
                for path, frames, trial in self.clips
            ],
            "curve": [point.facts() for point in self.fixed.curve],
        }

    def file(self) -> ScheduleFile:
        """Return the schedule file, with how the schedule was found."""
        tuned = {
            "clips": [path for path, _, _ in self.clips],
            "frames": sum(frames for _, frames, _ in self.clips),
            "engine": self.net.engine,
            **self.setting,
            "asked": self.fixed.asked,
            "fire_rate": self.point.fire_rate,
            "fixed": self.fixed_schedule,
            "fixed_fire_rate": self.fixed.point.fire_rate,
            "curve_threshold": [point.threshold for point in self.fixed.curve],
            "curve_fire_rate": [point.fire_rate for point in self.fixed.curve],
        }
        return ScheduleFile(self.schedule, self.net.name, self.net.names, tuned)


def at_fire_rate(
    net: StagedNetwork,
    clock: str,
    recorded: Sequence[tuple[str, Recording]],
    rate: float,
    *,
    cap: int | None = None,
    paced: bool = True,
    setting: Mapping[str, Any] | None = None,
) -> FireRate:
    """Find the threshold at which ``clock`` fires on a share ``rate`` of the frames of the recordings, each with its path.

    ``clock``: text with ``{}`` for the threshold; ``cap``: the most frames held. ``paced``: adapt the threshold while it runs,
    to keep the rate. Errors as of ``tune``.
    """

    def text(threshold: float, pace: bool = False) -> str:
        return _spelled(clock, threshold, rate if pace else None, cap)

    recordings = [recording for _, recording in recorded]
    fixed = tune(recordings, lambda threshold: parse_schedule(text(threshold)), rate)
    point, schedule = fixed.point, text(fixed.point.threshold)
    start = schedule
    if paced and 0 < rate < 1 and point.threshold > 0:
        # The rate of a paced clock depends little on where its threshold starts.
        near = (point.threshold / 2, min(2 * point.threshold, NEVER))
        point = tune(recordings, lambda one: parse_schedule(text(one, pace=True)), rate, points=2, between=near).point
        schedule = text(point.threshold, pace=True)
    chosen = parse_schedule(schedule)
    clips = tuple((path, len(recording), tried([recording], chosen)) for path, recording in recorded)
    return FireRate(net, schedule, start, point, fixed, clips, setting or {})
