"""Span: the part of a video between two of its times."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from clockseg.errors import UsageError


@dataclass(frozen=True)
class Span:
    """Frames with ``start`` <= time < ``end``, exact seconds on the video's own time line; UsageError if it is empty.

    None: from its beginning, to its end. Of a video whose times go back (joined recordings) only the first stretch counts.

    >>> Span(Fraction(60), Fraction(90))
    Span(start=Fraction(60, 1), end=Fraction(90, 1))
    """

    start: Fraction | None = None
    end: Fraction | None = None

    def __post_init__(self) -> None:
        if self.start is not None and self.end is not None and self.end <= self.start:
            raise UsageError(f"the span {self} is empty. Give an end after its start.")

    def __str__(self) -> str:
        since = "the beginning" if self.start is None else f"{float(self.start):g} s"
        until = "the end" if self.end is None else f"{float(self.end):g} s"
        return f"from {since} to {until}"

    def holds(self, seconds: Fraction) -> bool:
        """Whether a time lies in it.

        >>> [Span(end=Fraction(2)).holds(Fraction(time)) for time in (1, 2)]
        [True, False]
        """
        return (self.start is None or seconds >= self.start) and (self.end is None or seconds < self.end)

    def length_seconds(self, start: float, duration: float) -> float:
        """How much of it lies in a video of ``duration`` that begins at ``start``.

        >>> Span(Fraction(2)).length_seconds(1.0, 5.0)
        4.0
        """
        since = start if self.start is None else max(start, float(self.start))
        until = start + duration if self.end is None else min(start + duration, float(self.end))
        return max(0.0, until - since)


WHOLE = Span()
"""All of a video."""
