"""The velocity of each depth of the network next to its accuracy (the paper's Table 1 and its figure of curves).

``PROTOCOL`` and ``clockseg.paper.feature_velocity`` say how. Command: ``clockseg reproduce velocity --data DIR --weights DIR``.
Cost: one pass of FCN-8s for each of the 10,167 frames of YouTube-Objects; about 3 seconds each on two cores, .1 on a GPU.
"""

from __future__ import annotations

from functools import partial
from itertools import chain, repeat

from clockseg.paper.feature_velocity import Shot, Spread, Velocity, velocity
from clockseg.paper.methods import BASELINE_2, BASELINE_3, baselines, oracle, score
from clockseg.paper.plots import draw_velocity
from clockseg.paper.report import ORACLE, Claim, Figure, Report
from clockseg.paper.source import Setting

PROTOCOL = """\
Each frame of each video against the previous one: the share of cells whose label differs, in each stage's scores as a clock
sees them and in the output; for pixels the mean relative difference after the mean colour is subtracted (not a share of
labels, although the paper's caption says so). Mean over frames, then mean and deviation over videos. Accuracy:
mean IU of the networks that end after the first and second stage, and in the last row of the whole network, like the paper's
65.5. Depth: position among FCN-8s' convolutions, poolings and fc layers, from 0."""

COLUMNS = (
    "source",
    "what",
    "depth",
    "temporal difference",
    "mean IU",
)
PAPER = (
    ("paper", "pixels", "0", "0.26 +- 0.18", "-"),
    ("paper", "pool3", "9", "0.11 +- 0.06", "9.6"),
    ("paper", "pool4", "13", "0.11 +- 0.06", "20.7"),
    ("paper", "fc7", "19", "0.02 +- 0.02", "65.5"),
)


def run(setting: Setting) -> Report:
    """Measure every video, and the accuracy at each depth on the stills' clip."""
    films = setting.films(every=1)
    found = velocity(films.networks.full, films.clips)
    lines = (*PAPER, *_measured(found, _accuracies(setting)))
    return Report(
        "velocity",
        "Feature velocity",
        PROTOCOL,
        claims=tuple(claims(found)),
        notes=setting.notes,
        figures=(
            Figure(
                "velocity.svg",
                "Change from frame to frame in the video of most and of least motion",
                partial(draw_velocity, found),
            ),
        ),
        extra={"shots": {shot.name: dict(zip(found.names, map(found.mean, shot.series))) for shot in found.shots}},
        table=tuple(dict(zip(COLUMNS, line, strict=True)) for line in lines),
    )


def _measured(found: Velocity, accuracies: dict[str, float]) -> list[tuple[str, ...]]:
    pixels, *changes, output, labels = map(_shown, found.spreads())
    ends = chain((BASELINE_3, BASELINE_2, ORACLE), repeat(""))
    stages = (
        ("measured", stage, f"stage {number}", change, f"{accuracies[end]:.1f}" if end in accuracies else "-")
        for number, (stage, change, end) in enumerate(zip(found.stages, changes, ends, strict=False), 1)
    )
    around = ("pixels", "0", pixels), ("output", "fused", output), ("human labels", "-", labels)
    first, *last = (("measured", *one, "-") for one in around)
    return [first, *stages, *last]


def _accuracies(setting: Setting) -> dict[str, float]:
    """Return the mean IU in percent of the truncated networks and of the whole one; empty without labels."""
    source = setting.stills()
    if source is None:
        return {}
    methods = [*oracle(source.networks), *baselines(source.networks)]
    scores = score(methods, source.clips, classes=source.classes, say=setting.say)
    return {method.name: 100 * one.scores.mean_iu for method, one in zip(methods, scores, strict=True)}


def claims(found: Velocity) -> list[Claim]:
    """Claim that deep stages change less than shallow ones, over all videos and in each."""
    names = found.names[:-2]
    means = [spread.mean or 0.0 for spread in found.spreads()[:-2]]
    told = ", ".join(f"{name} {mean:.3f}" for name, mean in zip(names, means, strict=True))
    if means[-1]:
        told += f"; {means[1] / means[-1]:.1f} times from {names[1]} to {names[-1]}"
    videos, calmer = len(found.shots), sum(_calms_down(found, shot) for shot in found.shots)
    return [
        Claim("the deepest stage changes least", f"mean of {videos} videos", means[-1] < min(means[:-1]), told),
        Claim("in every single video too", f"{videos} videos", calmer == videos, f"in {calmer} of {videos}"),
    ]


def _calms_down(found: Velocity, shot: Shot) -> bool:
    *shallow, deep = (found.mean(series) or 0.0 for series in shot.stages)
    return deep <= min(shallow)


def _shown(spread: Spread) -> str:
    if spread.mean is None:
        return "-"
    return f"{spread.mean:.3f}" + ("" if spread.deviation is None else f" +- {spread.deviation:.3f}")
