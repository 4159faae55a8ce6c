"""Rows of the paper's tables, published and measured, and the claims that the paper makes about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Row:
    """The scores of one method on one data set, in percent as the paper prints them; None if it prints none.

    ``source``: "paper", "notebook" (the authors' stored output, with more digits) or "measured". ``full_frames``: the share of
    frames on which the last stage ran. ``saving``: the share of the full network's time (for a pipeline, of its latency) saved.

    >>> Row("NYUD", "skip-frame", "paper", 27.7, 41.3).mean_iu
    27.7
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


def published(
    data: str, scores: Mapping[str, Sequence[float | None]], *, source: str = "paper", savings: Mapping[str, float]
) -> list[Row]:
    """Return the rows of a published table from its scores: mean IU, f.w. IU and, if given, both on the boundary band.

    >>> published("NYUD", {"skip-frame": (27.7, 41.3)}, savings={"skip-frame": 50.0})[0].saving
    50.0
    """
    return [Row(data, method, source, *figures, saving=savings.get(method)) for method, figures in scores.items()]


def relative_loss(row: Row, rows: Iterable[Row]) -> float | None:
    """Return the loss of ``row`` against the frame oracle's mean IU of the same data and source in ``rows``, in percent of it.

    >>> oracle, pipeline = Row("NYUD", ORACLE, "paper", 31.1), Row("NYUD", "2-stage pipeline", "paper", 26.4)
    >>> round(relative_loss(pipeline, [oracle, pipeline]), 1)
    15.1
    """
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
    names = [field.name for field in fields(Row)]
    return [{name: getattr(row, name) for name in names} | {"loss": relative_loss(row, rows)} for row in rows]


def cells(rows: Sequence[Row]) -> list[list[str]]:
    """Return head and rows as text, without empty columns.

    >>> cells([Row("NYUD", "skip-frame", "paper", 27.7)])[1]
    ['NYUD', 'skip-frame', 'paper', '27.7']
    """
    found = records(rows)
    kept = [name for name in HEADS if any(record[name] not in (None, "") for record in found)]
    return [[HEADS[name] for name in kept], *([_cell(record[name]) for name in kept] for record in found)]


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


def ordering(better: str, worse: str, rows: Sequence[Row], *, text: str = "") -> list[Claim]:
    """Claim that one method has the higher mean IU, for each data set and source that have both.

    >>> rows = [Row("NYUD", "alternating", "paper", 28.5), Row("NYUD", "skip-frame", "paper", 27.7)]
    >>> ordering("alternating", "skip-frame", rows)[0].figures
    '28.5 against 27.7'
    """
    found = []
    for data, source in dict.fromkeys((row.data, row.source) for row in rows):
        first, second = find(rows, data, better, source), find(rows, data, worse, source)
        if first is None or second is None or first.mean_iu is None or second.mean_iu is None:
            continue
        figures = f"{first.mean_iu:.1f} against {second.mean_iu:.1f}"
        where = f"{data}, {source}"
        found.append(Claim(text or f"{better} above {worse}", where, above(first.mean_iu, second.mean_iu), figures))
    return found
