"""Figures and tables as people read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from clockseg.cli._terminal import one_line


def percent(share: float | None) -> str:
    """A share as a percentage.

    >>> percent(0.6612), percent(None)
    ('66.1 %', '-')
    """
    return shown(share, lambda value: f"{100 * value:.1f} %")


def shown(value: float | None, form: Callable[[float], str]) -> str:
    """``value`` in that form, or a dash."""
    return "-" if value is None else form(value)


def align(rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Rows of cells as lines, the first ``left`` columns to the left, the others to the right.

    >>> print(align([["schedule", "ms"], ["alternating", "9.1"]]))
    schedule      ms
    alternating  9.1
    """
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(_padded(row, widths, left)).rstrip() for row in rows)


def _padded(row: Sequence[str], widths: Sequence[int], left: int) -> list[str]:
    cells = zip(row, widths, strict=True)
    return [cell.ljust(width) if at < left else cell.rjust(width) for at, (cell, width) in enumerate(cells)]
