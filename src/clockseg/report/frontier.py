"""The frontier of a plan, as drawn in a report: agreement against time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from clockseg.planning.schedule_file import read_schedule_file

_POINT = ("time", "agreement", "schedule", "network")


def plan_facts(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return a plan written by ``clockseg plan --out`` as plain values; ``DataError`` for another file.

    ``points``: those of the frontier, fastest first; the chosen one is separate, as promised and on held-back frames.
    """
    file = read_schedule_file(path)
    tuned = file.tuned
    rows = tuned.get("frontier")
    points = [dict(zip(_POINT, row, strict=False)) for row in rows] if isinstance(rows, list) else []
    return {
        "file": Path(path).name,
        "schedule": file.schedule,
        "network": file.run.get("network", file.network),
        "measure": "mIoU" if tuned.get("measure") == "mean_iu" else "pixels",
        "reference": str(tuned.get("reference", "")),
        "frames": tuned.get("frames"),
        "points": [point for point in points if _drawn(point.get("time"), point.get("agreement"))],
        "promised": _pair(tuned.get("relative_time"), tuned.get("promised")),
        "held_back": _pair(tuned.get("held_back_relative_time"), tuned.get("held_back")),
    }


def _drawn(*values: Any) -> bool:
    return all(isinstance(value, int | float) and value == value for value in values)


def _pair(time: Any, agreement: Any) -> dict[str, float] | None:
    return {"time": time, "agreement": agreement} if _drawn(time, agreement) else None
