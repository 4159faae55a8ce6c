"""A trace as columns, one number per frame, on the timeline of the run that a report shows."""

from __future__ import annotations

from typing import Any

import numpy as np

from clockseg.report.packed import packed
from clockseg.report.run import Run
from clockseg.types import Array

CARRIED = ("", "output", "fused", "corrected", "interpolated")
"""What a frame may carry, by its number in the page; "" for nothing."""
PARTS = ("clock", "motion", "fuse", "finish")
"""Names in a trace of what takes time besides the stages."""


def places(run: Run, first: Run) -> Array:
    """Return the index in ``run`` of each frame of ``first``, int64; -1 for frames that ``run`` did not process.

    Frames are the same if their times are, so that runs of different parts of a video meet; without times, their numbers.

    >>> from pathlib import Path
    >>> places(Run(Path("x"), {"frames": 2}), Run(Path("y"), {"frames": 3})).tolist()
    [0, 1, -1]
    """
    if not run.frames:
        return np.full(first.frames, -1, np.int64)
    timed = run.timed and first.timed
    there, wanted = (run.moments, first.moments) if timed else (run.numbers, first.numbers)
    found = np.searchsorted(there, wanted).clip(0, run.frames - 1)
    return np.where(there[found] == wanted, found, -1)


def columns(run: Run, at: Array) -> dict[str, Any] | None:
    """Return the columns of a trace, with its row ``at[k]`` for frame k (-1: none); None without a trace.

    ``fired``: bit s for stage s; ``carried``: as in ``CARRIED``; ``signal``: a column per stage, None for a stage whose clock
    has no signal; ``seconds``: a column per stage, then one for each of ``PARTS``.
    """
    if not run.trace:
        return None
    stages = len(run.stages)
    rows = [run.trace[place] if place >= 0 else None for place in at]
    fired = [0 if row is None else sum(bool(on) << stage for stage, on in enumerate(row["fired"])) for row in rows]
    carried = [0 if row is None else CARRIED.index(row.get("carried") or "") for row in rows]
    return {
        "fired": packed(np.array(fired, np.uint32)),
        "fill": packed(np.array([row is not None and row["fill"] for row in rows], np.uint8)),
        "there": packed((at >= 0).astype(np.uint8)),
        "carried": packed(np.array(carried, np.uint8)),
        "signal": [_signal(rows, stage) for stage in range(stages)],
        "seconds": [packed(column) for column in _seconds(rows, stages).T],
    }


def _signal(rows: list[dict[str, Any] | None], stage: int) -> Any:
    values = [None if row is None else row["signal"][stage] for row in rows]
    found = np.array([np.nan if value is None else value for value in values], np.float32)
    return None if np.isnan(found).all() else packed(found)


def _seconds(rows: list[dict[str, Any] | None], stages: int) -> Array:
    """Return float32 [frames, stages + parts]; NaN for a missing frame."""
    none = [np.nan] * (stages + len(PARTS))
    spent = [none if row is None else _spent(row["seconds"]) for row in rows]
    return np.array(spent, np.float32).reshape(len(rows), stages + len(PARTS))


def _spent(seconds: dict[str, Any]) -> list[float]:
    return [*seconds["stages"], *(seconds[part] for part in PARTS)]
