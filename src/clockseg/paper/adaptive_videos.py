"""Single videos under the adaptive clock: how often it fires, and what that costs (the paper's figure and its supplement).

``PROTOCOL`` says how. Command: ``clockseg reproduce adaptive-videos --data DIR --weights DIR``. Cost: four passes of FCN-8s a
frame.
"""

from __future__ import annotations

from dataclasses import replace

from clockseg.clocks import adaptive
from clockseg.clocks.rates import frame_oracle
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import ScheduleLike
from clockseg.datasets import Clip
from clockseg.errors import DataError, VideoError
from clockseg.evaluation.evaluate import Evaluation, evaluate
from clockseg.paper.adaptive_curve import PixelChange
from clockseg.paper.report import ORACLE, Claim, Report, Row, above
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
    """Evaluate every video by itself."""
    threshold = STANDIN_THRESHOLD if setting.standin == "street" else THRESHOLD
    clock, foil = f"adaptive({threshold})", "pixel clock"
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
        PROTOCOL,
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
