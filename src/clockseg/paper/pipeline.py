"""The pipelines on video: NYUDv2 and YouTube-Objects, every tenth frame (the paper's table).

Protocol: at each labelled frame f the pipeline has seen f - 20 and f - 10 (YouTube-Objects: labels 21 and later, 1,851
frames; NYUDv2: backwards from the labelled frame). Command: ``clockseg reproduce pipeline --data DIR --weights DIR``.
Cost: some 10,000 passes of FCN-8s per data set; about 3 seconds each on two cores, .1 on a GPU.
"""

from __future__ import annotations

from clockseg.paper import schedules
from clockseg.paper.methods import (
    ALTERNATING,
    BASELINE_2,
    BASELINE_3,
    PIPELINE_2,
    PIPELINE_3,
    SAVINGS,
    SKIP,
    baselines,
    fixed_rates,
    oracle,
    pipelines,
)
from clockseg.paper.report import Report
from clockseg.paper.rows import ORACLE, Claim, Row, ordering, published
from clockseg.paper.source import Setting

PROTOCOL = """\
Video, each tenth frame (the stand-in: each 1st, 5th and 10th of a dense clip, from every phase). Scored are labelled
frames that at least two such steps lead up to, for every method alike. A pipeline's stages read what the frame before
left, that is one such step ago; rates of period 2 are run from both phases and their confusions added."""

PAPER = {
    "NYUDv2": {
        ORACLE: (31.1, 45.5),
        BASELINE_3: (8.1, 22.2),
        PIPELINE_3: (25.1, 38.0),
        BASELINE_2: (16.5, 32.1),
        PIPELINE_2: (26.4, 39.5),
    },
    "YouTube-Objects": {
        ORACLE: (70.0, 91.5),
        BASELINE_3: (12.2, 74.2),
        PIPELINE_3: (58.1, 87.0),
        BASELINE_2: (21.5, 7.8),
        PIPELINE_2: (64.0, 89.2),
    },
}
NOTEBOOK = {
    "YouTube-Objects": {
        ORACLE: (70.000, 91.425),
        PIPELINE_3: (58.125, 87.030),
        PIPELINE_2: (64.002, 89.179),
    },
}


def rows() -> list[Row]:
    """Return the rows of the paper and the authors' notebook (YouTube's 7.8 is a lost digit: docs/reproduce.md)."""
    found = []
    for data in PAPER:
        rates = {method: schedules.PAPER[data][method] for method in (SKIP, ALTERNATING)}
        found += published(data, PAPER[data] | rates, savings=SAVINGS)
        found += published(data, NOTEBOOK.get(data, {}), source="notebook", savings=SAVINGS)
    return found


def claims(found: list[Row]) -> list[Claim]:
    """The paper's orderings, on published and measured rows alike."""
    return [
        *ordering(PIPELINE_3, BASELINE_3, found, text="the 3-stage pipeline is above the network of equal latency"),
        *ordering(PIPELINE_2, BASELINE_2, found, text="the 2-stage pipeline is above the network of equal latency"),
        *ordering(PIPELINE_2, SKIP, found, text="the 2-stage pipeline is above skip-frame"),
    ]


def run(setting: Setting) -> Report:
    """Score all methods on each data set."""
    found = rows()
    for source in setting.videos("NYUDv2", "YouTube-Objects"):
        nets = source.networks
        methods = [
            *oracle(nets),
            *baselines(nets),
            *pipelines(nets),
            *fixed_rates(nets, balanced=False, exponentially=False),
        ]
        found += source.rows(methods, say=setting.say)
    return Report(
        "pipeline",
        "Pipelines on video",
        PROTOCOL,
        tuple(found),
        tuple(claims(found)),
        setting.notes,
    )
