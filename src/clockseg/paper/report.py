"""Reports of experiments: rows of the paper's tables, published and measured, its claims about them, and the files written.

A report is a table on the terminal, and NAME.md, NAME.json and figures in a folder.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from pathlib import Path
from typing import Any

from clockseg.errors import DataError
from clockseg.execution.machine import machine, versions
from clockseg.files import whole


@dataclass(frozen=True)
class Row:
    """The scores of one method on one data set, in percent as the paper prints them; None if it prints none.

    ``source``: "paper", "notebook" (the authors' stored output, with more digits) or "measured". ``full_frames``: the share of
    frames on which the last stage ran. ``saving``: the share of the full network's time (for a pipeline, of its latency) saved.
    """

    data: str
    method: str
    source: str
    mean_iu: float | None = None
    fw_iu: float | None = None
    boundary_mean_iu: float | None = None
    boundary_fw_iu: float | None = None
    _: KW_ONLY
    full_frames: float | None = None
    saving: float | None = None
    note: str = ""


ORACLE = "frame oracle"


def relative_loss(row: Row, rows: Iterable[Row]) -> float | None:
    """Return the loss of ``row`` against the frame oracle's mean IU of the same data and source in ``rows``, in percent of it."""
    oracle = find(rows, row.data, ORACLE, row.source)
    if oracle is None or not oracle.mean_iu or row.mean_iu is None:
        return None
    return 100 * (1 - row.mean_iu / oracle.mean_iu)


def find(rows: Iterable[Row], data: str, method: str, source: str) -> Row | None:
    """Return the row of a method, or None."""
    wanted = (data, method, source)
    return next((row for row in rows if (row.data, row.method, row.source) == wanted), None)


HEADS = {
    "data": "data",
    "method": "method",
    "source": "source",
    "mean_iu": "mean IU",
    "fw_iu": "f.w. IU",
    "boundary_mean_iu": "bdry mean IU",
    "boundary_fw_iu": "bdry f.w. IU",
    "full_frames": "full frames",
    "loss": "relative loss",
    "saving": "relative saving",
    "note": "note",
}


def records(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the rows as plain values, each with its relative loss."""
    return [{name: (asdict(row) | {"loss": relative_loss(row, rows)})[name] for name in HEADS} for row in rows]


def cells(found: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the heads and the lines of records as text, without empty columns."""
    kept = [name for name in (found[0] if found else ()) if any(record[name] not in (None, "") for record in found)]
    return [[HEADS.get(name, name) for name in kept], *([_cell(record[name]) for name in kept] for record in found)]


def _cell(value: str | float | None) -> str:
    return value if isinstance(value, str) else "-" if value is None else f"{value:.1f}"


@dataclass(frozen=True)
class Claim:
    """One statement of the paper checked on one set of rows: True if it ``holds``, and the ``figures`` compared.

    ``holds`` is None for a tie, because figures are printed to a tenth, some of them truncated and some rounded.
    """

    text: str
    where: str
    holds: bool | None
    figures: str

    def __str__(self) -> str:
        """Return the line that reports show.

        >>> print(Claim("b above a", "NYUDv2, paper", False, "1.0 against 2.0"))
        FAILS: b above a (NYUDv2, paper: 1.0 against 2.0)
        """
        outcome = "ties" if self.holds is None else "holds" if self.holds else "FAILS"
        return f"{outcome}: {self.text} ({self.where}: {self.figures})"


TIE = 0.1
"""A difference in percentage points below which two scores are equal."""


def above(first: float, second: float) -> bool | None:
    """Return True if ``first`` is above ``second``, both in percent, and None for a tie.

    >>> above(64.7, 63.0), above(61.8, 62.1), above(71.7, 71.75)
    (True, False, None)
    """
    return None if abs(first - second) < TIE else first > second


@dataclass(frozen=True)
class Figure:
    """A plot of a report: the name of its file, its caption, and the function that draws it there."""

    file: str
    caption: str
    draw: Callable[[Path], object]


@dataclass(frozen=True)
class Report:
    """One reproduced table or figure of the paper.

    ``title`` and ``protocol``: its subject and how it is measured. ``extra``: further values for the JSON file (curves,
    velocities). ``table``: lines of other columns than those of rows, each as text by column. ``notes``: caveats for the reader.
    """

    name: str
    title: str
    protocol: str
    rows: tuple[Row, ...] = ()
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)
    table: tuple[Mapping[str, str], ...] = ()

    @property
    def records(self) -> Sequence[Mapping[str, Any]]:
        """The rows, or else the lines of the table, each as values by column."""
        return records(self.rows) if self.rows else self.table

    def facts(self) -> dict[str, Any]:
        """Return the content of the JSON file as plain values."""
        return {
            "name": self.name,
            "title": self.title,
            "protocol": self.protocol,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "machine": machine(),
            "versions": versions(),
            "rows": list(self.records),
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
            figure.draw(folder / figure.file)
        found = [folder / figure.file for figure in report.figures]
        facts = json.dumps(report.facts(), indent=1, allow_nan=False) + "\n"
        texts = {".json": facts, ".md": markdown(report, command=command)}
        for suffix, text in texts.items():
            path = folder / f"{report.name}{suffix}"
            with whole(path) as part:
                part.write_text(text, encoding="utf-8")
            found.append(path)
    except OSError as error:
        raise DataError(f"{folder} cannot be written ({error}). Give a writable folder with --out.") from error
    return found


def markdown(report: Report, *, command: str) -> str:
    """Return the report as a Markdown page."""
    parts = [f"# {report.title}", report.protocol]
    if report.records:
        head, *body = cells(report.records)
        body = [head, [*["---"] * 3, *["---:"] * (len(head) - 3)], *body]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in body))
    if report.rows:
        parts.append(
            "All values in percent. Relative loss and saving are relative to the frame oracle in the same rows."
        )
    parts += [f"![{figure.caption}]({figure.file})" for figure in report.figures]
    for title, lines in {"The paper's claims": report.claims, "Notes": report.notes}.items():
        if lines:
            parts += [f"## {title}", "\n".join(f"* {line}" for line in lines)]
    facts = report.facts()
    parts.append(
        f"`{command}`, {facts['date']}, on {facts['machine']['cores']} cores of {facts['machine']['processor']}."
    )
    return "\n\n".join(parts) + "\n"
