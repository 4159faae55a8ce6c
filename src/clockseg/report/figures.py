"""What a run was and what it cost, in words: the tables of a report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from clockseg.report.columns import PARTS
from clockseg.report.run import Run

NONE = "–"
Row = dict[str, Any]
"""``name``, ``cells``, one a run, and ``note``, what the figure means."""


def costs(runs: Sequence[Run]) -> list[Row]:
    """The rows of the cost table; a row that no run has anything to say in is left out."""
    stages = list(dict.fromkeys(stage for run in runs for stage in run.stages))
    rows = [
        _row("frames", runs, lambda run: _whole(run.frames)),
        _row("network ran on", runs, lambda run: _percent(run.summary.get("network_rate")), "of the frames after the first"),
        *(_row(f"{stage} fired on", runs, lambda run, s=stage: _percent(_rates(run).get(s))) for stage in stages),
        _row("relative time", runs, lambda run: _percent(run.summary.get("relative_time_estimate")), "estimated, against every stage on every frame"),
        _row("multiply-adds a frame", runs, lambda run: _giga(run.summary.get("multiply_adds_per_frame"))),
        _row("relative multiply-adds", runs, lambda run: _percent(run.summary.get("relative_multiply_adds")), "against the uncut network"),
        _row("energy a frame", runs, lambda run: _unit(run.summary.get("joules_per_frame"), "J")),
        _row("frames a second", runs, lambda run: _number(run.summary.get("fps")), "of the whole run, decoding and writing included"),
        *(_row(f"{part}, a frame", runs, lambda run, p=part: _ms(_means(run).get(p)), "mean after the first") for part in (*stages, *PARTS, "decode", "encode")),
        _row("flicker", runs, lambda run: _percent((run.summary.get("flicker") or {}).get("flicker")), "of the labels, beyond what motion explains"),
    ]  # fmt: skip
    return [row for row in rows if any(cell != NONE for cell in row["cells"])]


def conditions(runs: Sequence[Run]) -> list[Row]:
    """The rows that say what was run, with what, and on which machine."""
    rows = [
        _row("input", runs, lambda run: str(run.summary.get("source") or run.summary.get("input") or NONE)),
        _row("network", runs, lambda run: _text(run, "network")),
        _row("schedule", runs, lambda run: _text(run, "schedule")),
        _row("carry", runs, lambda run: _text(run, "carry")),
        _row("engine", runs, lambda run: _text(run, "engine")),
        _row("machine", runs, lambda run: ", ".join(map(_part, _table(run, "machine").items())) or NONE),
        _row("versions", runs, lambda run: ", ".join(f"{k} {v}" for k, v in _table(run, "versions").items()) or NONE),
        _row("written", runs, _written),
        _row("result folder", runs, lambda run: str(run.folder)),
        _row("problems", runs, lambda run: "; ".join(map(str, run.summary.get("problems") or ())) or NONE),
    ]
    return [row for row in rows if any(cell != NONE for cell in row["cells"])]


def _row(name: str, runs: Sequence[Run], cell: Any, note: str = "") -> Row:
    return {"name": name, "cells": [cell(run) for run in runs], "note": note}


def _text(run: Run, key: str) -> str:
    return str(run.summary.get(key) or NONE)


def _table(run: Run, key: str) -> dict[str, Any]:
    found = run.summary.get(key)
    return found if isinstance(found, dict) else {}


def _part(item: tuple[str, Any]) -> str:
    return f"{item[1]} cores" if item[0] == "cores" else str(item[1])


def _rates(run: Run) -> dict[str, Any]:
    return _table(run, "fire_rate")


def _written(run: Run) -> str:
    made = (run.folder / "summary.json").stat().st_mtime
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(made))


def _means(run: Run) -> dict[str, float]:
    """Mean seconds a frame of each part, over the frames after the first."""
    rows = [_flat(run, line["seconds"]) for line in run.trace[1:]]
    if not rows:
        return {}
    names = (*run.stages, *PARTS, "decode", "encode")
    return dict(zip(names, np.mean(np.array(rows), axis=0).tolist(), strict=True))


def _flat(run: Run, seconds: dict[str, Any]) -> list[float]:
    return [*seconds["stages"], *(seconds[part] for part in (*PARTS, "decode", "encode"))]


def _whole(count: int) -> str:
    return f"{count:,}".replace(",", " ")


def _percent(share: float | None) -> str:
    return NONE if share is None else f"{100 * share:.1f} %"


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.1f}"


def _ms(seconds: float | None) -> str:
    return NONE if seconds is None else f"{1000 * seconds:.2f} ms"


def _giga(count: float | None) -> str:
    return NONE if count is None else f"{count / 1e9:.3f} G"


def _unit(value: float | None, unit: str) -> str:
    return NONE if value is None else f"{value:.3f} {unit}"
