"""Reports of experiments: a table on the terminal, and NAME.md, NAME.csv, NAME.json and figures in a folder."""

from __future__ import annotations

import csv
import datetime
import io
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from clockseg.errors import DataError
from clockseg.execution.machine import machine, versions
from clockseg.files import whole
from clockseg.paper.rows import Claim, Row, cells, records


@dataclass(frozen=True)
class Figure:
    """A picture or video of a report: the stem of its file, its caption, and the function that draws it there."""

    stem: str
    caption: str
    draw: Callable[[Path], object]
    suffix: str = ".svg"

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.stem}{self.suffix}"


@dataclass(frozen=True)
class Report:
    """One reproduced table or figure of the paper.

    ``title`` and ``protocol``: its subject and how it is measured. ``extra``: further values for the JSON file (curves,
    firings). ``table``: a table of another form than the rows, its head first. ``notes``: caveats for the reader.
    """

    name: str
    title: str
    protocol: str
    rows: tuple[Row, ...] = ()
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)
    table: tuple[tuple[str, ...], ...] = ()

    @property
    def lines(self) -> list[list[str]]:
        """Head and rows as text, of the rows or of the table of another form; empty without either."""
        return cells(self.rows) if self.rows else [list(line) for line in self.table]

    def facts(self) -> dict[str, Any]:
        """Return the content of the JSON file as plain values."""
        return {
            "name": self.name,
            "title": self.title,
            "protocol": self.protocol,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "machine": machine(),
            "versions": versions(),
            "rows": records(self.rows) or [dict(zip(self.table[0], line, strict=True)) for line in self.table[1:]],
            "claims": [asdict(claim) for claim in self.claims],
            "notes": list(self.notes),
            **self.extra,
        }


def write(report: Report, folder: Path, *, command: str) -> list[Path]:
    """Write the report into ``folder``, creating it, and return the files. Each is renamed into place when complete.

    ``command``: the command that reproduces it, for the last line of the page.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for figure in report.figures:
            figure.draw(folder / figure.stem)
        found = [folder / figure.file for figure in report.figures]
        facts = json.dumps(report.facts(), indent=1, allow_nan=False) + "\n"
        texts = {".json": facts, ".csv": comma_separated(report), ".md": markdown(report, command=command)}
        for suffix, text in texts.items():
            path = folder / f"{report.name}{suffix}"
            with whole(path) as part:
                part.write_text(text, encoding="utf-8")
            found.append(path)
    except OSError as error:
        raise DataError(f"{folder} cannot be written ({error}). Give a writable folder with --out.") from error
    return found


def comma_separated(report: Report) -> str:
    """Return the rows as CSV with full precision, or the table of another form as it is."""
    out = io.StringIO()
    found = records(report.rows)
    lines = [list(found[0]), *(list(record.values()) for record in found)] if found else report.lines
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue()


def markdown(report: Report, *, command: str) -> str:
    """Return the report as a Markdown page."""
    where = machine()
    parts = [f"# {report.title}", report.protocol]
    if report.lines:
        head, *body = report.lines
        lines = [head, [*["---"] * 3, *["---:"] * (len(head) - 3)], *body]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    if report.rows:
        parts.append(
            "All values in percent. Relative loss and saving are relative to the frame oracle in the same rows."
        )
    parts += [f"{'' if figure.suffix == '.mp4' else '!'}[{figure.caption}]({figure.file})" for figure in report.figures]
    if report.claims:
        parts.append("## The paper's claims")
        parts.append("\n".join(f"* {claim}" for claim in report.claims))
    if report.notes:
        parts.append("## Notes")
        parts.append("\n".join(f"* {note}" for note in report.notes))
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    parts.append(f"`{command}`, {today}, on {where['cores']} cores of {where['processor']}.")
    return "\n\n".join(parts) + "\n"
