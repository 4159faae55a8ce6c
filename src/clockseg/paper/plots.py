"""Plots of the paper's figures, drawn with matplotlib: the adaptive clock's curve, and feature velocity."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clockseg.paper.report import Row
from clockseg.report.style import DASHES, HALF, MUTED, dashed, figure, marked, short

if TYPE_CHECKING:
    from clockseg.paper.feature_velocity import Velocity

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


def draw_velocity(found: Velocity, path: str | os.PathLike[str]) -> None:
    """Plot the change of each depth over the shots with the least and the most motion: the figure of the paper's section 3."""
    ordered = found.by_motion()
    ends = [("least motion: ", ordered[0]), ("most motion: ", ordered[-1])] if len(ordered) > 1 else [("", ordered[0])]
    with figure(path, size=(HALF, 0.6 + 1.9 * len(ends))) as drawn:
        panels = drawn.subplots(len(ends), 1, sharey=True, squeeze=False)[:, 0]
        for (motion, shot), panel in zip(ends, panels, strict=True):
            for place, (name, changes) in enumerate(zip(found.names[:-1], shot.series)):
                look = dashed(place - 1) if place else {"color": MUTED, "linestyle": (0, (1, 1))}
                # The first frame has none before it.
                panel.plot(shot.indices[1:], changes[1:], label=short(name, 20), linewidth=1.3, **look)
            panel.set(title=short(f"{motion}{shot.name}", 50), ylabel="change")
            panel.set_ylim(bottom=0)
            panel.set_xmargin(0.01)
            panel.grid(axis="y")
        panels[-1].set_xlabel("frame")
        drawn.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
