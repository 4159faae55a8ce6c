"""Where a figure comes from: machine, commit, date and versions, written beside it."""

from __future__ import annotations

import datetime
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clockseg.execution.machine import machine, versions

HERE = Path(__file__).parent
RESULTS = HERE / "results"


def provenance() -> dict[str, Any]:
    """``{commit, date, machine, versions}``; a commit of files that were changed since ends with ``+``."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {"commit": _commit(), "date": today, "machine": machine(), "versions": versions()}


def write_result(name: str, figures: Mapping[str, Any]) -> Path:
    """``results/NAME.json``: the figures and where they come from."""
    path = RESULTS / f"{name}.json"
    RESULTS.mkdir(exist_ok=True)
    path.write_text(json.dumps({"provenance": provenance(), **figures}, indent=1, allow_nan=False) + "\n")
    return path


def _commit() -> str | None:
    found = _git("rev-parse", "--short", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", "../src")
    return found and found + ("+" if changed else "")


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=HERE, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
