"""The report of an experiment: the table on the terminal, and NAME.md, NAME.csv, NAME.json and the figures in a folder."""

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
    """A picture or video of a report: its file's stem, what it shows, and what draws it into a folder."""

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
    """One table or figure of the paper, done again.

    ``title`` and ``protocol`` say what of the paper it is and how it is measured; ``extra``: further values for the JSON
    file (curves, firings); ``table``: one of another form than the rows, its head first; ``notes``: what a reader must
    know of these figures.
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
        """Head and rows as text: of the rows, or of a table of another form; nothing where there is neither."""
        return cells(self.rows) if self.rows else [list(line) for line in self.table]

    def facts(self) -> dict[str, Any]:
        """Everything as plain values: what the JSON file holds."""
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
    """Write the report into ``folder``, which is made; returns the files. Each gets its name when it is whole.

    ``command``: what makes it again, for the page's last line.
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
        raise DataError(f"{folder}: can't be written ({error}). Give an --out that can be written.") from error
    return found


def comma_separated(report: Report) -> str:
    """The rows as CSV, full precision; a table of another form as it stands."""
    out = io.StringIO()
    found = records(report.rows)
    lines = [list(found[0]), *(list(record.values()) for record in found)] if found else report.lines
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue()


def markdown(report: Report, *, command: str) -> str:
    """The report as a page."""
    where = machine()
    parts = [f"# {report.title}", report.protocol]
    if report.lines:
        head, *body = report.lines
        lines = [head, [*["---"] * 3, *["---:"] * (len(head) - 3)], *body]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    if report.rows:
        parts.append("All figures in percent. Relative loss and saving: against the frame oracle of the same rows.")
    parts += [f"{'' if figure.suffix == '.mp4' else '!'}[{figure.caption}]({figure.file})" for figure in report.figures]
    if report.claims:
        parts.append("## What the paper says of it")
        parts.append("\n".join(f"* {claim}" for claim in report.claims))
    if report.notes:
        parts.append("## Notes")
        parts.append("\n".join(f"* {note}" for note in report.notes))
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    parts.append(f"`{command}`, {today}, on {where['cores']} cores of {where['processor']}.")
    return "\n\n".join(parts) + "\n"
