"""Schedules side by side: what each keeps in what time, and the IU of every class."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from clockseg.evaluation.labels import Evaluation
from clockseg.report.plots.style import HALF, MUTED, figure, label, marked, short
from clockseg.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from clockseg.evaluation.values import ValueEvaluation

CLASSES = 24
"""At most so many classes have a row: those that most pixels are of."""

LETTERS = 62
"""Of a line of the legend."""


class _Scored(NamedTuple):
    """One schedule: ``time`` relative to the uncut network (NaN: unknown), ``score`` and ``iu`` in percent."""

    name: str
    time: float
    score: float
    iu: Array


class _Scale(NamedTuple):
    """A scale of scores: its name, the uncut network's score, and per class its IU and its number of pixels."""

    what: str
    uncut: float
    iu: Array
    pixels: Array


def draw_evaluation(found: Sequence[Evaluation] | Sequence[ValueEvaluation], path: str | os.PathLike[str]) -> None:
    """As ``path``, .svg or .png (else both): each schedule's score against its time, and below it the IU of each class.

    The score is the mIoU against human labels, where there are none the agreement with the uncut network, and for
    networks that give numbers the relative error. Beside a class stands the uncut network's IU, and the points are
    what a schedule has more or less. Needs matplotlib.

    >>> import tempfile
    >>> from clockseg.clockwork.trace import Tally
    >>> from clockseg.evaluation.values import ValueEvaluation
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw_evaluation([ValueEvaluation("alternating", "identity", Tally(("a",)), Tally(("a",)))], f"{folder}/e.png")
    ...     os.listdir(folder)
    ['e.png']
    """
    rows, scale = _scored(found)
    classes = list(found[0].classes) if isinstance(found[0], Evaluation) else []
    kept = _largest(scale, rows)
    columns = 2 if max(len(row.name) for row in rows) <= LETTERS // 2 else 1
    legend = 0.19 * math.ceil(len(rows) / columns) + 0.25
    heights = [2.3, *([0.75 + 0.2 * len(kept)] if kept else [])]
    with figure(path, size=(HALF, sum(heights) + legend)) as drawn:
        panels = drawn.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
        _times(panels[0], rows, scale)
        if kept:
            _by_class(panels[1], rows, scale, [short(classes[index], 20) for index in kept], kept)
        drawn.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=columns, fontsize=8)


def _scored(found: Sequence[Evaluation] | Sequence[ValueEvaluation]) -> tuple[list[_Scored], _Scale]:
    nothing = np.zeros(0)
    rows = []
    for one in found:
        time = math.nan if one.relative_time is None else one.relative_time
        if not isinstance(one, Evaluation):
            rows.append(_Scored(one.schedule, time, 100 * one.agreement.relative_error, nothing))
        elif found[0].scores.pixels:  # type: ignore[union-attr]
            rows.append(_Scored(one.schedule, time, 100 * one.scores.mean_iu, 100 * one.scores.iu))
        else:
            rows.append(_Scored(one.schedule, time, 100 * one.agreement.mean_iu_of(), 100 * one.agreement.iu))
    first = found[0]
    if not isinstance(first, Evaluation):
        return rows, _Scale("relative error, %", 0.0, nothing, nothing)
    if first.scores.pixels:
        pixels = first.oracle.counts.sum(axis=1)
        return rows, _Scale("mIoU, %", 100 * first.oracle.mean_iu, 100 * first.oracle.iu, pixels)
    pixels = first.agreement.counts.sum(axis=1)
    return rows, _Scale("agreement (mIoU), %", 100.0, np.full(len(first.classes), 100.0), pixels)


def _largest(scale: _Scale, rows: Sequence[_Scored]) -> list[int]:
    """The classes with a row, in the order of their ids: of those that are there, the largest."""
    there = [
        index
        for index in range(len(scale.pixels))
        if np.isfinite([scale.iu[index], *(row.iu[index] for row in rows)]).all()
    ]
    return sorted(sorted(there, key=lambda index: -scale.pixels[index])[:CLASSES])


def _times(axes: Axes, rows: Sequence[_Scored], scale: _Scale) -> None:
    """A point a schedule; those whose time is unknown stand at the left edge."""
    axes.axhline(scale.uncut, color=MUTED, linestyle=(0, (4, 2)), linewidth=1, zorder=1)
    axes.axvline(1, color=MUTED, linestyle=(0, (4, 2)), linewidth=1, zorder=1)
    for place, row in enumerate(rows):
        at = 0.0 if math.isnan(row.time) else row.time
        axes.plot(
            [at],
            [row.score],
            linestyle="",
            markersize=7,
            markeredgecolor="white",
            label=short(row.name, LETTERS),
            **marked(place),
        )
    axes.set_xlim(0, max(1.08, 1.06 * max((row.time for row in rows if not math.isnan(row.time)), default=1.0)))
    axes.margins(y=0.12)
    label(axes, "uncut", (0, scale.uncut), (3, 3), color=MUTED)
    axes.grid()
    axes.set_title("What each schedule keeps, in what time")
    axes.set(xlabel="time, relative to the uncut network", ylabel=scale.what)


def _by_class(axes: Axes, rows: Sequence[_Scored], scale: _Scale, names: list[str], kept: list[int]) -> None:
    """Differences to the uncut network: of classes as unlike as sky and pole, IUs themselves would show little else."""
    axes.axvline(0, color=MUTED, linestyle=(0, (4, 2)), linewidth=1, zorder=1)
    for line, index in enumerate(kept):
        apart = [row.iu[index] - scale.iu[index] for row in rows]
        axes.plot([min(0, *apart), max(0, *apart)], [line, line], color=MUTED, linewidth=0.8, zorder=1)
        for place, one in enumerate(apart):
            axes.plot([one], [line], linestyle="", markersize=5.5, markeredgecolor="white", **marked(place))
    axes.set_yticks(
        range(len(kept)), [f"{name}  {scale.iu[index]:.0f}" for name, index in zip(names, kept, strict=True)]
    )
    axes.set_ylim(len(kept) - 0.4, -0.6)
    axes.grid(axis="x")
    fewer = (
        f"\nthe largest {len(kept)} of {len(scale.pixels)} classes" if len(kept) == CLASSES < len(scale.pixels) else ""
    )
    axes.set_title("By class")
    axes.set_xlabel(f"IU, points above uncut (beside the name){fewer}")
