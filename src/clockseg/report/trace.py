"""A trace as columns, one number per frame, on the timeline of the run that a report shows; and the clocks' thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clockseg.clocks.spec import parse_schedule
from clockseg.clockwork.facts import facts
from clockseg.clockwork.schedule import schedule_for
from clockseg.errors import ClocksegError
from clockseg.report.page import packed
from clockseg.report.run import Run
from clockseg.types import Array

CARRIED = ("", "output", "interpolated")
"""Kinds of propagation of a frame's output, by their numbers in the page; "" for none."""
PARTS = ("clock", "motion", "fuse", "finish")
"""Names in a trace of the parts that take time besides the stages."""


def places(run: Run, first: Run) -> Array:
    """Return the index in ``run`` of each frame of ``first``, int64; -1 for frames that ``run`` did not process.

    Frames are the same if their times are, so that runs of different parts of a video match; without times, their numbers.

    >>> from pathlib import Path
    >>> places(Run(Path("x"), {"frames": 2}), Run(Path("y"), {"frames": 3})).tolist()
    [0, 1, -1]
    """
    if not run.frames:
        return np.full(first.frames, -1, np.int64)
    there, wanted = run.numbers, first.numbers
    if run.times is not None and first.times is not None:
        there, wanted = (np.round(1_000_000 * times) for times in (run.times, first.times))
    found = np.searchsorted(there, wanted).clip(0, run.frames - 1)
    return np.where(there[found] == wanted, found, -1)


def columns(run: Run, at: Array) -> dict[str, Any] | None:
    """Return the columns of a trace, with its row ``at[k]`` for frame k (-1: none); None without a trace.

    ``fired``: bit s for stage s; ``carried``: as in ``CARRIED``; ``signal``: a column per stage, None for a stage whose clock
    has no signal; ``seconds``: a column per stage, then one for each of ``PARTS``, NaN for a missing frame.
    """
    if not run.trace:
        return None
    rows = [run.trace[place] if place >= 0 else None for place in at]
    fired = [0 if row is None else sum(bool(on) << stage for stage, on in enumerate(row["fired"])) for row in rows]
    kinds = ["" if row is None else row.get("carried") or "" for row in rows]
    # Older versions knew more kinds of propagation.
    carried = [CARRIED.index(kind if kind in CARRIED else "output") for kind in kinds]
    told = [[None] * len(run.stages) if row is None else row["signal"] for row in rows]
    signals = np.array(told, np.float32).reshape(len(rows), len(run.stages)).T
    none = [np.nan] * (len(run.stages) + len(PARTS))
    seconds = np.array([none if row is None else seconds_of(row) for row in rows], np.float32)
    return {
        "fired": packed(np.array(fired, np.uint32)),
        "fill": packed(np.array([row is not None and row["fill"] for row in rows], np.uint8)),
        "there": packed((at >= 0).astype(np.uint8)),
        "carried": packed(np.array(carried, np.uint8)),
        "signal": [None if np.isnan(signal).all() else packed(signal) for signal in signals],
        "seconds": [packed(column) for column in seconds.reshape(len(rows), len(none)).T],
    }


def seconds_of(row: dict[str, Any], parts: Sequence[str] = PARTS) -> list[float]:
    """Return the seconds of the stages and of ``parts`` in one line of a trace."""
    return [*row["seconds"]["stages"], *(row["seconds"][part] for part in parts)]


def thresholds(schedule: str, stages: int) -> list[dict[str, Any] | None]:
    """Return the threshold of each stage, None without a constant one; ``schedule`` as the command line writes it.

    ``below``: True if the clock fires when its signal is below the ``value``.

    >>> thresholds("either(adaptive(0.2), at_least_every(8))", 2)
    [None, {'value': 0.2, 'below': False}]
    """
    try:
        clocks = schedule_for(parse_schedule(schedule, imports=False), stages).clocks
    except (ClocksegError, OSError):
        # The name of a file, or an object of the user, whose code is not run for a page.
        return [None] * stages
    declared = map(facts, clocks)
    return [None if one.threshold is None else {"value": one.threshold, "below": one.below} for one in declared]
