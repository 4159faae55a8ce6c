"""Reaction lag: the number of frames by which a schedule shows later than the oracle that a region appears or vanishes.

A region *appears* at frame t if the oracle's labels of t have a connected region (8 neighbours) of one class, of at least a
thousandth of the frame, in which no pixel had that class at t - 1. It *vanishes* if the oracle's labels of t - 1 have such a
region in which no pixel has that class at t. Label maps have made the change if the class covers at least half of the region,
or has left at least half of it. Only a steady change is an event: the oracle had not made it on the two frames before t, and
has made it on t and t + 1.

A schedule has *reacted* at the first frame t + k, k >= 0, at which its labels have made the change: k is its lag. It has
*missed* the event if the oracle takes the change back first; the event is *open* if the clip ends first, or after 100 frames.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from clockseg.errors import UsageError
from clockseg.libraries import opencv
from clockseg.types import Array, Labels

Kind: TypeAlias = Literal["appear", "vanish"]
Outcome: TypeAlias = Literal["reacted", "missed", "open"]

LEAST_SHARE = 0.001
"""A region is at least this share of the frame: 173 pixels of 480x360."""
STEADY = 2
"""Frames before and after a change on which the oracle must not take it back."""
LONGEST = 100
"""Frames after which an event is left open, so that memory is bounded."""


class Lag(NamedTuple):
    """Outcome of an event, and the number of frames until then."""

    kind: Kind
    outcome: Outcome
    frames: int


@dataclass(frozen=True)
class Reaction:
    """Number of events of each kind, outcome and lag; addable.

    >>> late = Reaction(Counter({Lag("appear", "reacted", 0): 2, Lag("vanish", "reacted", 3): 3}))
    >>> late.median(), late.median("appear"), (late + late).events, Reaction().median() is None
    (3, 0, 10, True)
    """

    counts: Counter[Lag] = field(default_factory=Counter)

    def __add__(self, other: Reaction) -> Reaction:
        return Reaction(self.counts + other.counts) if isinstance(other, Reaction) else NotImplemented

    @property
    def events(self) -> int:
        """Number of events."""
        return self.counts.total()

    def median(self, kind: Kind | None = None) -> int | None:
        """Return the fewest frames within which half of the events are reacted to; None if that never happens.

        An open event counts for as long as it was watched (Kaplan and Meier, 1958); without it, late schedules would look
        faster. A missed event is never reacted to.
        """
        lags = [(lag, number) for lag, number in self.counts.items() if kind in (None, lag.kind)]
        reacted = Counter[int]()
        for lag, number in lags:
            reacted[lag.frames] += number if lag.outcome == "reacted" else 0
        waiting = Fraction(1)
        for frames in sorted(reacted):
            watched = sum(number for lag, number in lags if lag.frames >= frames or lag.outcome == "missed")
            waiting *= 1 - Fraction(reacted[frames], watched)
            if 2 * waiting <= 1:
                return frames
        return None

    def facts(self) -> dict[str, Any]:
        """Return plain values: median lags in frames, the share of events reacted to without a lag, and counts of events."""
        outcomes = Counter[str]()
        for lag, number in self.counts.items():
            outcomes[lag.outcome] += number
            outcomes["at once"] += number if lag[1:] == ("reacted", 0) else 0
        return {
            "median": self.median(),
            "appear": self.median("appear"),
            "vanish": self.median("vanish"),
            "at_once": outcomes["at once"] / self.events if self.events else None,
            "events": self.events,
            "missed": outcomes["missed"],
            "open": outcomes["open"],
        }


class Event(NamedTuple):
    """A region that appears or vanishes: its class, and its pixels, bool [h, w], in a window of the frame."""

    kind: Kind
    label: int
    window: tuple[slice, slice]
    region: Array

    def made(self, labels: Labels) -> bool:
        """Return True if these labels show the change on at least half of the region."""
        there = np.count_nonzero((labels[self.window] == self.label) & self.region)
        area = np.count_nonzero(self.region)
        return bool(2 * (there if self.kind == "appear" else area - there) >= area)


def events(before: Labels, now: Labels) -> Iterator[Event]:
    """Yield the regions that appear and vanish between two label maps [h, w] of one shape, steady or not.

    >>> before, now = np.zeros((2, 20, 20), np.uint8)
    >>> now[2:6, 3:9] = 1
    >>> [(event.kind, event.label, int(event.region.sum())) for event in events(before, now)]
    [('appear', 1, 24)]
    """
    if before.shape != now.shape or now.ndim != 2:
        raise UsageError(f"label maps of {list(before.shape)} and {list(now.shape)}; give two of one shape [h, w].")
    differs = before != now
    yield from _new_regions("appear", now, differs)
    yield from _new_regions("vanish", before, differs)


def _new_regions(kind: Kind, labels: Labels, differs: Array) -> Iterator[Event]:
    """Yield the connected regions of ``labels`` that differ in every pixel."""
    cv2, least = opencv(), max(1, round(LEAST_SHARE * labels.size))
    there, pixels = np.unique(labels[differs], return_counts=True)
    for label in there[pixels >= least]:
        mask = labels == label
        new, old = mask & differs, mask & ~differs
        beside_old = cv2.dilate(old.view(np.uint8), np.ones((3, 3), np.uint8)).view(bool)
        # Most differences are the edge of something that moves; labelling regions takes much longer than this test.
        if np.count_nonzero(new & ~beside_old) < least:
            continue
        _, regions, boxes, _ = cv2.connectedComponentsWithStats(new.view(np.uint8))
        for index, (left, top, width, height, area) in enumerate(boxes.tolist()):
            window = (slice(top, top + height), slice(left, left + width))
            region = regions[window] == index
            if index and area >= least and not (region & beside_old[window]).any():
                yield Event(kind, int(label), window, region)


@dataclass
class _Watched:
    """An event that is not over: the number of frames so far, and each schedule's lag once it has reacted."""

    event: Event
    lags: list[int | None]
    frames: int = 0

    def see(self, labels: Sequence[Labels]) -> None:
        for index, shown in enumerate(labels):
            if self.lags[index] is None and self.event.made(shown):
                self.lags[index] = self.frames
        self.frames += 1

    @property
    def over(self) -> bool:
        return self.frames >= STEADY and (None not in self.lags or self.frames >= LONGEST)


class Reactions:
    """Reactions of schedules over one clip: ``see`` each frame's labels, the oracle's and those of every schedule.

    >>> dark, light = np.zeros((2, 8, 8), np.uint8)
    >>> light[2:6, 2:6] = 1
    >>> clip = Reactions(2)
    >>> for oracle, late in zip((dark, dark, light, light), (dark, dark, dark, light)):
    ...     clip.see(oracle, [oracle, late])
    >>> [reaction.median("appear") for reaction in clip.end()]
    [0, 1]
    """

    def __init__(self, schedules: int) -> None:
        self._past: deque[Labels] = deque(maxlen=STEADY)
        self._watched: list[_Watched] = []
        self._counts: list[Counter[Lag]] = [Counter() for _ in range(schedules)]

    def see(self, oracle: Labels, labels: Sequence[Labels]) -> None:
        """Add one frame; one of another size than before begins another clip."""
        if self._past and self._past[-1].shape != oracle.shape:
            self.end()
        if len(self._past) == STEADY:
            new = (event for event in events(self._past[-1], oracle) if not any(map(event.made, self._past)))
            self._watched += [_Watched(event, [None] * len(labels)) for event in new]
        self._past.append(oracle)
        watched, self._watched = self._watched, []
        for one in watched:
            if not one.event.made(oracle):
                self._count(one, "missed")
                continue
            one.see(labels)
            if one.over:
                self._count(one, "open")
            else:
                self._watched.append(one)

    def end(self) -> tuple[Reaction, ...]:
        """End the clip and return the reaction of each schedule."""
        for one in self._watched:
            self._count(one, "open")
        self._watched = []
        self._past.clear()
        return tuple(Reaction(counts) for counts in self._counts)

    def _count(self, one: _Watched, otherwise: Outcome) -> None:
        """Count an event unless it was a flicker; ``otherwise``: the outcome for schedules that have not reacted."""
        if one.frames < STEADY:
            return
        for counts, lag in zip(self._counts, one.lags, strict=True):
            late = Lag(one.event.kind, otherwise, one.frames - 1)
            counts[late if lag is None else Lag(one.event.kind, "reacted", lag)] += 1
