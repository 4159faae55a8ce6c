"""The adaptive clock: its accuracy by firing rate and cost, and single videos under it (the paper's figures and its supplement).

``CURVE_PROTOCOL`` and ``VIDEOS_PROTOCOL`` say how. Commands: ``clockseg reproduce adaptive-curve --data DIR --weights DIR``, on the
data of ``tables`` with thresholds 0 and .10 to .50, and ``adaptive-videos``. Cost: some 40,000 passes of FCN-8s for the curve, four a
frame for the videos; about 3 seconds each on two cores, .1 on a GPU.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np

from clockseg.clocks import PICTURE, Decision, Tick, Watch, adaptive
from clockseg.clocks.rates import fixed_rate, frame_oracle
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import ScheduleLike
from clockseg.datasets import Clip
from clockseg.errors import DataError, VideoError, number
from clockseg.evaluation.evaluate import Evaluation, evaluate
from clockseg.execution.recording import Recording, needs, record
from clockseg.paper.methods import SHARES, Method, oracle
from clockseg.paper.report import ORACLE, Claim, Figure, Report, Row, above
from clockseg.paper.source import Setting, Source
from clockseg.paper.velocity import pixel_difference
from clockseg.planning.tuning import ByThreshold, tried, tune
from clockseg.report.style import DASHES, HALF, figure, marked


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


ADAPTIVE, COUNTER, PIXELS = KINDS = ("adaptive", "(1,1,n)", "pixel clock")
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
                if points := _points((row for row in rows if row.source == source), kind):
                    line = marked(place) | {"linestyle": DASHES[place], "linewidth": 1} | look
                    axes.plot(*zip(*points, strict=True), label=f"{kind}: {name}", **line)
        axes.grid()
        axes.set(xlabel="full frames, %", ylabel="mean IU, %", title=title)
        drawn.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8)


def _points(rows: Iterable[Row], kind: str) -> list[tuple[float, float]]:
    """Return rate and mean IU of one kind of method, by rate; the frame oracle is the adaptive clock that always fires."""
    there = (row for row in rows if _kind(row.method) == kind)
    return sorted((row.full_frames or 0.0, row.mean_iu or 0.0) for row in there)


def _kind(method: str) -> str:
    """Return a method without its threshold or period."""
    return next((kind for kind in KINDS if method.startswith(kind[:5])), ADAPTIVE)


CURVE_PROTOCOL = """\
Each threshold over all clips. Full frames: the share of scored frames on which the last stage fired. Relative saving:
the share of the full network's time saved, given that the first two stages always run. (1,1,n) runs the last stage on every
n-th frame, from every phase. The pixel clock has the thresholds at which it fires as often as the adaptive clock; its
measure is ours, because the paper defines none."""

THRESHOLDS = (0.0, *(round(0.05 * step, 2) for step in range(2, 11)))
PERIODS = (2, 3, 4)


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


def run_curve(setting: Setting) -> Report:
    """Score every point on each data set and draw the curves."""
    curves = {source.name: _scored(source, setting) for source in setting.videos("YouTube-Objects", "Cityscapes")}
    return Report(
        "adaptive-curve",
        "Accuracy against full frames and cost",
        CURVE_PROTOCOL,
        (*PUBLISHED, *chain(*curves.values())),
        tuple(claim for rows in curves.values() for claim in curve_claims(rows)),
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


def curve_claims(rows: Sequence[Row]) -> list[Claim]:
    """Compare the adaptive clock with the counter and the pixel clock at equal rates, interpolating its curve linearly."""
    rates, scores = zip(*_points(rows, ADAPTIVE), strict=True)
    texts = {COUNTER: "the adaptive clock is above the counter", PIXELS: "it is above the pixel clock"}
    found = []
    for row in rows:
        rate, text = row.full_frames or 0.0, texts.get(_kind(row.method))
        if text and 0 < rate < 100 and rates[0] <= rate and row.mean_iu is not None:
            there = float(np.interp(rate, rates, scores))
            figures = f"{there:.1f} against {row.mean_iu:.1f} at {rate:.1f} % full frames"
            found.append(Claim(text, f"{row.data}, {row.method}", above(there, row.mean_iu), figures))
    return found


VIDEOS_PROTOCOL = """\
Each video by itself, with the same threshold for all. The clock compares the argmax of the second stage's scores with that
of the last fired frame; the pixel clock compares the pictures instead (the paper shows its raster without defining
it: here it is the mean relative difference of pixels, as in the table of velocities). Full frames: the share of the
frames after the first. Mean IU against human labels if a video has some, else agreement with the frame oracle."""

THRESHOLD = 0.25
STANDIN_THRESHOLD = 0.15
"""The labels of `street` at stride 16 change less than those of FCN-8s at pool4, whose map includes a border of padding."""
PAPER = (
    Row("main figure", "adaptive", "paper", full_frames=26.0),
    Row("main figure", "pixel clock", "paper", full_frames=90.0),
    Row("supplement, 1", ORACLE, "paper", 63.0),
    Row("supplement, 1", "adaptive", "paper", 62.9, full_frames=71.6),
    Row("supplement, 2", "adaptive", "paper", full_frames=32.3, note="1.4 points below its oracle"),
    Row("supplement, 3", ORACLE, "paper", 90.5),
    Row("supplement, 3", "adaptive", "paper", 57.8, full_frames=2.4),
    Row("supplement, 4", ORACLE, "paper", 75.3),
    Row("supplement, 4", "adaptive", "paper", 69.4, full_frames=8.5),
)


def run_videos(setting: Setting) -> Report:
    """Evaluate every video by itself."""
    threshold = STANDIN_THRESHOLD if setting.standin == "street" else THRESHOLD
    clock, foil = f"adaptive({threshold})", PIXELS
    schedules: dict[str, ScheduleLike] = {
        ORACLE: frame_oracle,
        clock: adaptive(threshold),
        foil: PixelChange(threshold),
    }
    source = setting.films()
    net = source.networks.full
    rows, claims, broken = [], [], []
    for clip in (_comparable(clip, net) for clip in source.clips):
        setting.say(clip.name)
        try:
            found = evaluate(net, schedules, [clip])
        except (DataError, VideoError) as error:
            broken.append(f"left out: {error}")
            continue
        measured = [_row(clip.name, one, clip.labelled) for one in found]
        rows += measured
        claims.append(_calmer(*measured[1:]))
    if not rows:
        raise DataError(f"no video could be read. {' '.join(broken)}")
    return Report(
        "adaptive-videos",
        "Single videos under the adaptive clock",
        VIDEOS_PROTOCOL,
        (*PAPER, *rows),
        tuple(claims),
        (*setting.notes, *broken),
    )


def _comparable(clip: Clip, net: StagedNetwork) -> Clip:
    """Return the clip without its labels if they are of other classes than those of ``net``."""
    own = net.sidecar.classes if net.sidecar is not None else ()
    if clip.classes is None or clip.classes.others is not None or clip.classes.names == own:
        return clip
    return replace(clip, labels=(None,) * len(clip.labels), classes=None)


def _row(video: str, found: Evaluation, labelled: int) -> Row:
    scores = found.scores if labelled else found.agreement
    *_, rate = found.tally.fire_rate.values()
    return Row(
        video,
        found.schedule,
        "measured",
        100 * (scores.mean_iu if labelled else scores.mean_iu_of()),
        100 * scores.fw_iu,
        full_frames=None if found.schedule == ORACLE or rate is None else 100 * rate,
        note=f"{labelled} labelled frames" if labelled else "agreement",
    )


def _calmer(clock: Row, foil: Row) -> Claim:
    rates = [row.full_frames or 0.0 for row in (clock, foil)]
    figures = f"{rates[0]:.1f} % against {rates[1]:.1f} % of frames"
    return Claim(
        "the clock on labels fires less than the one on pixels", clock.data, above(rates[1], rates[0]), figures
    )
