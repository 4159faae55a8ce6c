"""Pages of the bundled weights, and where their figures come from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS, ROOT, provenance

WEIGHTS = ROOT / "src" / "clockseg" / "networks" / "weights"
RECIPES = ROOT / "recipes"


def insert(page: Path, name: str, text: str) -> None:
    """Put ``text`` between ``<!-- NAME:start -->`` and ``<!-- NAME:end -->``; end the program if the page lacks them."""
    start, end = f"<!-- {name}:start -->", f"<!-- {name}:end -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(start)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"{page.name} lacks the markers {start} and {end}.")
    page.write_text(f"{before}{start}\n{text}\n{end}{after}", encoding="utf-8")


def write_result(name: str, figures: Mapping[str, Any]) -> Path:
    """Write results/NAME.json with the figures and where they come from."""
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"provenance": provenance(), **figures}, indent=1, allow_nan=False) + "\n")
    return path


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as Markdown, the first as the head."""
    lines = [rows[0], ["---", *["---:"] * (len(rows[0]) - 1)], *rows[1:]]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
