"""Plots of the paper's figures, drawn with matplotlib: the adaptive clock's curve, and feature velocity."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clockseg.paper.report import Row
from clockseg.report.style import DASHES, HALF, MUTED, dashed, figure, marked, short
from clockseg.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from clockseg.paper.feature_velocity import Shot, Velocity

KINDS = ("adaptive", "(1,1,n)", "pixel clock")
"""Methods that exist at several rates."""
SOURCES: dict[str, tuple[str, dict[str, Any]]] = {
    "paper": ("published", {"markerfacecolor": "white"}),
    "notebook": ("authors' notebook", {"fillstyle": "left", "markerfacecoloralt": "white"}),
    "measured": ("measured here", {}),
}
"""The name and the look of each source of a row."""


def draw_rates(title: str, rows: Sequence[Row], path: str | os.PathLike[str]) -> None:
    """Plot the mean IU of methods on one data set by the share of frames on which all stages run.

    There is a line for each kind of method and source. Markers are hollow if published by the paper, half filled if from the
    authors' notebook, filled if measured here.
    """
    with figure(path, size=(HALF, 3.4)) as drawn:
        axes = drawn.subplots()
        for source, (name, look) in SOURCES.items():
            for place, kind in enumerate(KINDS):
                there = (row for row in rows if (row.source, _kind(row.method)) == (source, kind))
                points = sorted((row.full_frames or 0.0, row.mean_iu or 0.0) for row in there)
                if points:
                    rates, scores = zip(*points, strict=True)
                    line = marked(place) | {"linestyle": DASHES[place], "linewidth": 1} | look
                    axes.plot(rates, scores, label=f"{kind}: {name}", **line)
        axes.grid()
        axes.set(xlabel="full frames, %", ylabel="mean IU, %", title=title)
        drawn.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8)


def _kind(method: str) -> str:
    """Return a method without its threshold or period; the frame oracle is the adaptive clock that always fires.

    >>> _kind("adaptive(0.25)"), _kind("frame oracle"), _kind("(1,1,2)")
    ('adaptive', 'adaptive', '(1,1,n)')
    """
    return next((kind for kind in KINDS if method.startswith(kind[:5])), KINDS[0])


BETWEEN = (10, 90)
"""Percentiles of the frames that a bar spans."""


def draw_velocity(found: Velocity, path: str | os.PathLike[str]) -> None:
    """Plot the change of each depth, and its course in the shots with the least and the most motion.

    Above, for the pixels, each stage, the output and the annotation if there is one: a point for the mean of each
    shot, a larger one for the mean over shots, and a bar from the 10th to the 90th percentile of all frames. Below, the figure
    of the paper's section 3, with one panel if there is one shot.
    """
    rows = [(name, [shot.series[place] for shot in found.shots]) for place, name in enumerate(found.names)]
    if not any(np.isfinite(series).any() for series in rows[-1][1]):
        del rows[-1]  # no annotation
    ordered = found.by_motion()
    ends = [("least motion: ", ordered[0]), ("most motion: ", ordered[-1])] if len(ordered) > 1 else [("", ordered[0])]
    heights = [0.7 + 0.24 * len(rows), *[1.75] * len(ends)]
    with figure(path, size=(HALF, 0.35 + sum(heights))) as drawn:
        above, *panels = drawn.subplots(1 + len(ends), 1, height_ratios=heights, squeeze=False)[:, 0]
        _spreads(above, found, rows)
        for (motion, shot), panel in zip(ends, panels, strict=True):
            _curves(panel, found, shot)
            panel.set_title(short(f"{motion}{shot.name}", 50))
        highest = max(panel.get_ylim()[1] for panel in panels)
        for panel in panels:
            panel.set_ylim(0, highest)
        panels[-1].set_xlabel("frame")
        drawn.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)


def _spreads(axes: Axes, found: Velocity, rows: Sequence[tuple[str, list[Array]]]) -> None:
    for place, (_, shots) in enumerate(rows):
        look = marked(place - 1) if place else {"color": MUTED, "marker": "."}
        frames = np.concatenate([series[1:] for series in shots])
        frames = frames[np.isfinite(frames)]
        if not frames.size:
            continue
        axes.plot(np.percentile(frames, BETWEEN), [place, place], color=look["color"], linewidth=5, alpha=0.3)
        means = [mean for mean in map(found.mean, shots) if mean is not None]
        if len(means) > 1:
            small = look | {"markersize": 3.5, "markerfacecolor": "white"}
            axes.plot(means, [place] * len(means), linestyle="", **small)
        axes.plot([np.mean(means)], [place], markersize=8, markeredgecolor="white", **look)
    axes.set_yticks(range(len(rows)), [short(name, 20) for name, _ in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.grid(axis="x")
    hollow = f"; hollow: each of {len(found.shots)} shots" if len(found.shots) > 1 else ""
    axes.set_title(short(f"Change of each depth: {found.network}", 50))
    axes.set_xlabel(
        f"change from frame to frame: mean{hollow}\nbar: {BETWEEN[0]}th to {BETWEEN[1]}th percentile of frames"
    )


def _curves(axes: Axes, found: Velocity, shot: Shot) -> None:
    for place, (name, changes) in enumerate(zip(found.names[:-1], shot.series)):
        look = dashed(place - 1) if place else {"color": MUTED, "linestyle": (0, (1, 1))}
        # The first frame has none before it.
        axes.plot(shot.indices[1:], changes[1:], label=short(name, 20), linewidth=1.3, **look)
    axes.set_ylabel("change")
    axes.set_xmargin(0.01)
    axes.grid(axis="y")
