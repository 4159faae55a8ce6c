"""Timestamps for an output stream: the input's own, made strictly increasing."""

from __future__ import annotations

from fractions import Fraction

BACKWARDS_SECONDS = 1
"""A jump back by more is one between joined recordings."""


class Timestamps:
    """Gives each frame its time in units of ``time_base``.

    A frame without a time comes where the one before ends: after its duration, else one frame period (1 / ``fps``). A time
    not after the one before becomes the next unit; one that jumps back by over a second (joined recordings) comes there too,
    and those after it are moved alike; so are all if the first is before 0, which containers can't say.

    >>> times = Timestamps(Fraction(1, 1000), fps=Fraction(25))
    >>> [times.next(t) for t in (0.5, 0.54, 0.54, None, 0.62)]
    [500, 540, 541, 580, 620]
    """

    def __init__(self, time_base: Fraction, *, fps: Fraction | None) -> None:
        self.time_base = time_base
        self.period = 1 / (fps or Fraction(25))
        self._shift = Fraction(0)
        self._seconds: Fraction | None = None
        self._units: int | None = None
        self._duration_seconds: float | None = None

    @property
    def last_duration(self) -> int:
        """How long the last frame is shown, in units of the time base, at least one: as it was told, else one period."""
        return max(1, round(Fraction(self._duration_seconds or self.period) / self.time_base))

    def next(self, pts_seconds: float | None, duration_seconds: float | None = None) -> int:
        """The time of the next frame, in units of the time base; ``duration_seconds``: how long it is shown, if known."""
        self._seconds = self._place(pts_seconds)
        self._duration_seconds = duration_seconds
        units = round(self._seconds / self.time_base)
        self._units = units if self._units is None else max(units, self._units + 1)
        return self._units

    def _place(self, pts_seconds: float | None) -> Fraction:
        if self._seconds is None:
            first = Fraction(pts_seconds or 0)
            self._shift = max(-first, Fraction(0))
            return first + self._shift
        following = self._seconds + Fraction(self._duration_seconds or self.period)
        if pts_seconds is None:
            return following
        seconds = Fraction(pts_seconds) + self._shift
        if self._seconds - seconds > BACKWARDS_SECONDS:
            self._shift += following - seconds
            return following
        return seconds
