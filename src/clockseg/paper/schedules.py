"""All schedules on video: NYUDv2, YouTube-Objects and Cityscapes (the paper's table of schedules).

Protocol: ``pipeline`` for the fixed rates; the adaptive clock at the threshold at which it fires on half of the frames,
filled on the frame before the first that is scored, which isn't counted; on Cityscapes on the
snippet's first. Cityscapes: every frame of each snippet up to
its labelled one, the 20th. Command: ``clockseg reproduce schedules --data DIR --weights DIR``. Cost: some 10,000 passes
of FCN-8s per data set; about 3 seconds each on two cores (Cityscapes 25), .1 on a GPU.
"""

from __future__ import annotations

from dataclasses import replace

from clockseg.clocks import adaptive
from clockseg.paper.adaptive import at_fire_rate, recorded
from clockseg.paper.method import Method, score_by_coin
from clockseg.paper.methods import (
    ADAPTIVE,
    ALTERNATING,
    ALTERNATING_122,
    EXPONENTIAL,
    SAVINGS,
    SKIP,
    baselines,
    fixed_rates,
    measured,
    oracle,
)
from clockseg.paper.report import Report
from clockseg.paper.rows import ORACLE, Claim, Row, ordering, published
from clockseg.paper.source import Setting, Source

PROTOCOL = """\
Video, each tenth frame on NYUDv2 and YouTube-Objects, each on Cityscapes (the stand-in: each 1st, 5th and 10th of a dense
clip, from every phase). Fixed rates are run from every phase and their confusions added, so that no phase is favoured.
The adaptive clock compares the argmax of the second stage's uncropped scores with that of the frame that fired last, and
its threshold is the one at which it fires on half of the frames scored. Exponential is left out where only two frames lead
up to one that is scored (NYUDv2, YouTube-Objects); NYUDv2 is walked backwards only, so the clock decides on two frames a
clip."""

PAPER = {
    "NYUDv2": {ORACLE: (31.1, 45.5), SKIP: (27.7, 41.3), ALTERNATING: (28.5, 42.4), ADAPTIVE: (28.9, 43.3)},
    "YouTube-Objects": {ORACLE: (70.0, 91.4), SKIP: (65.6, 89.7), ALTERNATING: (67.0, 90.3), ADAPTIVE: (68.5, 91.0)},
    "Cityscapes": {ORACLE: (65.9, 83.6), SKIP: (62.1, 87.4), ALTERNATING: (64.4, 88.6), ADAPTIVE: (61.8, 87.6)},
}
NOTEBOOK = {
    "YouTube-Objects": {
        ORACLE: (70.000, 91.425),
        SKIP: (65.643, 89.740),
        ALTERNATING: (66.959, 90.292),
        ADAPTIVE: (68.496, 90.955),
    },
    "Cityscapes": {
        ORACLE: (66.388, 89.528),
        SKIP: (61.988, 87.383),
        ALTERNATING: (64.595, 88.641),
        ADAPTIVE: (61.8, 87.6),
    },
}


def rows() -> list[Row]:
    """Return the rows of the paper and the authors' notebooks (Cityscapes' oracle: docs/reproduce.md)."""
    found = []
    for data in PAPER:
        found += published(data, PAPER[data], savings=SAVINGS)
        found += published(data, NOTEBOOK.get(data, {}), source="notebook", savings=SAVINGS)
    return found


def claims(found: list[Row]) -> list[Claim]:
    """The paper's orderings, on published and measured rows alike."""
    return [
        *ordering(ALTERNATING, SKIP, found),
        *ordering(SKIP, EXPONENTIAL, found),
        *ordering(ADAPTIVE, ALTERNATING, found),
        *ordering(ADAPTIVE, SKIP, found),
        *ordering(ALTERNATING, ALTERNATING_122, found),
    ]


def _by_coin(source: Source) -> list[Row]:
    """Skip-frame and alternating as the authors' notebook scores Cityscapes: on or off by a coin, the 20th frame alone."""
    [every] = oracle(source.networks)
    two = [method for method in fixed_rates(source.networks, balanced=True) if method.name in (SKIP, ALTERNATING)]
    scores = score_by_coin(every, two, source.clips, classes=source.classes, scored=19)
    return [replace(row, method=f"{row.method}, by a coin", saving=None) for row in measured(source.name, two, scores)]


def run(setting: Setting) -> Report:
    """Score all methods on each data set."""
    found, thresholds = rows(), {}
    for source in setting.videos("NYUDv2", "YouTube-Objects", "Cityscapes"):
        nets, filled = source.networks, source.filled
        thresholds[source.name] = at_fire_rate(recorded(nets.full, source.clips, adaptive, first=filled), 0.5)
        methods = [
            *oracle(nets),
            *fixed_rates(nets, balanced=False, exponentially=source.first_scored >= 3),
            Method(ADAPTIVE, nets.full, thresholds[source.name].schedule, first=filled),
            *baselines(nets),
        ]
        found += source.rows(methods, say=setting.say)
        if source.name == "Cityscapes":
            found += _by_coin(source)
    told = [
        f"{name}: threshold {one.threshold:.4f} fires on {100 * one.fire_rate:.1f} %"
        for name, one in thresholds.items()
    ]
    return Report(
        "schedules",
        "All schedules on video",
        PROTOCOL,
        tuple(found),
        tuple(claims(found)),
        (*setting.notes, *told),
    )
