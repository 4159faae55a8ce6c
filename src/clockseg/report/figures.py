"""Tables of a report: the settings and the cost of each run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from clockseg.report.columns import PARTS
from clockseg.report.run import Run

NONE = "–"
_AROUND = ("decode", "encode")
Row = dict[str, Any]
"""``name``, ``cells``, one per run, and ``note``, an explanation of the value."""


def costs(runs: Sequence[Run]) -> list[Row]:
    """Return the rows of the cost table, without rows that are empty for all runs."""
    stages = list(dict.fromkeys(stage for run in runs for stage in run.stages))
    means = [_means(run) for run in runs]
    rows = [_of(runs, name, key, say, note) for name, key, say, note in _SUMMARY]
    fired = [
        _row(f"{stage} fired on", [_percent(_table(run, "fire_rate").get(stage)) for run in runs]) for stage in stages
    ]
    spent = [
        _row(f"{part}, per frame", [_ms(mean.get(part)) for mean in means], "mean after the first")
        for part in (*stages, *PARTS, *_AROUND)
    ]
    calm = _row(
        "flicker", [_percent(_table(run, "flicker").get("flicker")) for run in runs], "beyond what motion explains"
    )
    return _told([*rows[:2], *fired, *rows[2:], *spent, calm])


def conditions(runs: Sequence[Run]) -> list[Row]:
    """Return the rows on input, settings and machine."""
    rows = [
        _row("input", [str(run.summary.get("source") or run.summary.get("input") or NONE) for run in runs]),
        *(_of(runs, name, name) for name in ("network", "schedule", "carry", "engine")),
        _row("machine", [", ".join(map(_part, _table(run, "machine").items())) or NONE for run in runs]),
        _row("versions", [", ".join(f"{k} {v}" for k, v in _table(run, "versions").items()) or NONE for run in runs]),
        _row("written", [_written(run) for run in runs]),
        _row("result folder", [str(run.folder) for run in runs]),
        _row("problems", ["; ".join(map(str, run.summary.get("problems") or ())) or NONE for run in runs]),
    ]
    return _told(rows)


def _row(name: str, cells: list[str], note: str = "") -> Row:
    return {"name": name, "cells": cells, "note": note}


def _of(runs: Sequence[Run], name: str, key: str, say: Callable[[Any], str] = str, note: str = "") -> Row:
    """Return a row with the values of the summaries under ``key``."""
    found = [run.summary.get(key) for run in runs]
    return _row(name, [NONE if value in (None, "") else say(value) for value in found], note)


def _told(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if any(cell != NONE for cell in row["cells"])]


def _table(run: Run, key: str) -> dict[str, Any]:
    found = run.summary.get(key)
    return found if isinstance(found, dict) else {}


def _part(item: tuple[str, Any]) -> str:
    return f"{item[1]} cores" if item[0] == "cores" else str(item[1])


def _written(run: Run) -> str:
    made = (run.folder / "summary.json").stat().st_mtime
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(made))


def _means(run: Run) -> dict[str, float]:
    """Return the mean seconds per frame of each part, over the frames after the first."""
    rows = [_flat(run, line["seconds"]) for line in run.trace[1:]]
    if not rows:
        return {}
    names = (*run.stages, *PARTS, *_AROUND)
    return dict(zip(names, np.mean(np.array(rows), axis=0).tolist(), strict=True))


def _flat(run: Run, seconds: dict[str, Any]) -> list[float]:
    return [*seconds["stages"], *(seconds[part] for part in (*PARTS, *_AROUND))]


def _whole(count: int) -> str:
    return f"{count:,}".replace(",", " ")


def _percent(share: float | None) -> str:
    return NONE if share is None else f"{100 * share:.1f} %"


def _ms(seconds: float | None) -> str:
    return NONE if seconds is None else f"{1000 * seconds:.2f} ms"


_SUMMARY: tuple[tuple[str, str, Callable[[Any], str], str], ...] = (
    ("frames", "frames", _whole, ""),
    ("network ran on", "network_rate", _percent, "of the frames after the first"),
    ("relative time", "relative_time_estimate", _percent, "estimated, relative to running every stage on every frame"),
    ("multiply-adds per frame", "multiply_adds_per_frame", lambda count: f"{count / 1e9:.3f} G", ""),
    ("relative multiply-adds", "relative_multiply_adds", _percent, "relative to the uncut network"),
    ("energy per frame", "joules_per_frame", lambda joules: f"{joules:.3f} J", ""),
    ("frames per second", "fps", lambda fps: f"{fps:.1f}", "of the whole run, decoding and writing included"),
)
"""Rows from the summary: name, key, format, explanation."""
