"""The picture of the frontier: mean IU against relative time on CamVid's clip, a point a way."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clockseg.report.style import INK, MUTED, RULE, figure

Ways = Sequence[Mapping[str, Any]]
EVERY = "every frame"
FAMILIES = {
    EVERY: (INK, "every frame; dashed: smaller pictures"),
    "the paper's schedules": ("#0072b2", "the paper's: alternating, adaptive"),
    "held as it was": ("#e69f00", "every n-th frame, labels reused in between"),
    "moved along": ("#009e73", "the same, warped from the key frame behind"),
    "both sides": ("#8e3b9e", "the same, made from the key frames on both sides"),
}
MARKERS = {"street-large": "o", "street-large-int8": "D", "street": "s", "street-int8": "^"}
TICKS = (0.02, 0.03, 0.05, 0.1, 0.2, 0.33, 0.5, 1.0)


def draw(ways: Ways, path: Path) -> None:
    """Draw ``path``; finer flow and bf16 are in the tables alone."""
    ways = [way for way in ways if "scale=" not in way["schedule"] and "bf16" not in way["network"].split()]
    with figure(path, size=(8.4, 4.9)) as drawn:
        axes = drawn.subplots()
        axes.set_xscale("log")
        axes.set_xticks(TICKS, [f"{100 * tick:g} %" for tick in TICKS])
        axes.set_xlim(min(TICKS[0] * 0.8, *(way["relative_time"] * 0.85 for way in ways)), 1.3)
        axes.set_ylim(top=100 * max(way["mean_iu"] for way in ways) + 2)
        axes.minorticks_off()
        axes.grid(color=RULE)
        axes.set_xlabel("time of a frame, of that of street-large on every frame (motion and clocks included)")
        axes.set_ylabel("mean IU, %")
        axes.set_title("A big network on a clock against a small one on every frame: CamVid, human labels")
        _lines(axes, ways)
        for way in ways:
            _point(axes, way)
        _legends(axes, ways)


def _lines(axes: Any, ways: Ways) -> None:
    """Draw the frontier as a wide step, and a line through the ways that differ in size or period alone."""
    xs, ys = _xy(frontier(ways))
    axes.step([*xs, 1.3], [*ys, ys[-1]], where="post", color=MUTED, alpha=0.35, linewidth=6, zorder=1)
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for way in sorted(ways, key=lambda one: one["relative_time"]):
        if way["family"] == EVERY or _period(way):
            network = way["network"].split()[0] if way["family"] == EVERY else way["network"]
            groups.setdefault((way["family"], network), []).append(way)
    for (family, _), run in groups.items():
        style = "--" if family == EVERY else "-"
        axes.plot(*_xy(run), color=FAMILIES[family][0], linewidth=1, alpha=0.7, linestyle=style, zorder=2)


def _point(axes: Any, way: Mapping[str, Any]) -> None:
    colour, base = FAMILIES[way["family"]][0], way["network"].split()[0]
    at, n, every = (way["relative_time"], 100 * way["mean_iu"]), _period(way), way["family"] == EVERY
    face = colour if every or n else "white"
    style = {"color": colour, "markerfacecolor": face, "markersize": 5, "clip_on": False, "zorder": 3}
    axes.plot(*at, marker=MARKERS[base], **style)
    text = way["network"] if every and way["network"] in MARKERS else f"1/{n}" if n and base == "street-large" else ""
    axes.annotate(text, at, xytext=(3, 5), textcoords="offset points", fontsize=7, color=colour)


def _legends(axes: Any, ways: Ways) -> None:
    from matplotlib.lines import Line2D

    there, bases = {way["family"] for way in ways}, {way["network"].split()[0] for way in ways}
    known = [family for name, family in FAMILIES.items() if name in there]
    kinds = [Line2D([], [], color=one, marker="o", label=text) for one, text in known]
    kinds.append(Line2D([], [], color=MUTED, alpha=0.35, linewidth=6, label="the best in so much time"))
    axes.add_artist(axes.legend(handles=kinds, loc="lower right", frameon=True))
    named: list[tuple[str, dict[str, Any]]] = [
        (name, {"marker": one}) for name, one in MARKERS.items() if name in bases
    ]
    named.append(("hollow: on a clock", {"marker": "o", "markerfacecolor": "white"}))
    shapes = [Line2D([], [], color=INK, linestyle="", label=name, **style) for name, style in named]
    axes.legend(handles=shapes, loc="upper left", ncols=len(shapes), columnspacing=1.2, handletextpad=0.2)


def frontier(ways: Ways) -> list[Mapping[str, Any]]:
    """Return the ways that no other beats in both accuracy and time, by time."""
    best: list[Mapping[str, Any]] = []
    for way in sorted(ways, key=lambda one: (one["relative_time"], -score(one))):
        if not best or score(way) > score(best[-1]):
            best.append(way)
    return best


def score(way: Mapping[str, Any]) -> float:
    """Return the mean IU against human labels where there are any, else against every-frame street-large."""
    found: float = way["agreement"]["mean_iu"] if way["mean_iu"] is None else way["mean_iu"]
    return found


def _period(way: Mapping[str, Any]) -> int | None:
    """Return n where the network runs on every n-th frame."""
    found = re.search(r"skip_frame\((\d+)\)", way["schedule"])
    return int(found[1]) if found else None


def _xy(ways: Ways) -> tuple[list[float], list[float]]:
    return [way["relative_time"] for way in ways], [100 * way["mean_iu"] for way in ways]
