"""A plan as a picture: agreement against time of all that was tried, the frontier, and the choice."""

from __future__ import annotations

import math
import os
import textwrap
from typing import TYPE_CHECKING, Any

from clockseg.report.plots.style import HALF, INK, MUTED, NOW, figure, marked

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from clockseg.planning.planner import Plan, Trial


LETTERS = 54
"""Of a line of the title."""


def draw_plan(plan: Plan, path: str | os.PathLike[str]) -> None:
    """As ``path``, .svg or .png (else both): every schedule that was tried, small; those of the frontier, large, on its stair.

    Networks differ in colour and marker. The chosen one has a ring, and a hollow one where the blocks held back put it.
    Agreement is by the goal's measure, time in multiples of the uncut reference's. Needs matplotlib.
    """
    with figure(path, size=(HALF, 4.4)) as drawn:
        axes = drawn.subplots()
        low, most = _ends(plan)
        for number, variant in enumerate(plan.variants):
            look = marked(number)
            tried = [_point(plan, trial) for trial in plan.trials if trial.variant == number]
            axes.plot(*_columns(tried), linestyle="", markersize=2.5, alpha=0.35, markeredgewidth=0, **look)
            best = [_point(plan, trial) for trial in plan.frontier if trial.variant == number]
            axes.plot(
                *_columns(best), linestyle="", markersize=5.5, markeredgecolor="white", label=variant.name, **look
            )
        _stair(axes, plan, most)
        _goal(axes, plan)
        _chosen(axes, plan, low)
        axes.set_xlim(0, most)
        axes.set_ylim(low, 100 + 0.03 * (100 - low))
        axes.grid()
        axes.set_title(_told(plan), fontsize=8.5, fontweight="normal")
        title = f"{len(plan.trials)} schedules on {plan.frames} frames"
        drawn.suptitle(title, x=0.01, ha="left", fontsize=10, fontweight="bold")
        what = "pixels" if plan.goal.measure == "pixel_acc" else "mIoU"
        axes.set(xlabel="time, relative to the uncut network", ylabel=f"agreement ({what}), %")
        drawn.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)


def _point(plan: Plan, trial: Trial) -> tuple[float, float]:
    return trial.tuned.relative_time, 100 * plan.goal.promised(trial)


def _columns(points: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [time for time, _ in points], [agreement for _, agreement in points]


def _ends(plan: Plan) -> tuple[float, float]:
    """The least agreement and the most time that are shown: what is far below the frontier is of no use."""
    shown = [_point(plan, trial) for trial in [*plan.frontier, plan.chosen]]
    worst = min(agreement for _, agreement in shown)
    low = math.floor(min(worst, 100 * (plan.goal.keep or 1.0)) / 2 - 0.5) * 2
    return max(0.0, min(low, 98.0)), max(1.05, 1.05 * max(time for time, _ in shown))


def _stair(axes: Axes, plan: Plan, most: float) -> None:
    """Return the frontier as a staircase: the best agreement within each time."""
    times, agreements = _columns(sorted(_point(plan, trial) for trial in plan.frontier))
    axes.step(
        [*times, most], [*agreements, agreements[-1]], where="post", color=INK, linewidth=1, label="the best by then"
    )


def _goal(axes: Axes, plan: Plan) -> None:
    line: dict[str, Any] = {"color": MUTED, "linestyle": (0, (4, 2)), "linewidth": 1}
    if plan.goal.keep is not None:
        axes.axhline(100 * plan.goal.keep, label="goal", **line)
    if plan.goal.time is not None:
        axes.axvline(plan.goal.time, label="goal", **line)


def _told(plan: Plan) -> str:
    """Describe the chosen schedule; its name may be long."""
    return textwrap.fill(f"chosen: {plan.chosen.candidate.text} on {plan.variants[plan.chosen.variant].name}", LETTERS)


def _chosen(axes: Axes, plan: Plan, low: float) -> None:
    time, agreement = _point(plan, plan.chosen)
    held_back = plan.chosen.held_back.relative_time, 100 * plan.goal.agreement(plan.chosen.held_back)
    ring: dict[str, Any] = {"linestyle": "", "marker": "o", "markeredgecolor": NOW, "markerfacecolor": "none"}
    axes.plot([time], [agreement], markersize=11, markeredgewidth=2.2, zorder=4, label="chosen", **ring)
    if held_back[1] >= low:
        style = {"markersize": 11, "markeredgewidth": 1.2, "zorder": 4, "label": "chosen, on blocks held back"}
        axes.plot(*([one] for one in held_back), **ring | style | {"marker": "h"})
