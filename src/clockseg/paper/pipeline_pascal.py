"""The pipelines on translated stills of PASCAL VOC, against truncated networks of equal latency (the paper's table).

Protocol: six windows of each still, 16 or 32 pixels apart along its longer side; frames 2 to 5 scored, for every method
(736 stills of seg11valid: 2,944 scored frames). Command: ``clockseg reproduce pipeline-pascal --data DIR --weights DIR``.
Cost: 4,416 passes of FCN-8s per method and shift; about 3 seconds each on two cores, .1 on a GPU.
"""

from __future__ import annotations

from clockseg.paper import fixed_rate
from clockseg.paper.methods import (
    ALTERNATING,
    BASELINE_2,
    BASELINE_3,
    NOTEBOOK_3,
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
Translated stills: six windows of each picture, 16 or 32 pixels apart along its longer side, so that the picture seems to
move; frames 2 to 5 are scored, for every method alike. A pipeline's stages read what the frame before left; a truncated
network answers as early but from its first stages alone. The 3-stage pipeline starts as the paper has it, (2,1,0) at the
first scored frame, and as the authors' notebook does, (2,1,1)."""

PAPER = {
    "PASCAL, shift 16": {
        ORACLE: (65.9, 83.6, 57.0, 56.3),
        BASELINE_3: (9.2, 52.6, 6.1, 9.4),
        PIPELINE_3: (56.0, 76.5, 44.6, 42.9),
        BASELINE_2: (22.5, 64.7, 16.6, 21.9),
        PIPELINE_2: (63.3, 81.7, 52.3, 51.0),
    },
    "PASCAL, shift 32": {
        ORACLE: (65.6, 82.6, 55.8, 55.3),
        BASELINE_3: (9.2, 52.6, 6.0, 9.4),
        PIPELINE_3: (45.5, 67.4, 37.7, 36.0),
        BASELINE_2: (22.4, 62.8, 16.2, 21.7),
        PIPELINE_2: (57.8, 76.6, 46.6, 45.1),
    },
}
NOTEBOOK = {
    "PASCAL, shift 16": {
        ORACLE: (65.91, 83.57, 56.98, 56.23),
        BASELINE_3: (9.27, 54.77, 6.17, 9.50),
        NOTEBOOK_3: (57.17, 77.39, 45.67, 44.06),
        BASELINE_2: (22.53, 64.71, 16.66, 21.94),
        PIPELINE_2: (63.29, 81.69, 52.32, 50.94),
    },
    "PASCAL, shift 32": {
        ORACLE: (65.61, 82.63, 55.82, 55.25),
        BASELINE_3: (9.22, 52.66, 6.08, 9.50),
        NOTEBOOK_3: (47.88, 69.08, 39.39, 37.78),
        BASELINE_2: (22.36, 62.86, 16.26, 21.71),
        PIPELINE_2: (57.83, 76.59, 46.61, 45.04),
    },
}


def rows() -> list[Row]:
    """Return the rows of the paper and the authors' notebook; skip-frame and alternating are from the table of fixed rates."""
    found = []
    for data in PAPER:
        rates = {method: fixed_rate.PAPER[data][method] for method in (SKIP, ALTERNATING)}
        found += published(data, PAPER[data] | rates, savings=SAVINGS)
        found += published(data, NOTEBOOK[data], source="notebook", savings=SAVINGS)
    return found


def claims(found: list[Row]) -> list[Claim]:
    """The paper's orderings, on published and measured rows alike."""
    return [
        *ordering(PIPELINE_3, BASELINE_3, found, text="the 3-stage pipeline is above the network of equal latency"),
        *ordering(PIPELINE_2, BASELINE_2, found, text="the 2-stage pipeline is above the network of equal latency"),
        *ordering(PIPELINE_2, SKIP, found, text="the 2-stage pipeline is above skip-frame"),
        *ordering(ALTERNATING, SKIP, found),
    ]


def run(setting: Setting) -> Report:
    """Score all methods at both shifts."""
    found = rows()
    for shift in (16, 32):
        source = setting.translated(shift)
        nets = source.networks
        methods = [
            *oracle(nets),
            *baselines(nets),
            *pipelines(nets, notebook=True),
            *fixed_rates(nets, balanced=True, exponentially=False),
        ]
        found += source.rows(methods, say=setting.say)
    return Report(
        "pipeline-pascal",
        "Pipelines on translated stills",
        PROTOCOL,
        tuple(found),
        tuple(claims(found)),
        setting.notes,
    )
