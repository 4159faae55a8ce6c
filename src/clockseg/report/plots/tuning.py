"""A tuned clock: the fire rate at each threshold, and what a fire rate costs and keeps."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from clockseg.report.plots.style import HALF, INK, MUTED, NOW, dashed, figure, label, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from clockseg.planning.tuning import Point, Tuned


def draw_tuning(found: Tuned, path: str | os.PathLike[str], *, schedule: str) -> None:
    """As ``path``, .svg or .png (else both): the curve of what was tried, with the point that was chosen. Needs matplotlib.

    Left, the share of frames that fire at each threshold, with the rate asked for. Right, by that share: the agreement of
    what the last stage shows with what it would show if it fired (None of networks without score maps there), and the
    time, estimated. ``schedule``: the chosen one as text, for the title.

    >>> import tempfile
    >>> from clockseg.planning.tuning import Point, Trial, Tuned
    >>> from clockseg.clockwork.trace import Tally
    >>> point = Point(0.1, Trial(Tally(("a",), frames=3, clips=1, fires=(1,)), 1.0, 1.9), 0.0, 0.2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw_tuning(Tuned(0.5, point, (point,)), f"{folder}/tuned.svg", schedule="adaptive(0.1)")
    ...     os.listdir(folder)
    ['tuned.svg']
    """
    points = [point for point in found.curve if point.trial.tally.later]
    with figure(path, size=(HALF, 4.6)) as drawn:
        above, below = drawn.subplots(2, 1)
        _rates(above, found, points)
        _costs(below, found.point, points)
        drawn.suptitle(short(schedule, 56), x=0.01, ha="left", fontsize=10, fontweight="bold")


def _rates(axes: Axes, found: Tuned, points: list[Point]) -> None:
    """A step function: every threshold in (low, high] gives the same firings."""
    chosen = found.point
    edges = [max(0.0, point.low) for point in points]
    axes.step([*edges, points[-1].high], [100 * p.fire_rate for p in [*points, points[-1]]], where="post", color=INK)
    axes.axhline(100 * found.asked, color=MUTED, linestyle=(0, (4, 2)), linewidth=1)
    axes.plot([chosen.threshold], [100 * chosen.fire_rate], "o", color=NOW, markersize=8, zorder=3)
    label(axes, f"{chosen.threshold:.4g}: {100 * chosen.fire_rate:.1f} %", *_beside(chosen), color=NOW)
    axes.set_xlim(0, _last(points))
    axes.set_ylim(-3, 103)
    axes.grid()
    axes.set_title("Share of frames that fire", fontsize=9)
    axes.set(xlabel="threshold", ylabel="fire rate, %")
    label(
        axes,
        f"asked: {100 * found.asked:.4g} %",
        (axes.get_xlim()[1], 100 * found.asked),
        (0, -11),
        ha="right",
        color=MUTED,
    )


def _beside(chosen: Point) -> tuple[tuple[float, float], tuple[float, float]]:
    return (chosen.threshold, 100 * chosen.fire_rate), (8, 8)


def _last(points: list[Point]) -> float:
    """The threshold up to which there is something to see: a little beyond the first at which nothing fires."""
    resting = [point.low for point in points if not point.fire_rate]
    ends = [point.low for point in points]
    return 1.08 * (min(resting) if resting else max(ends)) or 1.0


def _costs(axes: Axes, chosen: Point, points: list[Point]) -> None:
    by_rate = sorted(points, key=lambda point: point.fire_rate)
    kinds = {
        "agreement": [point.trial.held_agreement for point in by_rate],
        "time, estimated": [point.trial.relative_time_estimate for point in by_rate],
    }
    for place, (name, values) in enumerate(kinds.items()):
        if any(value is None for value in values):
            continue
        look = dashed(place) | {"marker": "os"[place], "markersize": 3.5}
        axes.plot(
            [100 * point.fire_rate for point in by_rate], [100 * (value or 0) for value in values], label=name, **look
        )
    axes.axvline(100 * chosen.fire_rate, color=NOW, linewidth=1)
    label(axes, "chosen", (100 * chosen.fire_rate, axes.get_ylim()[0]), (3, 4), color=NOW)
    axes.set_xlim(-3, 103)
    axes.set_ylim(top=103)
    axes.grid()
    axes.set_title("What a fire rate keeps, and costs", fontsize=9)
    axes.set(xlabel="fire rate, %", ylabel="% of firing always")
    axes.legend(loc="lower right")
