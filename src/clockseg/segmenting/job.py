"""Job: what is asked of every video of a run, and a piece of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

from clockseg.errors import UsageError, whole_number
from clockseg.video.decode import MAX_HOURS, MAX_PIXELS


@dataclass(frozen=True)
class Job:
    """What is asked of every video: plain values, so that they go to other processes and into a manifest.

    ``writes``: kinds of ``results.FILES``; ``every``: take each n-th frame only; ``limit``: so many of them; ``start`` and
    ``end``: the part of the video, seconds on its own time line (None: all); ``stream``: which of several video streams,
    from 0 (None: the best); ``max_pixels`` of a picture and ``max_hours`` of a video: more is refused; ``name``: what the
    schedule is called; ``setting``: the network and how it runs, in words by which runs of another are told apart.

    >>> Job(("labels",), every=0)
    Traceback (most recent call last):
        ...
    clockseg.errors.UsageError: every is 0; it must be a whole number of at least 1.
    """

    writes: tuple[str, ...]
    every: int = 1
    limit: int | None = None
    flicker: bool = False
    name: str | None = None
    start: Fraction | None = None
    end: Fraction | None = None
    stream: int | None = None
    max_pixels: int = MAX_PIXELS
    max_hours: float = MAX_HOURS
    setting: str = ""

    def __post_init__(self) -> None:
        whole_number(self.every, "every")
        whole_number(1 if self.limit is None else self.limit, "limit")
        if self.end is not None and self.end <= (self.start or 0):
            raise UsageError(
                f"a part from {float(self.start or 0):g} s to {float(self.end):g} s is empty; give an end after the start."
            )

    def facts(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        told = asdict(self) | {"writes": list(self.writes)}
        return told | {name: None if told[name] is None else str(told[name]) for name in ("start", "end")}


class Piece(NamedTuple):
    """A part of a video with a session, clocks and an encoder of its own: frames with ``start`` <= time < ``end``, seconds.

    ``number`` counts the pieces of a video from 0; None at either side: from its beginning, to its end.
    """

    number: int
    start: Fraction | None
    end: Fraction | None


def pieces(job: Job, boundaries: Sequence[Fraction]) -> Iterator[Piece]:
    """The pieces between ``boundaries``, which lie inside of the part that is asked for.

    >>> [(piece.start, piece.end) for piece in pieces(Job(("labels",)), [Fraction(60)])]
    [(None, Fraction(60, 1)), (Fraction(60, 1), None)]
    """
    edges = (job.start, *boundaries, job.end)
    return (Piece(number, *edge) for number, edge in enumerate(pairwise(edges)))
