"""Fixed rates on translated stills of PASCAL VOC (the paper's table; no protocol of it was published).

Protocol: as ``pipeline_pascal``, frames 2 to 5 scored: a schedule of period 2 is on for half of them, and of the four
frames each is another phase of the exponential one. Command: ``clockseg reproduce fixed-rate --data DIR --weights DIR``.
Cost: as ``pipeline_pascal``.
"""

from __future__ import annotations

from clockseg.paper.methods import (
    ALTERNATING,
    ALTERNATING_122,
    EXPONENTIAL,
    SAVINGS,
    SKIP,
    baselines,
    fixed_rates,
    lags,
    oracle,
    price_of_lag,
)
from clockseg.paper.report import Report
from clockseg.paper.rows import ORACLE, Claim, Row, ordering, published
from clockseg.paper.source import Setting

PROTOCOL = """\
Translated stills as for the pipelines: six windows of each picture, frames 2 to 5 scored. Those hold every phase of a
schedule of period 2 or 4 equally often, so no phase is favoured. Skip-frame is scored on every frame, with its last
output on those it skips. Alternating is (1,1,2) in the paper's table and method section, (1,2,2) in its text."""

PAPER = {
    "PASCAL, shift 16": {
        ORACLE: (65.9, 83.6, 57.0, 56.3),
        SKIP: (63.0, 81.5, 60.2, 52.2),
        EXPONENTIAL: (61.4, 80.4, 50.5, 49.1),
        ALTERNATING: (64.7, 82.6, 54.8, 53.7),
    },
    "PASCAL, shift 32": {
        ORACLE: (65.6, 82.6, 55.8, 55.3),
        SKIP: (59.5, 77.9, 49.4, 48.2),
        EXPONENTIAL: (55.5, 74.7, 46.3, 44.8),
        ALTERNATING: (61.9, 79.6, 51.7, 50.6),
    },
}


def rows() -> list[Row]:
    """Return the rows that the paper prints."""
    return [row for data in PAPER for row in published(data, PAPER[data], savings=SAVINGS)]


def claims(found: list[Row]) -> list[Claim]:
    """The paper's orderings, on published and measured rows alike."""
    return [
        *ordering(ALTERNATING, SKIP, found),
        *ordering(SKIP, EXPONENTIAL, found),
        *ordering(ALTERNATING, ALTERNATING_122, found),
        *ordering(EXPONENTIAL, SKIP, found, text="clockwork is above skip-frame (the abstract), read of exponential"),
    ]


def run(setting: Setting) -> Report:
    """Score all methods at both shifts."""
    found, prices = rows(), []
    for shift in (16, 32):
        source = setting.translated(shift)
        methods = [
            *oracle(source.networks),
            *fixed_rates(source.networks, balanced=True),
            *lags(source.networks),
            *baselines(source.networks),
        ]
        found += source.rows(methods, say=setting.say)
        prices.append(price_of_lag(found, source.name))
    return Report(
        "fixed-rate",
        "Fixed rates on translated stills",
        PROTOCOL,
        tuple(found),
        tuple(claims(found)),
        (*setting.notes, *prices),
    )
