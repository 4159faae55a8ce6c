"""The frontier as tables, and what was to be shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clockseg.cli._terminal import align, percent
from frontier_ways import CORRECTED, EVERY, LARGE, LARGE_BF16, LARGE_INT8, STREET
from page import table

Ways = Sequence[Mapping[str, Any]]
HEAD = ("network", "schedule", "network rate", "time", "mean IU", "kept", "agreement", "pixels", "flicker")
TITLES = {
    "large": "CamVid val, human labels: `street-large`",
    "street": "CamVid val, human labels: `street`",
    "codec": "CamVid val as P-only H.264 (x264, CRF 23): the codec's vectors beside flow",
    "driving": "Driving video: agreement with every-frame `street-large`",
    "fixed-camera": "Fixed-camera video: agreement with every-frame `street-large`",
}


def score(way: Mapping[str, Any]) -> float:
    """Mean IU against human labels where there are any, else against every-frame street-large."""
    found: float = way["agreement"]["mean_iu"] if way["mean_iu"] is None else way["mean_iu"]
    return found


def frontier(ways: Ways) -> list[Mapping[str, Any]]:
    """Those that no other beats in both, by time."""
    best: list[Mapping[str, Any]] = []
    for way in sorted(ways, key=lambda one: (one["relative_time"], -score(one))):
        if not best or score(way) > score(best[-1]):
            best.append(way)
    return best


def row(way: Mapping[str, Any]) -> list[str]:
    """The cells under ``HEAD``."""
    agreement = way["agreement"]
    return [
        way["network"],
        way["schedule"],
        percent(way["network_rate"]),
        percent(way["relative_time"]),
        percent(way["mean_iu"]),
        percent(way["kept"]),
        percent(agreement["mean_iu"]),
        percent(agreement["pixel_acc"]),
        percent(way["flicker"]),
    ]


def lines(facts: Mapping[str, Any]) -> list[str]:
    """A part for people at a terminal; what is on the frontier has a star."""
    best = frontier(facts["ways"])
    rows = [[*row(way), "*" if way in best else ""] for way in facts["ways"]]
    return [f"{facts['part']}: {facts['clip']}, {facts['frames']} frames", align([[*HEAD, ""], *rows], left=2)]


def text(found: Mapping[str, Mapping[str, Any]]) -> str:
    """All parts as Markdown, and what was to be shown."""
    parts = [f"* {line}" for line in shown_goals(found)]
    blocks = ["\n".join(parts)]
    for part, facts in found.items():
        best = frontier(facts["ways"])
        rows = [_marked(row(way), way in best) for way in facts["ways"]]
        made = facts["provenance"]
        where = (
            f"{facts['frames']} frames; OpenVINO on {made['machine']['cores']} cores of {made['machine']['processor']}, "
            f"{made['date']}, commit {made['commit']}. Bold: on this table's frontier."
        )
        if facts["people_flicker"] is not None:
            where += f" Flicker of the human labels: {percent(facts['people_flicker'])}."
        blocks += [f"### {TITLES[part]}", table([list(HEAD), *rows]), where]
    return "\n\n".join(blocks)


def headline(found: Mapping[str, Mapping[str, Any]]) -> str:
    """For the README: the cheapest of street-large that keeps 99 %, and street on every frame beside it."""
    good = [way for way in _on_clocks(found["large"]["ways"]) if (way["kept"] or 0) >= 0.99]
    best = min(good, key=lambda way: way["relative_time"])
    small = next(way for way in found["street"]["ways"] if way["network"] == STREET and way["family"] == EVERY)
    points = 100 * (best["mean_iu"] - small["mean_iu"])
    return (
        f"On CamVid's clip, human labels: `{best['network']}` under `{best['schedule']}` kept {percent(best['kept'])} of "
        f"every-frame `street-large`'s mean IU in {percent(best['relative_time'])} of its time; every-frame `street` took "
        f"{percent(small['relative_time'])} and scored {points:.1f} points less."
    )


def _marked(cells: list[str], best: bool) -> list[str]:
    network, schedule, *rest = cells
    return [network, f"`{schedule}`", *(f"**{cell}**" if best else cell for cell in rest)]


def shown_goals(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The sentences that the benchmark is for, of the parts that are measured."""
    told = []
    if "large" in found:
        told += [_large(found["large"]["ways"], name) for name in (LARGE, LARGE_BF16, LARGE_INT8)]
    if {"large", "street"} <= found.keys():
        told.append(_against_street(found["large"]["ways"], found["street"]["ways"]))
    if "street" in found:
        told.append(_street(found["street"]["ways"]))
    if "fixed-camera" in found:
        told.append(_fixed(found["fixed-camera"]["ways"]))
    return told


def _large(ways: Ways, name: str) -> str:
    """street-large, in this version, under its best schedule."""
    clocked = _clocked(ways, name)
    good = [way for way in clocked if way["kept"] >= 0.99]
    cheap = [way for way in clocked if way["relative_time"] <= 0.33]
    told = [f"{name}, to show: 99 % kept in at most 33 % of every-frame street-large's time."]
    if good:
        told.append(f"Cheapest that keeps 99 %: {_one(min(good, key=lambda way: way['relative_time']))}.")
    if cheap:
        told.append(f"Best in 33 %: {_one(max(cheap, key=lambda way: way['kept']))}.")
    return f"{' '.join(told)} {'Shown.' if any(way in cheap for way in good) else 'Not shown.'}"


def _street(ways: Ways) -> str:
    """What street might recommend: its schedules that nothing beats."""
    best = frontier([*_clocked(ways, STREET), *(way for way in ways if way["network"] == STREET)])
    return f"street, its own frontier: {'; '.join(_one(way) for way in best)}."


def _on_clocks(ways: Ways) -> list[Mapping[str, Any]]:
    """street-large at any size, on a schedule."""
    return [way for way in ways if way["base"] == LARGE and way["family"] != EVERY]


def _clocked(ways: Ways, name: str) -> list[Mapping[str, Any]]:
    """That network at its own size, mended or not, on a schedule."""
    own = [way for way in ways if way["network"] in (name, f"{name} {CORRECTED}")]
    return [way for way in own if way["family"] != EVERY and way["kept"]]


def _against_street(large: Ways, street: Ways) -> str:
    """In the time of every-frame street."""
    small = next(way for way in street if way["network"] == STREET and way["family"] == EVERY)
    inside = [way for way in _on_clocks(large) if way["relative_time"] <= small["relative_time"]]
    start = (
        f"In the time of every-frame street ({percent(small['relative_time'])} of street-large's, "
        f"{percent(small['mean_iu'])}), to show: 2 points more."
    )
    if not inside:
        return f"{start} Nothing of street-large is that fast. Not shown."
    best = max(inside, key=score)
    points = 100 * (best["mean_iu"] - small["mean_iu"])
    return f"{start} {points:+.1f} points: {_one(best)}. {'Shown.' if points >= 2 else 'Not shown.'}"


def _fixed(ways: Ways) -> str:
    """A camera that stands still."""
    cheap = [way for way in _on_clocks(ways) if way["relative_time"] <= 0.2]
    start = "Fixed camera, street-large, to show: 99.5 % of pixels agree in at most 20 % of its time."
    if not cheap:
        return f"{start} Nothing is that fast. Not shown."
    best = max(cheap, key=lambda way: way["agreement"]["pixel_acc"])
    met = best["agreement"]["pixel_acc"] >= 0.995
    return f"{start} {percent(best['agreement']['pixel_acc'])}: {_one(best)}. {'Shown.' if met else 'Not shown.'}"


def _one(way: Mapping[str, Any]) -> str:
    kept = f", {percent(way['kept'])} kept" if way["kept"] else ""
    return (
        f"{way['network']} under `{way['schedule']}`, {percent(way['relative_time'])} of the time, "
        f"{percent(score(way))}{kept}"
    )
