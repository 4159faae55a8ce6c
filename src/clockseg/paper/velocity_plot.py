"""Figure of feature velocity: the change of each depth, and its course in the shots with the least and the most motion."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clockseg.report.plots.style import HALF, INK, MUTED, dashed, figure, marked, short
from clockseg.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from clockseg.paper.feature_velocity import Shot, Spread, Velocity

BETWEEN = (10, 90)
"""Percentiles of the frames that a bar spans."""


def draw_velocity(found: Velocity, path: str | os.PathLike[str], *, published: Sequence[Spread] = ()) -> None:
    """Draw the change of each depth, and its course in the shots with the least and the most motion, as an .svg or .png file.

    Above, for the pixels, each stage, the output and the annotation if there is one: a point for the mean of each
    shot, a larger one for the mean over shots, and a bar from the 10th to the 90th percentile of all frames; diamonds are
    ``published``, mean and deviation of the pixels and of each stage. Below, the figure of the paper's section 3, with one
    panel if there is one shot. ``path`` without suffix: both files. Needs matplotlib.

    >>> import tempfile
    >>> from clockseg.paper.feature_velocity import Shot, Velocity
    >>> shot = Shot("still", (0, 1), np.zeros(2), (np.zeros(2),), np.zeros(2), np.full(2, np.nan))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw_velocity(Velocity("one", ("a",), (shot,)), f"{folder}/velocity")
    ...     sorted(os.listdir(folder))
    ['velocity.png', 'velocity.svg']
    """
    rows = [(name, [shot.series[place] for shot in found.shots]) for place, name in enumerate(found.names)]
    if not any(np.isfinite(series).any() for series in rows[-1][1]):
        del rows[-1]  # no annotation
    ordered = found.by_motion()
    shots = (
        [("", ordered[0])] if len(ordered) == 1 else [("least motion: ", ordered[0]), ("most motion: ", ordered[-1])]
    )
    heights = [0.7 + 0.24 * len(rows), *[1.75] * len(shots)]
    with figure(path, size=(HALF, 0.35 + sum(heights))) as drawn:
        above, *panels = drawn.subplots(1 + len(shots), 1, height_ratios=heights, squeeze=False)[:, 0]
        _spreads(above, found, rows)
        if len(published) == 1 + len(found.stages):
            _published(above, published)
        for (motion, shot), panel in zip(shots, panels, strict=True):
            _curves(panel, found, shot)
            panel.set_title(short(f"{motion}{shot.name}", 50))
        highest = max(panel.get_ylim()[1] for panel in panels)
        for panel in panels:
            panel.set_ylim(0, highest)
        panels[-1].set_xlabel("frame")
        drawn.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)


def _spreads(axes: Axes, found: Velocity, rows: Sequence[tuple[str, list[Array]]]) -> None:
    for place, (_, shots) in enumerate(rows):
        look = _look(place)
        frames = np.concatenate([series[1:] for series in shots])
        frames = frames[np.isfinite(frames)]
        if not frames.size:
            continue
        axes.plot(np.percentile(frames, BETWEEN), [place, place], color=look["color"], linewidth=5, alpha=0.3)
        means = [mean for mean in map(found.mean, shots) if mean is not None]
        if len(means) > 1:
            axes.plot(
                means, [place] * len(means), linestyle="", **look | {"markersize": 3.5, "markerfacecolor": "white"}
            )
        axes.plot([np.mean(means)], [place], markersize=8, markeredgecolor="white", **look)
    axes.set_yticks(range(len(rows)), [short(name, 20) for name, _ in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.grid(axis="x")
    hollow = f"; hollow: each of {len(found.shots)} shots" if len(found.shots) > 1 else ""
    axes.set_title(short(f"How much each depth changes: {found.network}", 50))
    axes.set_xlabel(
        f"change from frame to frame: mean{hollow}\nbar: {BETWEEN[0]}th to {BETWEEN[1]}th percentile of frames"
    )


def _published(axes: Axes, spreads: Sequence[Spread]) -> None:
    """A little above what was measured."""
    places = [place - 0.3 for place in range(len(spreads))]
    means, deviations = [one.mean or 0.0 for one in spreads], [one.deviation or 0.0 for one in spreads]
    look: dict[str, Any] = {
        "fmt": "D",
        "color": INK,
        "markerfacecolor": "white",
        "markersize": 4.5,
        "linewidth": 1,
        "capsize": 2,
    }
    axes.errorbar(means, places, xerr=deviations, label="published, with deviation over shots", **look)
    axes.legend(loc="lower right")


def _curves(axes: Axes, found: Velocity, shot: Shot) -> None:
    for place, (name, changes) in enumerate(zip(found.names[:-1], shot.series)):
        look = {"color": MUTED, "linestyle": (0, (1, 1))} if not place else dashed(place - 1)
        # The first frame has none before it.
        axes.plot(shot.indices[1:], changes[1:], label=short(name, 20), linewidth=1.3, **look)
    axes.set_ylabel("change")
    axes.set_xmargin(0.01)
    axes.grid(axis="y")


def _look(place: int) -> dict[str, Any]:
    """Pixels grey, the rest in turn, as the curves."""
    return {"color": MUTED, "marker": "."} if not place else marked(place - 1)
