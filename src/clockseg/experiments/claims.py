"""What the paper reads off its tables, checked on rows: where an ordering fails, the report says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clockseg.experiments.rows import Row, find


@dataclass(frozen=True)
class Claim:
    """One statement of the paper on one set of rows: ``holds`` or not, and the ``figures`` it was read off."""

    text: str
    where: str
    holds: bool
    figures: str


def ordering(better: str, worse: str, rows: Sequence[Row], *, text: str = "") -> list[Claim]:
    """Whether one method has the higher mean IU, for each data and source that have both.

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
        found.append(Claim(text or f"{better} above {worse}", where, first.mean_iu > second.mean_iu, figures))
    return found
