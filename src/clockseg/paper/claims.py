"""Claims of the paper about its tables, checked on rows; the report names those that fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clockseg.paper.rows import Row, find


@dataclass(frozen=True)
class Claim:
    """One statement of the paper on one set of rows: whether it ``holds``, and the ``figures`` it was read off.

    ``holds`` is None for a tie: figures are printed to a tenth, some of them cut off and some rounded.
    """

    text: str
    where: str
    holds: bool | None
    figures: str

    def __str__(self) -> str:
        """A line as reports show it.

        >>> print(Claim("b above a", "NYUDv2, paper", False, "1.0 against 2.0"))
        FAILS: b above a (NYUDv2, paper: 1.0 against 2.0)
        """
        outcome = "ties" if self.holds is None else "holds" if self.holds else "FAILS"
        return f"{outcome}: {self.text} ({self.where}: {self.figures})"


TIE = 0.1
"""Percentage points that say nothing."""


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
