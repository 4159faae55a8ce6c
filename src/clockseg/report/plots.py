"""The plot of an evaluation, drawn with matplotlib."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from clockseg.evaluation.evaluate import Evaluation
from clockseg.report.style import DASHED, HALF, MUTED, figure, marked, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CLASSES = 24
"""The most classes that have a row: those with the most pixels."""
LETTERS = 62
"""The most letters in a line of the legend."""


def draw_evaluation(found: Sequence[Evaluation], path: str | os.PathLike[str]) -> None:
    """Plot each schedule's score against its time, and below it the IU of each class.

    The score is the mIoU against human labels, without labels the agreement with the uncut network, and for networks that
    give numbers the relative error. Points in the row of a class are differences from the uncut network's IU, which stands
    beside the name: the IUs of classes as different as sky and pole would show little else. ``path`` is written if it ends in
    .svg or .png, else both are; ``clockseg.report.style.figure`` states the errors.
    """
    classes, first = found[0].classes, found[0]
    labelled = first.scores.pixels > 0
    scores = [one.scores if labelled else one.agreement for one in found]
    ius = [100 * score.iu for score in scores]
    own = 100 * first.oracle.iu if labelled else np.full(len(classes), 100.0)
    pixels = (first.oracle if labelled else first.agreement).counts.sum(axis=1)
    there = [index for index in range(len(classes)) if np.isfinite([own[index], *(iu[index] for iu in ius)]).all()]
    shown = sorted(sorted(there, key=lambda index: -pixels[index])[:CLASSES])

    columns = 2 if max(len(one.schedule) for one in found) <= LETTERS // 2 else 1
    heights = [2.3, *([0.75 + 0.2 * len(shown)] if shown else [])]
    legend = 0.19 * math.ceil(len(found) / columns) + 0.25
    with figure(path, size=(HALF, sum(heights) + legend)) as drawn:
        panels = drawn.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
        if not classes:
            errors = [100 * one.deviation.relative_error for one in found]
            _times(panels[0], found, errors, 0.0, "relative error, %")
        elif labelled:
            _times(panels[0], found, [100 * one.mean_iu for one in scores], 100 * first.oracle.mean_iu, "mIoU, %")
        else:
            _times(panels[0], found, [100 * one.mean_iu_of() for one in scores], 100.0, "agreement (mIoU), %")
        if shown:
            axes = panels[1]
            axes.axvline(0, **DASHED)
            for line, index in enumerate(shown):
                apart = [iu[index] - own[index] for iu in ius]
                axes.plot([min(0, *apart), max(0, *apart)], [line, line], color=MUTED, linewidth=0.8, zorder=1)
                for place, one in enumerate(apart):
                    axes.plot([one], [line], linestyle="", markersize=5.5, markeredgecolor="white", **marked(place))
            axes.set_yticks(range(len(shown)), [f"{short(classes[index], 20)}  {own[index]:.0f}" for index in shown])
            axes.set_ylim(len(shown) - 0.4, -0.6)
            axes.grid(axis="x")
            axes.set_title("By class")
            fewer = (
                f"\nthe largest {len(shown)} of {len(classes)} classes" if len(shown) == CLASSES < len(classes) else ""
            )
            axes.set_xlabel(f"IU, points above uncut (beside the name){fewer}")
        drawn.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=columns, fontsize=8)


def _times(axes: Axes, found: Sequence[Evaluation], scores: Sequence[float], uncut: float, name: str) -> None:
    """Plot a point per schedule; those whose time is unknown stand at the left edge."""
    from matplotlib.patheffects import withStroke

    axes.axhline(uncut, **DASHED)
    axes.axvline(1, **DASHED)
    times = [one.relative_time for one in found]
    for place, (one, time, score) in enumerate(zip(found, times, scores, strict=True)):
        look = {"linestyle": "", "markersize": 7, "markeredgecolor": "white", **marked(place)}
        axes.plot([time or 0.0], [score], label=short(one.schedule, LETTERS), **look)
    axes.set_xlim(0, max(1.08, 1.06 * max((time for time in times if time is not None), default=1.0)))
    axes.margins(y=0.12)
    look = {"color": MUTED, "fontsize": 8, "path_effects": [withStroke(linewidth=2.5, foreground="white")]}
    axes.annotate("uncut", (0, uncut), xytext=(3, 3), textcoords="offset points", **look)
    axes.grid()
    axes.set_title("Score and time of each schedule")
    axes.set(xlabel="time, relative to the uncut network", ylabel=name)
