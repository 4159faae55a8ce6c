"""Feature velocity: how fast each depth of a network changes over a video (section 3, Table 1 and its figure of curves).

Each frame is compared with the previous one: the pictures by their relative difference; the label maps of the output and of
every stage's uncropped scores by the share of places that changed; human annotations likewise, the last one held until the next.
The velocity of a shot is the mean over its frames, including the first, which the authors' code compares with itself (a
zero); that of a network is the mean over shots.

The experiment adds the accuracy at each depth. Command: ``clockseg reproduce velocity --data DIR --weights DIR``. Cost: one pass
of FCN-8s for each of the 10,167 frames of YouTube-Objects; about 3 seconds each on two cores, .1 on a GPU.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from typing import Any, NamedTuple

import numpy as np
import onnx

from clockseg.clocks.maps import change, labels
from clockseg.clocks.rates import frame_oracle
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.step import fill
from clockseg.datasets.clips import Clip
from clockseg.engines.compiled import CompiledPart
from clockseg.errors import UsageError
from clockseg.graph.part import GraphPart
from clockseg.paper.fcn import MEAN as BGR_MEAN
from clockseg.paper.methods import BASELINE_2, BASELINE_3, baselines, oracle, score
from clockseg.paper.report import ORACLE, Claim, Figure, Report
from clockseg.paper.source import Setting
from clockseg.report.style import HALF, MUTED, dashed, figure, short
from clockseg.types import Array, Image, Labels
from clockseg.video.clip import Frame

MEAN = BGR_MEAN[::-1]
"""Mean RGB of PASCAL VOC, which the paper's networks subtract, and which is subtracted before pixels are compared."""


@dataclass(frozen=True, eq=False)
class Shot:
    """The changes in one clip from frame to frame, float64 [frames] each; 0 at the first frame, NaN where nothing is compared.

    ``pixels``: ``pixel_difference``, 0..2. ``stages``: the change of each stage's label map, 0..1; ``output``: of the
    network's output; ``labels``: of the annotation, NaN before the first one. ``indices``: the frames' numbers in the clip.
    """

    name: str
    indices: tuple[int, ...]
    pixels: Array
    stages: tuple[Array, ...]
    output: Array
    labels: Array

    @property
    def series(self) -> tuple[Array, ...]:
        """All changes, in the order of ``Velocity.names``."""
        return self.pixels, *self.stages, self.output, self.labels


class Spread(NamedTuple):
    """Mean and population deviation over shots; None without shots, and no deviation for a single one."""

    mean: float | None
    deviation: float | None


@dataclass(frozen=True)
class Velocity:
    """Feature velocity of one network over shots.

    A shot's first frame, a zero, counts in its mean, as in the authors' code. ``depths``: the layers up to each stage, or empty.
    """

    network: str
    stages: tuple[str, ...]
    shots: tuple[Shot, ...]
    depths: tuple[int, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of a shot's series: pixels, stages from shallow to deep, output, labels."""
        return "pixels", *self.stages, "output", "labels"

    def mean(self, series: Array) -> float | None:
        """Return the mean of one series of a shot; None if it has no two frames to compare."""
        found = series[~np.isnan(series)]
        return float(found.mean()) if found.size > 1 else None

    def spreads(self) -> list[Spread]:
        """Return the mean and deviation over shots of each series, in the order of ``names``."""
        return [spread(self.mean(shot.series[place]) for shot in self.shots) for place in range(len(self.names))]

    def by_motion(self) -> list[Shot]:
        """Return the shots from the least to the most motion, judged by their pixels."""
        return sorted(self.shots, key=lambda shot: self.mean(shot.pixels) or 0.0)

    def facts(self) -> dict[str, Any]:
        """Return plain values for ``clockseg velocity --json``; None where nothing was measured."""
        spreads, depths = [one._asdict() for one in self.spreads()], self.depths or (None,) * len(self.stages)
        return {
            "network": self.network,
            **_by_depth(spreads),
            "stages": [
                {"stage": stage, "depth": depth, **spread}
                for stage, depth, spread in zip(self.stages, depths, spreads[1:-2], strict=True)
            ],
            "shots": [
                {"shot": shot.name, "frames": len(shot.indices), **_by_depth(map(self.mean, shot.series))}
                for shot in self.shots
            ],
        }


def _by_depth(values: Iterable[Any]) -> dict[str, Any]:
    """Return one value for each of ``Velocity.names`` as JSON has them."""
    pixels, *stages, output, labels = values
    return {"pixels": pixels, "stages": stages, "output": output, "labels": labels}


def velocity(net: StagedNetwork, clips: Iterable[Clip], *, warn: Callable[[str], None] = warnings.warn) -> Velocity:
    """Measure the velocity of ``net`` over clips (videos, clip folders); each is a shot, and every frame is run in full.

    ``warn`` gets a sentence on whatever could not be decoded.
    """
    shots = (
        shot(net, clip.name, clip.frames(problem=warn), ignore=255 if clip.classes is None else clip.classes.ignore)
        for clip in clips
    )
    return Velocity(net.name, net.names, tuple(shots))


LAYERS = ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "Gemm", "MatMul")
"""Convolutions, poolings and products count; activations, sums and resizing don't."""


def depths(net: StagedNetwork) -> tuple[int, ...]:
    """Return for each stage the index, from 0, of its last layer on the longest path from the frame to its cut.

    VGG-16's pool3, pool4 and fc7 are layers 9, 13 and 19 (paper, Table 1). Empty for a network whose bodies are not graphs.
    """
    parts = [stage.body.part if isinstance(stage.body, CompiledPart) else stage.body for stage in net.stages]
    bodies = [part for part in parts if isinstance(part, GraphPart)]
    if len(bodies) != len(net) or net.sidecar is None:
        return ()
    size = bodies[0].frame_size(
        [net.prepare(np.zeros((net.sidecar.input.height, net.sidecar.input.width, 3), np.uint8))]
    )
    found: list[int] = []
    passed: dict[str, int] = {}
    for body in bodies:
        built = body.build(size)
        graph = onnx.load_model_from_string(built.model).graph
        inside = {own: passed.get(name, 0) for own, name in zip(built.inputs, body.read_by(built), strict=True)}
        inside = layers_passed(graph.node, inside)
        ends = {name: inside.get(own, 0) for own, name in zip(built.outputs, body.made, strict=True)}
        # The first of a body's outputs is the trunk, whatever heads hang on it.
        found.append(ends[body.made[0]] - 1)
        passed |= ends
    return tuple(found)


def layers_passed(nodes: Iterable[onnx.NodeProto], passed: dict[str, int]) -> dict[str, int]:
    """Return for each tensor the number of layers on the longest path to it; ``passed``: for those that are given."""
    found = dict(passed)
    for node in nodes:  # ONNX keeps them in topological order
        before = max((found.get(name, 0) for name in node.input), default=0)
        found |= dict.fromkeys(node.output, before + (node.op_type in LAYERS))
    return found


class _Seen(NamedTuple):
    """A frame: its picture, the label maps of its stages and of the output, and the annotation."""

    image: Image
    maps: tuple[Labels | None, ...]
    labels: Labels | None


def shot(net: StagedNetwork, name: str, frames: Iterable[Frame], *, ignore: int = 255) -> Shot:
    """Run each frame of one clip in full and compare it with the previous one.

    Places annotated as ``ignore`` in either frame are left out. A frame whose size differs from the previous one's is
    compared with itself, like the first frame.
    """
    schedule, rows, indices, before = frame_oracle(len(net)), [], [], None
    for frame in frames:
        output, memory = fill(net, schedule, frame.image)
        maps = (
            None if stage.scores is None else labels(stage.scores(kept.held.value))
            for stage, kept in zip(net.stages, memory.stages, strict=True)
        )
        # Depth and other outputs are not compared.
        shown = np.asarray(output) if np.asarray(output).dtype.kind in "ui" else None
        held = before.labels if before is not None and frame.labels is None else frame.labels
        now = _Seen(frame.image.copy(), (*maps, shown), held)
        if before is None or before.image.shape != now.image.shape:
            before = now
        changes = (_change(a, b) for a, b in zip(now.maps, before.maps, strict=True))
        annotated = _change(now.labels, now.labels if before.labels is None else before.labels, ignore)
        rows.append([pixel_difference(now.image, before.image), *changes, annotated])
        indices.append(frame.index)
        before = now
    columns = np.array(rows, np.float64).reshape(len(rows), len(net) + 3).T
    return Shot(name, tuple(indices), columns[0], tuple(columns[1:-2]), columns[-2], columns[-1])


def _change(now: Labels | None, before: Labels | None, ignore: int | None = None) -> float:
    if now is None or before is None:
        return math.nan
    if ignore is None:
        return change(now, before)
    told = (now != ignore) & (before != ignore)
    return change(now[told], before[told]) if told.any() else math.nan


def pixel_difference(a: Image, b: Image, *, mean: tuple[float, float, float] = MEAN) -> float:
    """Return the mean over all values of |a - b| / ((|a| + |b|) / 2), 0..2, of two pictures after subtracting ``mean`` (RGB).

    This is "pixels" in Table 1 as the authors' code computes it: not a share of changed labels, although the caption says so.
    Each value has the same weight, unlike in ``relative_difference``, a ratio of sums.
    """
    if a.shape != b.shape:
        raise UsageError(f"pictures of shapes {a.shape} and {b.shape} can't be compared; give equal shapes.")
    first, second = a - np.asarray(mean, np.float32), b - np.asarray(mean, np.float32)
    scale = (np.abs(first) + np.abs(second)) / 2
    ratio = np.divide(np.abs(first - second), scale, out=np.zeros_like(scale), where=scale > 0)
    return float(ratio.mean(dtype=np.float64))


def spread(values: Iterable[float | None]) -> Spread:
    """Return the mean and population deviation of the values that are not None."""
    found = [value for value in values if value is not None]
    if not found:
        return Spread(None, None)
    return Spread(float(np.mean(found)), float(np.std(found)) if len(found) > 1 else None)


def draw_velocity(found: Velocity, path: str | os.PathLike[str]) -> None:
    """Plot the change of each depth over the shots with the least and the most motion: the figure of the paper's section 3."""
    ordered = found.by_motion()
    ends = [("least motion: ", ordered[0]), ("most motion: ", ordered[-1])] if len(ordered) > 1 else [("", ordered[0])]
    with figure(path, size=(HALF, 0.6 + 1.9 * len(ends))) as drawn:
        panels = drawn.subplots(len(ends), 1, sharey=True, squeeze=False)[:, 0]
        for (motion, shot), panel in zip(ends, panels, strict=True):
            for place, (name, changes) in enumerate(zip(found.names[:-1], shot.series)):
                look = dashed(place - 1) if place else {"color": MUTED, "linestyle": (0, (1, 1))}
                # The first frame has none before it.
                panel.plot(shot.indices[1:], changes[1:], label=short(name, 20), linewidth=1.3, **look)
            panel.set(title=short(f"{motion}{shot.name}", 50), ylabel="change")
            panel.set_ylim(bottom=0)
            panel.set_xmargin(0.01)
            panel.grid(axis="y")
        panels[-1].set_xlabel("frame")
        drawn.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)


PROTOCOL = """\
Each frame of each video against the previous one: the share of cells whose label differs, in each stage's scores as a clock
sees them and in the output; for pixels the mean relative difference after the mean colour is subtracted (not a share of
labels, although the paper's caption says so). Mean over frames, then mean and deviation over videos. Accuracy:
mean IU of the networks that end after the first and second stage, and in the last row of the whole network, like the paper's
65.5. Depth: position among FCN-8s' convolutions, poolings and fc layers, from 0."""

COLUMNS = ("source", "what", "depth", "temporal difference", "mean IU")
PAPER = (
    ("paper", "pixels", "0", "0.26 +- 0.18", "-"),
    ("paper", "pool3", "9", "0.11 +- 0.06", "9.6"),
    ("paper", "pool4", "13", "0.11 +- 0.06", "20.7"),
    ("paper", "fc7", "19", "0.02 +- 0.02", "65.5"),
)


def run_velocity(setting: Setting) -> Report:
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
