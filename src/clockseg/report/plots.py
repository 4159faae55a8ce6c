"""Plots of measurements, drawn with matplotlib: an evaluation, a plan, and a tuned clock.

Every function writes ``path`` if it ends in .svg or .png, else both; ``clockseg.report.style.figure`` states the errors.
"""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clockseg.evaluation.evaluate import Evaluation
from clockseg.report.style import DASHED, HALF, INK, MUTED, NOW, dashed, figure, label, marked, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from clockseg.planning.planner import Plan, Trial
    from clockseg.planning.tuning import Point, Tuned

CLASSES = 24
"""The most classes that have a row: those with the most pixels."""
LETTERS = 62
"""The most letters in a line of the legend."""


def draw_evaluation(found: Sequence[Evaluation], path: str | os.PathLike[str]) -> None:
    """Plot each schedule's score against its time, and below it the IU of each class.

    The score is the mIoU against human labels, without labels the agreement with the uncut network, and for networks that
    give numbers the relative error. Points in the row of a class are differences from the uncut network's IU, which stands
    beside the name: the IUs of classes as different as sky and pole would show little else.
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
        if first.deviation is not None:
            errors = [100 * one.deviation.relative_error for one in found if one.deviation is not None]
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
    axes.axhline(uncut, **DASHED)
    axes.axvline(1, **DASHED)
    times = [one.relative_time for one in found]
    for place, (one, time, score) in enumerate(zip(found, times, scores, strict=True)):
        look = {"linestyle": "", "markersize": 7, "markeredgecolor": "white", **marked(place)}
        axes.plot([time or 0.0], [score], label=short(one.schedule, LETTERS), **look)
    axes.set_xlim(0, max(1.08, 1.06 * max((time for time in times if time is not None), default=1.0)))
    axes.margins(y=0.12)
    label(axes, "uncut", (0, uncut), (3, 3), color=MUTED)
    axes.grid()
    axes.set_title("Score and time of each schedule")
    axes.set(xlabel="time, relative to the uncut network", ylabel=name)


def draw_plan(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Plot the agreement of all tried schedules against their time; those of the frontier large, with its staircase.

    Networks differ in colour and marker. A ring marks the chosen schedule, a hollow marker its result on the blocks held
    back. Agreement is by the goal's measure, time relative to the uncut reference. Schedules far below the frontier are
    outside of the picture.
    """

    def point(trial: Trial) -> tuple[float, float]:
        return trial.tuned.relative_time, 100 * plan.goal.promised(trial)

    best = [point(trial) for trial in [*plan.frontier, plan.chosen]]
    worst = min(min(agreement for _, agreement in best), 100 * (plan.goal.keep or 1.0))
    low = max(0.0, min(2 * math.floor(worst / 2 - 0.5), 98.0))
    most = max(1.05, 1.05 * max(time for time, _ in best))
    with figure(path, size=(HALF, 4.4)) as drawn:
        axes = drawn.subplots()
        for number, variant in enumerate(plan.variants):
            tried, frontier = (
                [point(trial) for trial in trials if trial.variant == number] for trials in (plan.trials, plan.frontier)
            )
            look: dict[str, Any] = {"linestyle": "", **marked(number)}
            axes.plot(*_columns(tried), markersize=2.5, alpha=0.35, markeredgewidth=0, **look)
            axes.plot(*_columns(frontier), markersize=5.5, markeredgecolor="white", label=variant.name, **look)
        times, agreements = _columns(sorted(point(trial) for trial in plan.frontier))
        stair: dict[str, Any] = {"where": "post", "color": INK, "linewidth": 1, "label": "the best by then"}
        axes.step([*times, most], [*agreements, agreements[-1]], **stair)
        if plan.goal.keep is not None:
            axes.axhline(100 * plan.goal.keep, label="goal", **DASHED)
        if plan.goal.time is not None:
            axes.axvline(plan.goal.time, label="goal", **DASHED)
        ring: dict[str, Any] = {
            "linestyle": "",
            "markersize": 11,
            "zorder": 4,
            "markeredgecolor": NOW,
            "markerfacecolor": "none",
        }
        axes.plot(*_columns([point(plan.chosen)]), marker="o", markeredgewidth=2.2, label="chosen", **ring)
        held_back = plan.chosen.held_back.relative_time, 100 * plan.goal.agreement(plan.chosen.held_back)
        if held_back[1] >= low:
            name = "chosen, on blocks held back"
            axes.plot(*_columns([held_back]), marker="h", markeredgewidth=1.2, label=name, **ring)
        axes.set_xlim(0, most)
        axes.set_ylim(low, 100 + 0.03 * (100 - low))
        axes.grid()
        chosen = f"chosen: {plan.chosen.candidate.text} on {plan.variants[plan.chosen.variant].name}"
        axes.set_title(textwrap.fill(chosen, 54), fontsize=8.5, fontweight="normal")
        title = f"{len(plan.trials)} schedules on {plan.frames} frames"
        drawn.suptitle(title, x=0.01, ha="left", fontsize=10, fontweight="bold")
        what = "pixels" if plan.goal.measure == "pixel_acc" else "mIoU"
        axes.set(xlabel="time, relative to the uncut network", ylabel=f"agreement ({what}), %")
        drawn.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [time for time, _ in points], [agreement for _, agreement in points]


def draw_tuning(found: Tuned, path: str | os.PathLike[str], *, schedule: str) -> None:
    """Plot the fire rate by threshold, and the agreement and the estimated time by fire rate, with the chosen point.

    Agreement is that of the last stage's output with its output if it fired; networks without score maps there have none.
    ``schedule``: the chosen one as text, for the title.
    """
    points = [point for point in found.curve if point.trial.tally.later]
    with figure(path, size=(HALF, 4.6)) as drawn:
        above, below = drawn.subplots(2, 1)
        _rates(above, found, points)
        _costs(below, found.point, points)
        drawn.suptitle(short(schedule, 56), x=0.01, ha="left", fontsize=10, fontweight="bold")


def _rates(axes: Axes, found: Tuned, points: list[Point]) -> None:
    """Plot a step function: every threshold in (low, high] gives the same firings."""
    chosen, last = found.point, points[-1]
    edges = [*(max(0.0, point.low) for point in points), last.high]
    axes.step(edges, [100 * p.fire_rate for p in [*points, last]], where="post", color=INK)
    axes.axhline(100 * found.asked, **DASHED)
    at = chosen.threshold, 100 * chosen.fire_rate
    axes.plot([at[0]], [at[1]], "o", color=NOW, markersize=8, zorder=3)
    label(axes, f"{chosen.threshold:.4g}: {100 * chosen.fire_rate:.1f} %", at, (8, 8), color=NOW)
    # Up to a little beyond the first threshold at which nothing fires.
    resting = [point.low for point in points if not point.fire_rate]
    axes.set_xlim(0, 1.08 * (min(resting) if resting else max(point.low for point in points)) or 1.0)
    axes.set_ylim(-3, 103)
    axes.grid()
    axes.set_title("Share of frames that fire", fontsize=9)
    axes.set(xlabel="threshold", ylabel="fire rate, %")
    asked = (axes.get_xlim()[1], 100 * found.asked)
    label(axes, f"asked: {100 * found.asked:.4g} %", asked, (0, -11), ha="right", color=MUTED)


def _costs(axes: Axes, chosen: Point, points: list[Point]) -> None:
    by_rate = sorted(points, key=lambda point: point.fire_rate)
    curves = {
        "agreement": [point.trial.held_agreement for point in by_rate],
        "time, estimated": [point.trial.relative_time_estimate for point in by_rate],
    }
    for place, (name, values) in enumerate(curves.items()):
        if all(value is not None for value in values):
            look = dashed(place) | {"marker": "os"[place], "markersize": 3.5}
            rates = [100 * point.fire_rate for point in by_rate]
            axes.plot(rates, [100 * (value or 0) for value in values], label=name, **look)
    axes.axvline(100 * chosen.fire_rate, color=NOW, linewidth=1)
    label(axes, "chosen", (100 * chosen.fire_rate, axes.get_ylim()[0]), (3, 4), color=NOW)
    axes.set_xlim(-3, 103)
    axes.set_ylim(top=103)
    axes.grid()
    axes.set_title("Agreement and time by fire rate", fontsize=9)
    axes.set(xlabel="fire rate, %", ylabel="% of firing always")
    axes.legend(loc="lower right")
