"""Feature velocity: how fast each depth of a network changes over a video (paper, section 3 and Table 1).

A frame is compared with the one before it: the pictures by their relative difference, the label maps of every stage's
scores (whole, as clocks see them) and of the output by the share of places that changed, and what people annotated
likewise, the last annotation held between two. A shot's velocity is the mean over its frames, of which the authors'
code compares the first with itself, a zero; a network's is the mean over shots.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clockseg.clocks.maps import change, labels
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import frame_oracle
from clockseg.clockwork.step import fill
from clockseg.datasets.clips import Clip, ClipFrame
from clockseg.errors import UsageError
from clockseg.paper.fcn_checkpoint import MEAN as BGR_MEAN
from clockseg.types import Array, Image, Labels

MEAN = BGR_MEAN[::-1]
"""RGB of PASCAL VOC, which the paper's networks subtract from a picture and its pixel difference is made after."""


@dataclass(frozen=True, eq=False)
class Shot:
    """One clip: against the frame before, for each frame, float64 [frames]; 0 at the first, NaN where there is nothing.

    ``pixels``: ``pixel_difference``, 0..2. ``stages``: the change of each stage's label map, 0..1; ``output``: of the
    network's; ``labels``: of the annotation, NaN before the first. ``indices``: the frames' numbers in the clip.
    """

    name: str
    indices: tuple[int, ...]
    pixels: Array
    stages: tuple[Array, ...]
    output: Array
    labels: Array


class Spread(NamedTuple):
    """A mean over shots and the (population) deviation over them; None of no shots, no deviation of a single one."""

    mean: float | None
    deviation: float | None


@dataclass(frozen=True)
class Velocity:
    """The shots of one network, and what is told of them.

    ``first``: whether a shot's first frame, a zero, is in its mean, as in the authors' code. Shares and correlations
    leave it out always. ``depths`` and ``accuracies`` (0..1): of the stages, to be told beside them, or empty.
    """

    network: str
    stages: tuple[str, ...]
    shots: tuple[Shot, ...]
    first: bool = True
    depths: tuple[int, ...] = ()
    accuracies: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name, numbers in (("depths", self.depths), ("accuracies", self.accuracies)):
            if len(numbers) not in (0, len(self.stages)):
                raise UsageError(
                    f"{len(numbers)} {name} for network {self.network!r} of {len(self.stages)} stages; give one a stage."
                )

    def mean(self, series: Array) -> float | None:
        """The mean of one series of a shot over the frames for which there is something."""
        found = series[~np.isnan(series)][0 if self.first else 1 :]
        return float(found.mean()) if found.size else None

    def over_shots(self, series: Callable[[Shot], Array]) -> Spread:
        """The mean and the deviation of what ``series`` picks of each shot.

        >>> still = Shot("still", (0, 1), np.zeros(2), (), np.zeros(2), np.full(2, np.nan))
        >>> Velocity("none", (), (still, still)).over_shots(lambda shot: shot.pixels)
        Spread(mean=0.0, deviation=0.0)
        """
        return spread(self.mean(series(shot)) for shot in self.shots)

    @property
    def deepest(self) -> int | None:
        """The index of the last stage that has a score map; None if there is none."""
        scored = [
            index for index in range(len(self.stages)) if any(np.isfinite(s.stages[index]).any() for s in self.shots)
        ]
        return scored[-1] if scored else None

    def exceeds(self, stage: int) -> float | None:
        """The share of frames, without shots' first, on which a stage (0 is the first) changes more than the deepest."""
        deepest = self.deepest
        if deepest is None or deepest == stage:
            return None
        more = np.concatenate([(shot.stages[stage] > shot.stages[deepest])[1:] for shot in self.shots])
        return float(more.mean()) if more.size else None

    def correlation(self, stage: int, other: Callable[[Shot], Array]) -> Spread:
        """The rank correlation within shots of a stage's change with what ``other`` picks, over the shots that have one."""
        return spread(rank_correlation(shot.stages[stage][1:], other(shot)[1:]) for shot in self.shots)

    def by_motion(self) -> list[Shot]:
        """The shots from the least to the most motion, by their pixels."""
        return sorted(self.shots, key=lambda shot: self.mean(shot.pixels) or 0.0)

    def facts(self) -> dict[str, Any]:
        """Return plain values for ``clockseg velocity --json``; None where nothing was measured."""
        ordered = self.by_motion()
        return {
            "network": self.network,
            "first_frame": "compared with itself" if self.first else "left out",
            "pixels": self.over_shots(lambda shot: shot.pixels)._asdict(),
            "stages": [self._stage_facts(index) for index in range(len(self.stages))],
            "output": self.over_shots(lambda shot: shot.output)._asdict(),
            "labels": self.over_shots(lambda shot: shot.labels)._asdict(),
            "shots": [self._shot_facts(shot) for shot in self.shots],
            "curves": {"low_motion": _curve(ordered[0]), "high_motion": _curve(ordered[-1])} if ordered else {},
        }

    def _stage_facts(self, index: int) -> dict[str, Any]:
        deepest, with_deepest = self.deepest, Spread(None, None)
        if deepest is not None and deepest != index:
            with_deepest = self.correlation(index, lambda shot: shot.stages[deepest])
        return {
            "stage": self.stages[index],
            "depth": self.depths[index] if self.depths else None,
            "accuracy": self.accuracies[index] if self.accuracies else None,
            **self.over_shots(lambda shot: shot.stages[index])._asdict(),
            "exceeds_deepest": self.exceeds(index),
            "rank_correlation_deepest": with_deepest._asdict(),
            "rank_correlation_output": self.correlation(index, lambda shot: shot.output)._asdict(),
        }

    def _shot_facts(self, shot: Shot) -> dict[str, Any]:
        return {
            "shot": shot.name,
            "frames": len(shot.indices),
            "pixels": self.mean(shot.pixels),
            "stages": [self.mean(series) for series in shot.stages],
            "output": self.mean(shot.output),
            "labels": self.mean(shot.labels),
        }


def _curve(shot: Shot) -> dict[str, Any]:
    return {
        "shot": shot.name,
        "frames": list(shot.indices),
        "pixels": _plain(shot.pixels),
        "stages": [_plain(series) for series in shot.stages],
        "output": _plain(shot.output),
        "labels": _plain(shot.labels),
    }


def _plain(series: Array) -> list[float | None]:
    return [None if math.isnan(value) else value for value in series.tolist()]


def velocity(
    net: StagedNetwork, clips: Iterable[Clip], *, first: bool = True, warn: Callable[[str], None] = warnings.warn
) -> Velocity:
    """The velocity of ``net`` over clips (videos, clip folders), each a shot, every frame of which is run in full.

    ``warn`` is told what of a video could not be decoded.

    >>> from clockseg.clockwork.network import Stage
    >>> velocity(StagedNetwork("one", (Stage("a", np.asarray, scores=None),)), []).over_shots(lambda shot: shot.pixels)
    Spread(mean=None, deviation=None)
    """
    shots = tuple(_clip_shot(net, clip, warn) for clip in clips)
    return Velocity(net.name, tuple(stage.name for stage in net.stages), shots, first)


def _clip_shot(net: StagedNetwork, clip: Clip, warn: Callable[[str], None]) -> Shot:
    frames = clip.frames(problem=lambda text: warn(f"{clip.path}: {text}"))
    return shot(net, clip.name, frames, ignore=255 if clip.classes is None else clip.classes.ignore)


class _Seen(NamedTuple):
    """The maps of a frame that are compared."""

    image: Image
    stages: tuple[Labels | None, ...]
    output: Labels | None
    labels: Labels | None


def shot(net: StagedNetwork, name: str, frames: Iterable[ClipFrame], *, ignore: int = 255) -> Shot:
    """One clip, each of whose frames is run in full; places whose annotation is ``ignore`` in either frame are left out.

    A frame of another size than the one before is compared with itself, as the first is.

    >>> from clockseg.clockwork.network import Stage
    >>> net = StagedNetwork("one", (Stage("a", lambda image: image[None, None, :, :, 0]),))
    >>> images = [np.full((2, 2, 3), level, np.uint8) for level in (7, 7, 9)]
    >>> shot(net, "flash", [ClipFrame(t, image, None) for t, image in enumerate(images)]).stages[0].tolist()
    [0.0, 0.0, 1.0]
    """
    schedule, rows, indices, before = frame_oracle(len(net)), [], [], None
    for frame in frames:
        output, memory = fill(net, schedule, frame.image)
        maps = tuple(
            None if stage.scores is None else labels(stage.scores(kept.held.value))
            for stage, kept in zip(net.stages, memory.stages, strict=True)
        )
        held = before.labels if before is not None and frame.labels is None else frame.labels
        now = _Seen(frame.image.copy(), maps, _label_map(output), held)
        same_size = before is not None and before.image.shape == now.image.shape
        rows.append(_compared(now, before if before is not None and same_size else now, ignore))
        indices.append(frame.index)
        before = now
    columns = np.array(rows, np.float64).reshape(len(rows), len(net) + 3).T
    return Shot(name, tuple(indices), columns[0], tuple(columns[1:-2]), columns[-2], columns[-1])


def _label_map(output: Any) -> Labels | None:
    """The output, if it is a label map; depth and other outputs are not compared."""
    found = np.asarray(output)
    return found if found.dtype.kind in "ui" else None


def _compared(now: _Seen, before: _Seen, ignore: int) -> list[float]:
    stages = [_change(a, b) for a, b in zip(now.stages, before.stages, strict=True)]
    annotated = _change(now.labels, before.labels if before.labels is not None else now.labels, ignore)
    return [pixel_difference(now.image, before.image), *stages, _change(now.output, before.output), annotated]


def _change(now: Labels | None, before: Labels | None, ignore: int | None = None) -> float:
    if now is None or before is None:
        return math.nan
    if ignore is None:
        return change(now, before)
    told = (now != ignore) & (before != ignore)
    return change(now[told], before[told]) if told.any() else math.nan


def pixel_difference(a: Image, b: Image, *, mean: tuple[float, float, float] = MEAN) -> float:
    """The mean over all values of |a - b| / ((|a| + |b|) / 2) of two pictures less ``mean`` (RGB), 0..2.

    As the authors' code has it ("pixels" in Table 1): no share of changed labels, whatever the caption says. Each value
    counts alike, which differs from ``relative_difference``, a ratio of sums.

    >>> pixel_difference(np.full((1, 1, 3), 3, np.uint8), np.full((1, 1, 3), 1, np.uint8), mean=(0, 0, 0))
    1.0
    """
    if a.shape != b.shape:
        raise UsageError(f"pictures of shapes {a.shape} and {b.shape} can't be compared; give equal shapes.")
    first, second = a - np.asarray(mean, np.float32), b - np.asarray(mean, np.float32)
    scale = (np.abs(first) + np.abs(second)) / 2
    ratio = np.divide(np.abs(first - second), scale, out=np.zeros_like(scale), where=scale > 0)
    return float(ratio.mean(dtype=np.float64))


def spread(values: Iterable[float | None]) -> Spread:
    """The mean and population deviation of the numbers there are.

    >>> spread([1.0, 3.0, None])
    Spread(mean=2.0, deviation=1.0)
    """
    found = [value for value in values if value is not None]
    if not found:
        return Spread(None, None)
    return Spread(float(np.mean(found)), float(np.std(found)) if len(found) > 1 else None)


def rank_correlation(a: Sequence[float] | Array, b: Sequence[float] | Array) -> float | None:
    """Spearman's rank correlation of two series, -1..1, ties given their mean rank; None if either is constant.

    >>> rank_correlation([1, 2, 3, 4], [10, 20, 40, 30])
    0.8
    """
    first, second = _ranks(np.asarray(a)), _ranks(np.asarray(b))
    if first.size < 2 or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return None
    first, second = first - first.mean(), second - second.mean()
    scale = math.sqrt(float((first**2).sum() * (second**2).sum()))
    return round(float((first * second).sum()) / scale, 12) if scale else None


def _ranks(values: Array) -> Array:
    """The place of each value in order, from 1; equal values share the mean of theirs."""
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[where]
