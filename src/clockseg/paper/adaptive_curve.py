"""Accuracy of the adaptive clock by firing rate and cost (the paper's figure).

Data as in ``tables``, thresholds 0 and .10 to .50; ``PROTOCOL`` says the rest. Command: ``clockseg reproduce adaptive-curve
--data DIR --weights DIR``. Cost: some 40,000 passes of FCN-8s; about 3 seconds each on two cores, .1 on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from clockseg.clocks import PICTURE, Decision, Tick, Watch, adaptive
from clockseg.clocks.rates import fixed_rate
from clockseg.clockwork.network import StagedNetwork
from clockseg.datasets.clips import Clip
from clockseg.errors import number
from clockseg.execution.recording import Recording, needs, record
from clockseg.paper.feature_velocity import pixel_difference
from clockseg.paper.methods import SHARES, Method, oracle
from clockseg.paper.plots import draw_rates
from clockseg.paper.report import ORACLE, Claim, Figure, Report, Row, above
from clockseg.paper.source import Setting, Source
from clockseg.planning.tuning import ByThreshold, tried, tune

PROTOCOL = """\
Each threshold over all clips. Full frames: the share of scored frames on which the last stage fired. Relative saving:
the share of the full network's time saved, given that the first two stages always run. (1,1,n) runs the last stage on every
n-th frame, from every phase. The pixel clock has the thresholds at which it fires as often as the adaptive clock; its
measure is ours, because the paper defines none."""

THRESHOLDS = (0.0, *(round(0.05 * step, 2) for step in range(2, 11)))
PERIODS = (2, 3, 4)
ADAPTIVE, PIXELS = "adaptive", "pixel clock"


def _published(data: str, source: str, method: str, rate: float, mean_iu: float, fw_iu: float | None = None) -> Row:
    """Return a published point of the curve; its saving follows from the paper's shares, as only the last stage is skipped."""
    return Row(data, method, source, mean_iu, fw_iu, full_frames=rate, saving=SHARES[2] * (1 - rate / 100))


PUBLISHED = (
    _published("YouTube-Objects", "paper", ORACLE, 100.0, 70.0, 91.4),
    _published("YouTube-Objects", "paper", ADAPTIVE, 93.0, 70.0),
    _published("YouTube-Objects", "paper", ADAPTIVE, 52.0, 68.3),
    _published("YouTube-Objects", "paper", ADAPTIVE, 21.0, 59.0),
    _published("YouTube-Objects", "notebook", ORACLE, 100.0, 70.000, 91.425),
    _published("YouTube-Objects", "notebook", "adaptive(0.1)", 93.3, 69.992, 91.418),
    _published("YouTube-Objects", "notebook", "adaptive(0.25)", 52.0, 68.343, 90.943),
    _published("YouTube-Objects", "notebook", "adaptive(0.2545)", 50.0, 68.496, 90.955),
    _published("YouTube-Objects", "notebook", "adaptive(0.35)", 21.9, 58.986, 88.465),
    _published("Cityscapes", "notebook", ORACLE, 100.0, 66.388, 89.528),
    _published("Cityscapes", "notebook", "adaptive(0.25)", 94.5, 65.8, 89.4),
    _published("Cityscapes", "notebook", "adaptive(0.375)", 83.1, 64.2, 88.8),
    _published("Cityscapes", "notebook", "adaptive(0.47)", 50.0, 61.8, 87.6),
    _published("Cityscapes", "notebook", "adaptive(0.5)", 41.6, 60.1, 86.9),
)


def _scored(source: Source, setting: Setting) -> list[Row]:
    """Score the oracle, each threshold, each period, and the pixel clock at the rates of the thresholds on one data set."""
    net, before = source.networks.full, source.filled
    labels = recorded(net, source.clips, adaptive, first=before)
    pictures = recorded(net, source.clips, PixelChange, first=before)
    rates = [tried(labels, adaptive(threshold)).fire_rate for threshold in THRESHOLDS]
    foils = {tune(pictures, PixelChange, rate).point.threshold for rate in rates}
    periods = [n for n in PERIODS if n <= source.first_scored + 1]
    methods = [
        *oracle(source.networks),
        *(Method(f"{ADAPTIVE}({threshold})", net, adaptive(threshold), first=before) for threshold in THRESHOLDS),
        *(Method(f"(1,1,{n})", net, fixed_rate((1,) * (len(net) - 1) + (n,)), phases=n) for n in periods),
        *(Method(f"{PIXELS}({threshold})", net, PixelChange(threshold), first=before) for threshold in sorted(foils)),
    ]
    return source.rows(methods, say=setting.say)


def run(setting: Setting) -> Report:
    """Score every point on each data set and draw the curves."""
    found, curves = list(PUBLISHED), {}
    for source in setting.videos("YouTube-Objects", "Cityscapes"):
        rows = _scored(source, setting)
        curves[source.name] = rows
        found += rows
    return Report(
        "adaptive-curve",
        "Accuracy against full frames and cost",
        PROTOCOL,
        tuple(found),
        tuple(claim for rows in curves.values() for claim in claims(rows)),
        setting.notes,
        tuple(
            Figure(
                f"adaptive-curve-{name.lower().replace(' ', '-')}.svg",
                f"{name}: mean IU against full frames",
                partial(draw_rates, name, [*(row for row in PUBLISHED if row.data == name), *rows]),
            )
            for name, rows in curves.items()
        ),
    )


def claims(rows: Sequence[Row]) -> list[Claim]:
    """Compare the adaptive clock with the counter and the pixel clock at equal rates, interpolating its curve linearly."""
    found = []
    for kind, text in (("(1,1,", "the adaptive clock is above the counter"), (PIXELS, "it is above the pixel clock")):
        for row in _points(rows, kind):
            rate, there = row.full_frames or 0.0, _at_rate(_points(rows, ADAPTIVE), row.full_frames or 0.0)
            if there is not None and 0 < rate < 100 and row.mean_iu is not None:
                figures = f"{there:.1f} against {row.mean_iu:.1f} at {rate:.1f} % full frames"
                found.append(Claim(text, f"{row.data}, {row.method}", above(there, row.mean_iu), figures))
    return found


def _points(rows: Sequence[Row], kind: str) -> list[Row]:
    """Return the rows of one kind of method, by rate."""
    return sorted((row for row in rows if row.method.startswith(kind)), key=lambda row: row.full_frames or 0.0)


def _at_rate(points: Sequence[Row], rate: float) -> float | None:
    """Interpolate the mean IU of ``points`` at ``rate``; None outside their range."""
    rates = [point.full_frames or 0.0 for point in points]
    if not rates or not rates[0] <= rate <= rates[-1]:
        return None
    return float(np.interp(rate, rates, [point.mean_iu or 0.0 for point in points]))


def recorded(net: StagedNetwork, clips: Iterable[Clip], clock: ByThreshold, *, first: int = 0) -> list[Recording]:
    """Record the maps that ``clock`` watches on each clip, from frame ``first`` on, where it is filled."""
    keep = needs(net, [clock(0.5)])
    return [record(net, (frame.image for frame in islice(clip, first, None)), keep=keep) for clip in clips]


@dataclass(frozen=True)
class PixelChange:
    """Fires when the picture differs from that of the last firing by at least ``threshold``, 0..2.

    The paper shows its firings but defines neither measure nor threshold. The measure here is that of the paper's table of
    velocities (section 3): the mean relative difference of pixels from which the mean colour is subtracted.
    """

    threshold: float

    def __post_init__(self) -> None:
        number(self.threshold, "the threshold")

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        """Decide by the pixel difference, which is the signal."""
        tick = tick.at(PICTURE)
        signal = pixel_difference(tick.watched, tick.reference)
        return Decision(signal >= self.threshold, signal), None

    def watches(self, stage: int) -> frozenset[Watch]:
        """Return the picture."""
        return frozenset({PICTURE})
