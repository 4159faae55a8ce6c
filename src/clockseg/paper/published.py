"""The paper's published numbers beside measured ones."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from clockseg.errors import DataError
from clockseg.paper.report import Report
from clockseg.paper.rows import records
from clockseg.report.plots.style import CYCLE, DASHES, HALF, MARKERS, MUTED, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Record = Mapping[str, Any]
"""A row of a report: data, method, source ("measured", "paper" or "notebook"), and mean_iu, loss, full_frames in percent."""
MEASURED = "measured"
KINDS = ("adaptive", "(1,1,n)", "pixel clock")
"""Of methods at several rates."""
METHODS = 30
"""At most so many have a line."""


class _Quantity(NamedTuple):
    """A quantity that a panel shows: the key in a record, and its label."""

    key: str
    what: str


LOSS = _Quantity("loss", "lost of the frame oracle's, %")
SCORE = _Quantity("mean_iu", "mean IU, %")


class _Series(NamedTuple):
    """The rows of one data set from one source, how they look, and how far from their line they stand."""

    name: str
    rows: tuple[Record, ...]
    look: dict[str, Any]
    aside: float


def draw_report(report: Report, path: str | os.PathLike[str]) -> None:
    """Draw the rows of a report, published beside measured; without rows its own figure, which has both."""
    if report.rows:
        draw = draw_rates if report.name == "adaptive-curve" else draw_published
        draw(report.title, records(report.rows), path)
    else:
        report.figures[0].draw(Path(path))


def draw_published(title: str, records: Sequence[Record], path: str | os.PathLike[str]) -> None:
    """As ``path``, .svg or .png (else both): for each method what it loses against the frame oracle, and its mean IU.

    Hollow: published by the paper, half: by the authors' notebook, filled: measured here; data sets differ in colour and
    marker. Losses can be compared from one data set to another, scores only within one. ``records``: as
    ``clockseg.paper.rows.records`` gives them; ``DataError`` if none of them has a score. Needs matplotlib.

    >>> import tempfile
    >>> one = {"data": "NYUDv2", "method": "skip-frame", "source": "paper", "mean_iu": 27.7, "loss": 10.9}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw_published("Schedules", [one], f"{folder}/schedules.svg")
    ...     os.listdir(folder)
    ['schedules.svg']
    """
    series = _series(title, records)
    methods = list(dict.fromkeys(row["method"] for one in series for row in one.rows))[:METHODS]
    height = 1.35 + 0.3 * len(methods) + 0.17 * -(-len(series) // 2)
    with figure(path, size=(HALF + 1.2, height)) as drawn:
        panels = drawn.subplots(1, 2, sharey=True)
        for panel, quantity in zip(panels, (LOSS, SCORE), strict=True):
            for one in series:
                there = [row for row in one.rows if row[quantity.key] is not None and row["method"] in methods]
                lines = [methods.index(row["method"]) + one.aside for row in there]
                panel.plot([row[quantity.key] for row in there], lines, linestyle="", label=one.name, **one.look)
            for line in range(len(methods)):
                panel.axhline(line + 0.5, color=MUTED, linewidth=0.4, alpha=0.4, zorder=0)
            panel.grid(axis="x")
            panel.set_xlabel(quantity.what)
        panels[0].set_yticks(range(len(methods)), methods)
        panels[0].set_ylim(len(methods) - 0.5, -0.5)
        _finish(drawn, panels[0], title)


def draw_rates(title: str, records: Sequence[Record], path: str | os.PathLike[str]) -> None:
    """As ``draw_published``, of methods at several rates: loss and mean IU by the share of frames that run whole.

    A line for each method of a data set: the adaptive clock solid, others dashed.

    >>> import tempfile
    >>> one = {"data": "Y", "method": "adaptive", "source": "paper", "mean_iu": 59.0, "loss": 15.7, "full_frames": 21.0}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw_rates("Curve", [one], f"{folder}/curve.svg")
    ...     os.listdir(folder)
    ['curve.svg']
    """
    series = _series(title, [{**row, "kind": _kind(row["method"])} for row in records])
    with figure(path, size=(HALF + 1.2, 3.2 + 0.17 * -(-len(series) // 2))) as drawn:
        panels = drawn.subplots(1, 2)
        for panel, quantity in zip(panels, (LOSS, SCORE), strict=True):
            for one in series:
                there = [
                    row for row in one.rows if row[quantity.key] is not None and row.get("full_frames") is not None
                ]
                there.sort(key=lambda row: row["full_frames"])
                panel.plot([row["full_frames"] for row in there], [row[quantity.key] for row in there], **_line(one))
            panel.grid()
            panel.set(xlabel="full frames, %", ylabel=quantity.what)
        panels[0].invert_yaxis()
        _finish(drawn, panels[0], title)


def _kind(method: str) -> str:
    """A method without its threshold or period; the frame oracle is the adaptive clock that always fires.

    >>> _kind("adaptive(0.25)"), _kind("frame oracle"), _kind("(1,1,2)")
    ('adaptive', 'adaptive', '(1,1,n)')
    """
    return next((kind for kind in KINDS if method.startswith(kind[:5])), KINDS[0])


def _line(one: _Series) -> dict[str, Any]:
    dashes = DASHES[KINDS.index(one.rows[0]["kind"])]
    return {"label": one.name, "linewidth": 1, **one.look, "linestyle": dashes}


def _finish(drawn: Figure, axes: Axes, title: str) -> None:
    drawn.suptitle(title, x=0.01, ha="left", fontsize=10, fontweight="bold")
    drawn.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8)


def _series(title: str, records: Sequence[Record]) -> list[_Series]:
    """Published numbers first."""
    scored = sorted((row for row in records if row["mean_iu"] is not None), key=lambda row: row["source"] == MEASURED)
    if not scored:
        raise DataError(f"{title}: no scores, published or measured, to put beside each other.")
    data = list(dict.fromkeys(row["data"] for row in records))
    keys = list(dict.fromkeys(map(_key, scored)))
    found = []
    for number, (one, kind, source) in enumerate(keys):
        rows = tuple(row for row in scored if _key(row) == (one, kind, source))
        aside = 0.6 * (number + 0.5) / len(keys) - 0.3
        name = f"{one}, {kind}" if kind else one
        found.append(_Series(f"{name}: {_SOURCES.get(source, source)}", rows, _look(data.index(one), source), aside))
    return found


def _key(row: Record) -> tuple[str, str, str]:
    return row["data"], row.get("kind", ""), row["source"]


_SOURCES = {"paper": "published", "notebook": "authors' notebook", MEASURED: "measured here"}


def _look(place: int, source: str) -> dict[str, Any]:
    colour = CYCLE[place % len(CYCLE)]
    look = {"color": colour, "marker": MARKERS[place % len(MARKERS)], "markersize": 6}
    if source == MEASURED:
        return look
    return look | (
        {"markerfacecolor": "white"} if source == "paper" else {"fillstyle": "left", "markerfacecoloralt": "white"}
    )
