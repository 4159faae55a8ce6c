"""Single videos under the adaptive clock: its firings and their effect (the paper's figure and its supplement).

Protocol: the threshold of .25 (of the stand-in `street`: .15) for every video; fire rate over the frames after the
first; mean IU against labels where there are any, and agreement with the frame oracle. The foil is a clock on pixels at
the same threshold; the paper shows one and defines none (``PixelChange``). Command: ``clockseg reproduce adaptive-videos
--data DIR --weights DIR``. Cost: three passes of FCN-8s a frame.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from clockseg.clocks import adaptive
from clockseg.clockwork.schedule import ScheduleLike
from clockseg.errors import DataError, VideoError
from clockseg.evaluation.metrics import Confusion, confusion
from clockseg.paper.adaptive_curve import PixelChange
from clockseg.paper.contact_sheet import schedule_filmstrip
from clockseg.paper.report import ORACLE, Claim, Figure, Report, Row, above
from clockseg.paper.screening import Screening, screen
from clockseg.paper.source import Setting

PROTOCOL = """\
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


def run(setting: Setting) -> Report:
    """Screen every video, report its rows and draw its filmstrip."""
    threshold = STANDIN_THRESHOLD if setting.standin == "street" else THRESHOLD
    clock, foil = f"adaptive({threshold})", "pixel clock"
    schedules: dict[str, ScheduleLike] = {clock: adaptive(threshold), foil: PixelChange(threshold)}
    source = setting.films()
    shown, broken = [], []
    for clip in source.clips:
        try:
            shown.append(screen(source.networks.full, clip, schedules))
        except (DataError, VideoError) as error:
            broken.append(f"left out: {error}")
    if not shown:
        raise DataError(f"no video could be shown. {' '.join(broken)}")
    fired = {one.name: {name: [int(fires) for fires in one.of(name).fired] for name in schedules} for one in shown}
    return Report(
        "adaptive-videos",
        "Single videos under the adaptive clock",
        PROTOCOL,
        (*PAPER, *(_row(one, name) for one in shown for name in (ORACLE, clock, foil))),
        tuple(_calmer(one, clock, foil) for one in shown),
        (*setting.notes, *broken),
        tuple(_filmstrip(one, (clock, foil)) for one in shown),
        {"fired": fired},
    )


def _row(screening: Screening, schedule: str) -> Row:
    rate = screening.of(schedule).fire_rate
    if screening.labelled:
        scores, note = _against_labels(screening, schedule), f"{len(screening.labelled)} labelled frames"
        mean_iu = scores.mean_iu
    else:
        scores, note = screening.agreement(schedule), "agreement"
        mean_iu = scores.mean_iu_of()
    shown = None if rate is None or schedule == ORACLE else 100 * rate
    return Row(screening.name, schedule, "measured", 100 * mean_iu, 100 * scores.fw_iu, full_frames=shown, note=note)


def _against_labels(screening: Screening, schedule: str) -> Confusion:
    shown, count = screening.of(schedule), len(screening.classes.names)
    truths = ((at, frame.labels) for at, frame in enumerate(screening.frames()) if frame.labels is not None)
    return sum((confusion(truth, shown.labels(at), count) for at, truth in truths), Confusion.none(count))


def _calmer(screening: Screening, clock: str, foil: str) -> Claim:
    rates = [100 * (screening.of(name).fire_rate or 0.0) for name in (clock, foil)]
    figures = f"{rates[0]:.1f} % against {rates[1]:.1f} % of frames"
    return Claim(
        "the clock on labels fires less than the one on pixels", screening.name, above(rates[1], rates[0]), figures
    )


def _filmstrip(screening: Screening, schedules: Sequence[str]) -> Figure:
    def draw(path: Path) -> None:
        schedule_filmstrip(screening, path.with_name(f"{path.name}.png"), schedules)

    stem = re.sub(r"\W+", "-", screening.name).strip("-")
    caption = f"{screening.name}: truth, or the frame oracle, over output, and when each clock fires"
    return Figure(f"adaptive-videos-{stem}", caption, draw, suffix=".png")
