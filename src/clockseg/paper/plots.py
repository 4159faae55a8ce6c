"""Plots of the paper's figures, drawn with matplotlib: published numbers beside measured ones, and feature velocity.

Every function writes ``path`` if it ends in .svg or .png, else both.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from clockseg.errors import DataError
from clockseg.report.style import CYCLE, DASHES, HALF, INK, MARKERS, MUTED, dashed, figure, marked, short
from clockseg.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from clockseg.paper.feature_velocity import Shot, Spread, Velocity

Record = Mapping[str, Any]
"""A row of a report: data, method, source ("measured", "paper" or "notebook"), and mean_iu, loss, full_frames in percent."""
MEASURED = "measured"
KINDS = ("adaptive", "(1,1,n)", "pixel clock")
"""Methods that exist at several rates."""
QUANTITIES = {"loss": "loss against the frame oracle, %", "mean_iu": "mean IU, %"}
"""The panels: the key in a record, and its label."""
_SOURCES = {"paper": "published", "notebook": "authors' notebook", MEASURED: "measured here"}


class _Series(NamedTuple):
    """The rows of one kind of method of a data set from one source, and their look."""

    name: str
    rows: tuple[Record, ...]
    kind: str
    look: dict[str, Any]


def draw_rates(title: str, rows: Sequence[Record], path: str | os.PathLike[str]) -> None:
    """Plot the loss of methods against the frame oracle, and their mean IU, by the share of frames on which all stages run.

    Markers are hollow if published by the paper, half filled if from the authors' notebook, filled if measured here; data sets
    differ in colour and marker. There is a line for each kind of method of a data set: the adaptive clock solid, others
    dashed. ``rows``: as ``clockseg.paper.report.records`` returns them; ``DataError`` if none of them has a score.
    """
    series = _series(title, rows)
    with figure(path, size=(HALF + 1.2, 3.2 + 0.17 * -(-len(series) // 2))) as drawn:
        panels = drawn.subplots(1, 2)
        for panel, (key, label) in zip(panels, QUANTITIES.items(), strict=True):
            for one in series:
                there = [row for row in one.rows if row[key] is not None and row.get("full_frames") is not None]
                there.sort(key=lambda row: row["full_frames"])
                look = {"linewidth": 1, **one.look, "linestyle": DASHES[KINDS.index(one.kind)]}
                panel.plot([row["full_frames"] for row in there], [row[key] for row in there], label=one.name, **look)
            panel.grid()
            panel.set(xlabel="full frames, %", ylabel=label)
        panels[0].invert_yaxis()
        _finish(drawn, panels[0], title)


def _kind(method: str) -> str:
    """Return a method without its threshold or period; the frame oracle is the adaptive clock that always fires.

    >>> _kind("adaptive(0.25)"), _kind("frame oracle"), _kind("(1,1,2)")
    ('adaptive', 'adaptive', '(1,1,n)')
    """
    return next((kind for kind in KINDS if method.startswith(kind[:5])), KINDS[0])


def _finish(drawn: Figure, axes: Axes, title: str) -> None:
    drawn.suptitle(title, x=0.01, ha="left", fontsize=10, fontweight="bold")
    drawn.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8)


def _series(title: str, records: Sequence[Record]) -> list[_Series]:
    """Return the series of the records, published numbers first."""
    scored = sorted((row for row in records if row["mean_iu"] is not None), key=lambda row: row["source"] == MEASURED)
    if not scored:
        raise DataError(f"{title}: no scores, published or measured, to compare.")
    data = list(dict.fromkeys(row["data"] for row in records))
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for row in scored:
        groups.setdefault((row["data"], _kind(row["method"]), row["source"]), []).append(row)
    return [
        _Series(f"{one}, {kind}: {_SOURCES.get(source, source)}", tuple(rows), kind, _look(data.index(one), source))
        for (one, kind, source), rows in groups.items()
    ]


def _look(place: int, source: str) -> dict[str, Any]:
    look = {"color": CYCLE[place % len(CYCLE)], "marker": MARKERS[place % len(MARKERS)], "markersize": 6}
    if source == "paper":
        return look | {"markerfacecolor": "white"}
    return look | ({} if source == MEASURED else {"fillstyle": "left", "markerfacecoloralt": "white"})


BETWEEN = (10, 90)
"""Percentiles of the frames that a bar spans."""


def draw_velocity(found: Velocity, path: str | os.PathLike[str], *, published: Sequence[Spread] = ()) -> None:
    """Plot the change of each depth, and its course in the shots with the least and the most motion.

    Above, for the pixels, each stage, the output and the annotation if there is one: a point for the mean of each
    shot, a larger one for the mean over shots, and a bar from the 10th to the 90th percentile of all frames; diamonds are
    ``published``, mean and deviation of the pixels and of each stage. Below, the figure of the paper's section 3, with one
    panel if there is one shot.
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
        if len(published) == 1 + len(found.stages):
            means, deviations = zip(*((one.mean or 0.0, one.deviation or 0.0) for one in published), strict=True)
            look: dict[str, Any] = {
                "fmt": "D",
                "color": INK,
                "markerfacecolor": "white",
                "markersize": 4.5,
                "linewidth": 1,
            }
            places = [place - 0.3 for place in range(len(published))]  # a little above the measured ones
            name = "published, with deviation over shots"
            above.errorbar(means, places, xerr=deviations, label=name, capsize=2, **look)
            above.legend(loc="lower right")
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
