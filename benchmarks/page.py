"""A page between whose markers a benchmark puts what it measured."""

from __future__ import annotations

import sys
from pathlib import Path

from provenance import HERE

README = HERE.parent / "README.md"


def insert(page: Path, name: str, text: str) -> None:
    """Put ``text`` between ``<!-- NAME:start -->`` and ``<!-- NAME:end -->``, in ``page`` or else in ``results/NAME.md``.

    Ends the program if neither has the markers. Documentation pages hold no generated tables: they link to the latter.
    """
    start, end = f"<!-- {name}:start -->", f"<!-- {name}:end -->"
    if not (page.is_file() and start in page.read_text(encoding="utf-8")):
        page = HERE / "results" / f"{name.replace(' ', '-')}.md"
    before, found, rest = page.read_text(encoding="utf-8").partition(start)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        sys.exit(f"{page.name} lacks the markers {start} and {end}.")
    page.write_text(f"{before}{start}\n{text}\n{end}{after}", encoding="utf-8")


def table(rows: list[list[str]]) -> str:
    """Rows of cells as Markdown, the first its head; numbers to the right."""
    lines = [rows[0], ["---", *["---:"] * (len(rows[0]) - 1)], *rows[1:]]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
