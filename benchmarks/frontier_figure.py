"""The README's picture of the frontier: mean IU against relative time on the CamVid clip, a point a way."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clockseg.report.plots.style import INK, MUTED, RULE, figure
from frontier_page import frontier
from frontier_ways import BF16, CORRECTED, EVERY, INT8, LARGE, LARGE_INT8, MENDED, MOVED, PAPER, STAYS, STREET

Ways = Sequence[Mapping[str, Any]]
COLOURS = {EVERY: INK, PAPER: "#0072b2", STAYS: "#e69f00", MOVED: "#009e73", MENDED: "#cc4b37"}
TOLD = {
    EVERY: "every frame; dashed: smaller pictures",
    PAPER: "the paper's: alternating, adaptive",
    STAYS: "every n-th frame, the last labels between",
    MOVED: "the same, moved along with the picture",
    MENDED: "moved, and corrected (trained for it)",
}
DASHED = (0, (2, 2))
MARKERS = {LARGE: "o", LARGE_INT8: "D", STREET: "s", INT8: "^"}
TICKS = (0.02, 0.03, 0.05, 0.1, 0.2, 0.33, 0.5, 1.0)


def draw(found: Mapping[str, Mapping[str, Any]], stem: Path) -> None:
    """``stem``.png and ``stem``.svg, of the parts on the CamVid clip that are measured."""
    ways = [way for part in ("large", "street") if part in found for way in found[part]["ways"]]
    ways = [way for at, way in enumerate(ways) if way["network"] != LARGE or way["family"] != EVERY or at == 0]
    # Finer flow and bf16, which lies beside the 8 bits, are in the tables.
    ways = [way for way in ways if "scale=" not in way["schedule"] and BF16 not in way["network"].split()]
    with figure(stem, size=(8.4, 4.9)) as drawn:
        axes = drawn.subplots()
        _frame(axes, ways)
        _lines(axes, ways)
        _points(axes, ways)
        _names(axes, ways)
        _legends(axes, ways)


def _frame(axes: Any, ways: Ways) -> None:
    axes.set_xscale("log")
    low = max(TICKS[0] * 0.8, min(way["relative_time"] for way in ways) * 0.85)
    axes.set_xlim(low, 1.3)
    axes.set_xticks(TICKS, [f"{100 * tick:g} %" for tick in TICKS])
    axes.set_xlim(low, 1.3)
    axes.minorticks_off()
    scores = sorted(100 * way["mean_iu"] for way in ways)
    # What is far below the rest says so by lying at the edge.
    bottom = max(scores[0], 100 * min(way["mean_iu"] for way in ways if way["family"] == EVERY) - 4)
    axes.set_ylim(bottom - 1, scores[-1] + 0.12 * (scores[-1] - bottom))
    axes.grid(color=RULE)
    axes.set_xlabel("time of a frame, of that of street-large on every frame (motion and clocks included)")
    axes.set_ylabel("mean IU, %")
    axes.set_title("A big network on a clock against a small one on every frame: CamVid, human labels")


def _lines(axes: Any, ways: Ways) -> None:
    """The frontier, and what belongs together."""
    best = frontier(ways)
    xs, ys = [way["relative_time"] for way in best], [100 * way["mean_iu"] for way in best]
    axes.step([*xs, 1.3], [*ys, ys[-1]], where="post", color=MUTED, alpha=0.35, linewidth=6, zorder=1)
    rates = sorted((way for way in ways if _period(way)), key=lambda way: way["relative_time"])
    for key in dict.fromkeys((way["family"], way["network"]) for way in rates):
        run = [way for way in rates if (way["family"], way["network"]) == key]
        axes.plot(*_xy(run), color=COLOURS[key[0]], linewidth=1, alpha=0.7, zorder=2)
    for base in MARKERS:
        whole = [way for way in ways if way["family"] == EVERY and way["network"].split()[0] == base]
        axes.plot(*_xy(whole), color=INK, linewidth=1, alpha=0.5, linestyle=DASHED, zorder=2)


def _points(axes: Any, ways: Ways) -> None:
    bottom = axes.get_ylim()[0]
    for way in ways:
        score = 100 * way["mean_iu"]
        face = "white" if _clocked(way) else COLOURS[way["family"]]
        axes.plot(
            way["relative_time"],
            max(score, bottom),
            marker=MARKERS[way["network"].split()[0]],
            color=COLOURS[way["family"]],
            markerfacecolor=face,
            markersize=6 if way["family"] == EVERY else 5,
            clip_on=False,
            zorder=3,
        )
        if _period(way) and way["network"] in (LARGE, f"{LARGE} {CORRECTED}") and score > bottom:
            axes.annotate(
                f"1/{_period(way)}",
                (way["relative_time"], score),
                xytext=(4, -9),
                textcoords="offset points",
                fontsize=6.5,
                color=COLOURS[way["family"]],
                path_effects=_halo(),
            )


def _names(axes: Any, ways: Ways) -> None:
    """Of the networks on every frame; the small one's time and score as lines, for what is above them to be seen."""
    places = {LARGE: (6, 8, "right"), STREET: (7, -16, "left"), INT8: (0, 8, "center"), LARGE_INT8: (0, 8, "center")}
    for way in ways:
        if way["family"] != EVERY or way["network"] not in MARKERS:
            continue
        x, y = way["relative_time"], 100 * way["mean_iu"]
        right, up, side = places[way["network"]]
        axes.annotate(
            f"{way['network']}, every frame",
            (x, y),
            xytext=(right, up),
            textcoords="offset points",
            fontsize=8,
            fontweight="bold",
            ha=side,
            path_effects=_halo(),
            zorder=5,
        )
        if way["network"] == STREET:
            axes.axvline(x, color=INK, linewidth=0.7, linestyle=(0, (1, 3)), zorder=1)
            axes.axhline(y, color=INK, linewidth=0.7, linestyle=(0, (1, 3)), zorder=1)


def _legends(axes: Any, ways: Ways) -> None:
    from matplotlib.lines import Line2D

    there = {way["family"] for way in ways}
    kinds = [
        Line2D([], [], color=colour, marker="o", linestyle=DASHED if family == EVERY else "-", label=TOLD[family])
        for family, colour in COLOURS.items()
        if family in there
    ]
    kinds.append(Line2D([], [], color=MUTED, alpha=0.35, linewidth=6, label="the best in so much time"))
    box = {"frameon": True, "facecolor": "white", "edgecolor": "none", "framealpha": 1.0}
    axes.add_artist(axes.legend(handles=kinds, loc="lower right", **box))
    shapes = [
        Line2D([], [], color=INK, marker=marker, linestyle="", label=name)
        for name, marker in MARKERS.items()
        if any(way["network"].split()[0] == name for way in ways)
    ]
    if any(_clocked(way) for way in ways):
        hollow = {"markerfacecolor": "white", "linestyle": ""}
        shapes.append(Line2D([], [], color=INK, marker="o", label="hollow: on a clock that looks at motion", **hollow))
    axes.legend(handles=shapes, loc="upper left", ncols=len(shapes), columnspacing=1.2, handletextpad=0.2, **box)


def _halo() -> list[Any]:
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=2.5, foreground="white")]


def _clocked(way: Mapping[str, Any]) -> bool:
    """On a clock of ours, neither a fixed rate nor the paper's."""
    return way["family"] not in (EVERY, PAPER) and _period(way) is None


def _period(way: Mapping[str, Any]) -> int | None:
    """n, where the network (or all of it behind stage 1) runs on every n-th frame."""
    found = re.search(r"skip_frame\((\d+)|fixed_rate\(\(1, (\d+)", way["schedule"])
    return int(found[1] or found[2]) if found else None


def _xy(ways: Ways) -> tuple[list[float], list[float]]:
    return [way["relative_time"] for way in ways], [100 * way["mean_iu"] for way in ways]
