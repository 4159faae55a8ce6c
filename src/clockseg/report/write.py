"""Writing of reports: one HTML file from result folders, with tables of the settings and the cost of each run."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np

from clockseg import __version__
from clockseg.errors import ClocksegError, DataError, UsageError
from clockseg.evaluation.tables import percent
from clockseg.files import whole
from clockseg.report.maps import Scan, comparable, scan
from clockseg.report.page import packed, page
from clockseg.report.picture import Choice, picture
from clockseg.report.run import CARRIED, PARTS, Run, columns, places, read_run, seconds_of, thresholds

MOST_RUNS = 6
MOST_FRAMES = 4_000_000
"""A day and a half at 30 FPS."""
HEADLINE = ("network_rate", "relative_time_estimate")
"""Figures of the summary at the top of the page, None where unknown."""
_WRITES = "segment without --write for all that a page shows"
NONE = "–"
_TIMED = (*PARTS, "decode", "encode")
Row = dict[str, Any]
"""``name``, ``cells``, one per run, and ``note``, an explanation of the value."""
Result = str | os.PathLike[str]


def write(
    results: Result | Sequence[Result],
    file: str | os.PathLike[str],
    *,
    video: Choice = "auto",
    source: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    warn: Callable[[str], None] = lambda sentence: None,
) -> Path:
    """Write a page on one result folder, or on several of one video: the first is shown, the others compared with it.

    ``video``: embed the video ("embed"), link to it ("reference"), show none ("none"), or embed it if it is short ("auto").
    ``source``: its current path, if it was moved. ``warn`` gets a sentence on whatever could not be shown.
    ``UsageError`` if ``file`` exists and may not be replaced, ``DataError`` if a folder has no result.
    """
    target = Path(file)
    folders = [results] if isinstance(results, str | os.PathLike) else list(results)
    _check(target, folders, video, overwrite=overwrite)
    runs = [read_run(folder, source=source) for folder in folders]
    notes: list[str] = []

    def note(sentence: str) -> None:
        notes.append(sentence)
        warn(sentence)

    try:
        facts, shown = _facts(runs, target, video, note)
        name = str(runs[0].summary.get("input") or runs[0].folder.resolve().name)
        text = page(f"{name} – clockseg", facts | {"name": name, "notes": notes}, shown)
    except ClocksegError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        # Files that another program wrote or changed.
        folders_said, what = ", ".join(str(run.folder) for run in runs), f"{type(error).__name__}: {error}"
        raise DataError(
            f"{folders_said}: not a result of clockseg segment ({what}). Segment the video again."
        ) from error
    with whole(target) as part:
        part.write_text(text, encoding="utf-8", errors="replace")
    return target


def _check(target: Path, folders: Sequence[Result], video: str, *, overwrite: bool) -> None:
    if not 1 <= len(folders) <= MOST_RUNS:
        raise UsageError(f"{len(folders)} runs; give 1 to {MOST_RUNS} of one video. The first is shown.")
    if video not in get_args(Choice):
        raise UsageError(f"video={video!r}; give one of {', '.join(get_args(Choice))}.")
    if target.is_dir() or (target.exists() and not overwrite):
        raise UsageError(f"{target} already exists; give another name, or overwrite it.")


def _facts(runs: Sequence[Run], target: Path, video: Choice, note: Callable[[str], None]) -> tuple[dict[str, Any], str]:
    first = runs[0]
    if not 0 < first.frames <= MOST_FRAMES:
        raise DataError(
            f"{first.folder}: {first.frames} frames; a page shows 1 to {MOST_FRAMES}. Segment a part of it."
        )
    _tell_missing(runs, note)
    scanned = scan(runs, note)
    shown = picture(first, target, video, note)
    facts = {
        "version": __version__,
        "frames": first.frames,
        "numbers": packed(first.numbers.astype(np.uint32)),
        "timed": first.times is not None,
        "seconds": packed(first.seconds.astype(np.float64)),
        "carried": CARRIED,
        "parts": PARTS,
        "picture": shown.facts(),
        "runs": [_run_facts(run, one, first) for run, one in zip(runs, scanned, strict=True)],
        "costs": costs(runs),
        "conditions": conditions(runs),
    }
    return facts, base64.b64encode(shown.data).decode()


def _run_facts(run: Run, scanned: Scan, first: Run) -> dict[str, Any]:
    return {
        "name": run.name,
        "stages": run.stages,
        "classes": run.classes,
        "palette": [[int(part) for part in colour] for colour in run.palette],
        "numeric": run.numeric,
        "thresholds": thresholds(str(run.summary.get("schedule")), len(run.stages)),
        "trace": columns(run, places(run, first)),
        "headline": {name: run.summary.get(name) for name in HEADLINE},
        **scanned.facts(),
    }


def _tell_missing(runs: Sequence[Run], note: Callable[[str], None]) -> None:
    inputs = {str(run.summary.get("input")) for run in runs}
    if len(inputs) > 1:
        note(f"the runs are of different inputs ({', '.join(sorted(inputs))}); frames of the same time are compared")
    for run in runs:
        if not run.trace:
            note(f"{run.folder.name} has no trace, so its firings are unknown; {_WRITES}")
        if run.kind is None:
            note(f"{run.folder.name} has no maps, so there are no masks; {_WRITES}")
        if not comparable(runs[0], run):
            note(f"{run.folder.name} has other classes than {runs[0].folder.name}, so its labels are not compared")


def costs(runs: Sequence[Run]) -> list[Row]:
    """Return the rows of the cost table, without rows that are empty for all runs."""
    stages = list(dict.fromkeys(stage for run in runs for stage in run.stages))
    rows = [_row(name, [run.summary.get(key) for run in runs], say, note) for name, key, say, note in _SUMMARY]
    for place, stage in enumerate(stages, start=2):
        rows.insert(place, _row(f"{stage} fired on", [_table(run, "fire_rate").get(stage) for run in runs], percent))
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


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.2f} ms"


_SUMMARY: tuple[tuple[str, str, Callable[[Any], str], str], ...] = (
    ("frames", "frames", lambda count: f"{count:,}".replace(",", " "), ""),
    ("network ran on", "network_rate", percent, "of the frames after the first"),
    ("relative time", "relative_time_estimate", percent, "estimated, relative to running every stage on every frame"),
    ("multiply-adds per frame", "multiply_adds_per_frame", lambda count: f"{count / 1e9:.3f} G", "the first included"),
    ("relative multiply-adds", "relative_multiply_adds", percent, "relative to the uncut network"),
    ("frames per second", "fps", lambda fps: f"{fps:.1f}", "of the whole run, decoding and writing included"),
)
"""Rows from the summary: name, key, format, explanation."""
