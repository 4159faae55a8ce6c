"""The rate of change of each depth of the network, against its accuracy (the paper's Table 1 and its figure of curves).

Protocol: every frame of every shot against the one before, by the argmax of each stage's uncropped scores; pixels by
their relative difference; a shot's first frame, compared with itself, counts as in the authors' code; mean over frames,
then mean and deviation over shots. Accuracy: mean IU of networks that end after the first and second
stage, and of the whole one. Command: ``clockseg reproduce
velocity --data DIR --weights DIR``. Cost: one pass of FCN-8s for each of YouTube-Objects' frames (10,167); about 3
seconds each on two cores, .1 on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from clockseg.paper.feature_velocity import Shot, Spread, Velocity, velocity
from clockseg.paper.method import score
from clockseg.paper.methods import BASELINE_2, BASELINE_3, baselines, oracle
from clockseg.paper.report import Figure, Report
from clockseg.paper.rows import ORACLE, Claim
from clockseg.paper.source import Setting
from clockseg.paper.velocity_plot import draw_velocity
from clockseg.types import Array

PROTOCOL = """\
Each frame of each video against the one before: the share of cells whose label differs, of each stage's scores as a clock
sees them and of the output; for pixels the mean relative difference after the mean colour is subtracted (so it is no
share of labels, whatever the paper's caption says). Mean over frames, then mean and deviation over videos. Accuracy:
mean IU of networks that end after the first and second stage, in the last row of the whole one, as the paper's 65.5 is.
Depth: the paper's places among FCN-8s' convolutions, poolings and fc layers, from 0."""

PAPER = {
    "pixels": ("0", "0.26 +- 0.18", "-"),
    "pool3": ("9", "0.11 +- 0.06", "9.6"),
    "pool4": ("13", "0.11 +- 0.06", "20.7"),
    "fc7": ("19", "0.02 +- 0.02", "65.5"),
}
PUBLISHED = ((0.26, 0.18), (0.11, 0.06), (0.11, 0.06), (0.02, 0.02))
"""The paper's means and deviations, of the pixels and the three stages."""
HEAD = (
    "source",
    "what",
    "depth",
    "temporal difference",
    "mean IU",
    "above the deepest",
    "rank correlation with the output",
)


def run(setting: Setting) -> Report:
    """Measure every video, and the accuracy at each depth on the stills' clip."""
    films = setting.films(every=1)
    found = velocity(films.networks.full, films.clips)
    table = [HEAD, *(("paper", what, *figures, "-", "-") for what, figures in PAPER.items())]
    return Report(
        "velocity",
        "Feature velocity",
        PROTOCOL,
        claims=tuple(claims(found)),
        notes=setting.notes,
        figures=(
            Figure(
                "velocity",
                "Change from frame to frame in the video of most and of least motion",
                partial(draw_velocity, found, published=[Spread(*spread) for spread in PUBLISHED]),
            ),
        ),
        extra={"shots": {shot.name: _means(found, shot) for shot in found.shots}},
        table=(*table, *_measured(found, _accuracies(setting))),
    )


def _measured(found: Velocity, accuracies: dict[str, float]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        ("measured", "pixels", "0", _shown(found.over_shots(lambda shot: shot.pixels)), "-", "-", "-")
    ]
    depths = (BASELINE_3, BASELINE_2, ORACLE)
    for index, stage in enumerate(found.stages):
        change = found.over_shots(_of_stage(index))
        above, follows = found.exceeds(index), found.correlation(index, lambda shot: shot.output).mean
        rows.append(
            (
                "measured",
                stage,
                f"stage {index + 1}",
                _shown(change),
                f"{accuracies[depths[index]]:.1f}" if depths[index] in accuracies else "-",
                "-" if above is None or index == found.deepest else f"{100 * above:.0f} % of frames",
                "-" if follows is None else f"{follows:.2f}",
            )
        )
    rows.append(("measured", "output", "fused", _shown(found.over_shots(lambda shot: shot.output)), "-", "-", "-"))
    rows.append(("measured", "human labels", "-", _shown(found.over_shots(lambda shot: shot.labels)), "-", "-", "-"))
    return rows


def _accuracies(setting: Setting) -> dict[str, float]:
    """Mean IU in percent of the networks that end after the first and second stage and of the whole one, if there are labels."""
    source = setting.stills()
    if source is None:
        return {}
    methods = [*oracle(source.networks), *baselines(source.networks)]
    scores = score(methods, source.clips, classes=source.classes, say=setting.say)
    return {method.name: 100 * one.scores.mean_iu for method, one in zip(methods, scores, strict=True)}


def claims(found: Velocity) -> list[Claim]:
    """Claim that deep stages change less than shallow ones, over all videos and in each."""
    names = ["pixels", *found.stages]
    spreads = [found.over_shots(lambda shot: shot.pixels)]
    spreads += [found.over_shots(_of_stage(index)) for index in range(len(found.stages))]
    means = [spread.mean or 0.0 for spread in spreads]
    told = ", ".join(f"{name} {mean:.3f}" for name, mean in zip(names, means, strict=True))
    if means[-1]:
        told += f"; {means[1] / means[-1]:.1f} times from {names[1]} to {names[-1]}"
    every = [shot for shot in found.shots if _calms_down(found, shot)]
    return [
        Claim(
            "the deepest stage changes least", f"mean of {len(found.shots)} videos", means[-1] < min(means[:-1]), told
        ),
        Claim(
            "in every single video too",
            f"{len(found.shots)} videos",
            len(every) == len(found.shots),
            f"in {len(every)} of {len(found.shots)}",
        ),
    ]


def _calms_down(found: Velocity, shot: Shot) -> bool:
    *shallow, deep = (found.mean(series) or 0.0 for series in shot.stages)
    return deep <= min(shallow)


def _of_stage(index: int) -> Callable[[Shot], Array]:
    return lambda shot: shot.stages[index]


def _means(found: Velocity, shot: Shot) -> dict[str, float | None]:
    stages = {name: found.mean(series) for name, series in zip(found.stages, shot.stages, strict=True)}
    return {
        "pixels": found.mean(shot.pixels),
        **stages,
        "output": found.mean(shot.output),
        "labels": found.mean(shot.labels),
    }


def _shown(spread: Spread) -> str:
    if spread.mean is None:
        return "-"
    return f"{spread.mean:.3f}" + ("" if spread.deviation is None else f" +- {spread.deviation:.3f}")
