"""Tables of a report: the settings and the cost of each run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from clockseg.report.run import Run
from clockseg.report.trace import PARTS, seconds_of

NONE = "–"
_TIMED = (*PARTS, "decode", "encode")
Row = dict[str, Any]
"""``name``, ``cells``, one per run, and ``note``, an explanation of the value."""


def costs(runs: Sequence[Run]) -> list[Row]:
    """Return the rows of the cost table, without rows that are empty for all runs."""
    stages = list(dict.fromkeys(stage for run in runs for stage in run.stages))
    rows = [_row(name, [run.summary.get(key) for run in runs], say, note) for name, key, say, note in _SUMMARY]
    for place, stage in enumerate(stages, start=2):
        rows.insert(place, _row(f"{stage} fired on", [_table(run, "fire_rate").get(stage) for run in runs], _percent))
    means = [_means(run) for run in runs]
    for part in (*stages, *_TIMED):
        rows.append(_row(f"{part}, per frame", [mean.get(part) for mean in means], _ms, "mean after the first"))
    return [row for row in rows if set(row["cells"]) != {NONE}]


def conditions(runs: Sequence[Run]) -> list[Row]:
    """Return the rows on input, settings and machine, without rows that are empty for all runs."""
    columns = [
        {
            "input": run.summary.get("source") or run.summary.get("input"),
            **{name: run.summary.get(name) for name in ("network", "schedule", "carry", "engine")},
            "machine": ", ".join(f"{v} cores" if k == "cores" else str(v) for k, v in _table(run, "machine").items()),
            "versions": ", ".join(f"{k} {v}" for k, v in _table(run, "versions").items()),
            "written": time.strftime("%Y-%m-%d %H:%M", time.localtime((run.folder / "summary.json").stat().st_mtime)),
            "result folder": run.folder,
            "problems": "; ".join(map(str, run.summary.get("problems") or ())),
        }
        for run in runs
    ]
    rows = [_row(name, [column[name] for column in columns]) for name in columns[0]]
    return [row for row in rows if set(row["cells"]) != {NONE}]


def _row(name: str, values: Sequence[Any], say: Callable[[Any], str] = str, note: str = "") -> Row:
    return {"name": name, "cells": [NONE if value in (None, "") else say(value) for value in values], "note": note}


def _table(run: Run, key: str) -> dict[str, Any]:
    found = run.summary.get(key)
    return found if isinstance(found, dict) else {}


def _means(run: Run) -> dict[str, float]:
    """Return the mean seconds per frame of each part, over the frames after the first."""
    rows = [seconds_of(line, _TIMED) for line in run.trace[1:]]
    return dict(zip((*run.stages, *_TIMED), np.mean(rows, axis=0).tolist(), strict=True)) if rows else {}


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.2f} ms"


_SUMMARY: tuple[tuple[str, str, Callable[[Any], str], str], ...] = (
    ("frames", "frames", lambda count: f"{count:,}".replace(",", " "), ""),
    ("network ran on", "network_rate", _percent, "of the frames after the first"),
    ("relative time", "relative_time_estimate", _percent, "estimated, relative to running every stage on every frame"),
    ("multiply-adds per frame", "multiply_adds_per_frame", lambda count: f"{count / 1e9:.3f} G", "the first included"),
    ("relative multiply-adds", "relative_multiply_adds", _percent, "relative to the uncut network"),
    ("frames per second", "fps", lambda fps: f"{fps:.1f}", "of the whole run, decoding and writing included"),
)
"""Rows from the summary: name, key, format, explanation."""
