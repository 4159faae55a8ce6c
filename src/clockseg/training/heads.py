"""Trains heads for clocks: score maps for the stages of a network that has none on the way to its output.

SegFormer, U-Net and most other networks give class scores at their end only, and the adaptive clock watches how the labels
of an earlier score map change (paper, section 4.3). A head is a 1x1 convolution on a stage's features, fitted by logistic
regression to the labels that the network itself gives to the pixels below: no human labels are needed, any video will do.
The network runs once over the frames, in the engine it will run in; nothing in it is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx

from clockseg.clocks.maps import labels
from clockseg.clocks.rates import frame_oracle
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.step import fill
from clockseg.datasets.clips import Clip
from clockseg.errors import DataError, NetworkError, UsageError, nearest
from clockseg.evaluation.metrics import Confusion, confusion, finite
from clockseg.graph import sidecar
from clockseg.graph.correction import network_alone, with_addition
from clockseg.graph.heads import FeatureMap, Head, feature_map, score_name, with_heads, with_maps
from clockseg.graph.onnx_reader import write_network
from clockseg.graph.part import GraphPart
from clockseg.graph.static import fix
from clockseg.networks.framing import Framing
from clockseg.networks.load import WorkingSize, assemble, read
from clockseg.networks.load import framing as framing_of
from clockseg.training import Trained
from clockseg.training.frames import Part, Plan, Warn, plan
from clockseg.training.logistic import Fit, fit
from clockseg.types import Array, Labels, Size


def train_heads(
    network: str | Path,
    clips: Sequence[Clip],
    out: Path,
    *,
    stages: Sequence[str] = (),
    frames: int = 240,
    seed: int = 0,
    progress: Callable[[str, int, int], None] = lambda what, done, of: None,
    warn: Warn = lambda sentence: None,
    size: WorkingSize | None = None,
    **options: Any,
) -> Trained:
    """Write ``out`` (NAME.onnx) and its sidecar: ``network`` with a head at each of ``stages``, learned from ``clips``.

    ``stages``: names; default all but the last that have no scores. ``frames``: to learn from, spread evenly over the clips;
    the last fifth of each clip tells how good the heads are. ``seed``: which cells of
    the maps are looked at. ``size`` and ``options``: engine, precision and threads, as of ``load``. Files under ``out`` are
    replaced. ``UsageError`` for a network without classes or with nothing to do, ``NetworkError`` for a stage without a map.

    The network's output stays as it was: the graph that leads to it is checked to be the same, byte for byte.
    """
    model, whole_said = read(network)
    model, correction = network_alone(model, whole_said)
    said = replace(whole_said, correction=None)
    chosen = _chosen(said, stages)
    framing = framing_of(model, said, size=size)
    working = framing.padded((said.input.width, said.input.height))
    maps = _maps(model, said, chosen, working)
    watched = said.with_scores(dict(zip(chosen, (one.tensor for one in maps), strict=True)))
    net = assemble(with_maps(model, maps), watched, size=size, **options)
    plans = plan(clips, frames=frames, warn=warn)
    random, count = np.random.default_rng(seed), len(said.classes)
    cells = _gather(net, framing, chosen, plans, classes=count, random=random, progress=progress, warn=warn)
    fits = [fit(each.features, each.shares, each.weights()) for each in cells]
    made = with_heads(model, [Head(one, found.weight, found.bias) for one, found in zip(maps, fits, strict=True)])
    names = {at: score_name(one.stage) for at, one in zip(chosen, maps, strict=True)}
    named = replace(said, name=out.stem).with_scores(names)
    check_unchanged((model, said), (made, named), working)
    if correction is not None:
        made, named = with_addition(made, correction), replace(named, correction=whole_said.correction)
    write_network(made, named, out)
    net = assemble(made, named, size=size, **options)
    scores = _agreement(net, framing, chosen, plans.held_out, classes=count, warn=warn, progress=progress)
    facts = {
        "network": str(out),
        "engine": net.engine,
        "frames": plans.frames,
        "held_out": sum(len(part.places) for part in plans.held_out),
        "heads": [_facts(*each, said.classes) for each in zip(maps, cells, fits, scores, strict=True)],
    }
    return Trained(out, facts)


def _facts(one: FeatureMap, cells: Cells, found: Fit, score: Confusion, classes: Sequence[str]) -> dict[str, Any]:
    """Return plain values on one head; ``absent``: classes that no cell it learned from showed."""
    seen = cells.shares.max(axis=0) > 0
    return {
        "stage": one.stage,
        "features": one.cut,
        "scores": score_name(one.stage),
        "channels": one.channels,
        "cells": len(cells.features),
        "loss": found.loss,
        "absent": [name for name, there in zip(classes, seen.tolist(), strict=True) if not there],
        "agreement": {"mean_iu": finite(score.mean_iu_of()), "pixel_acc": finite(score.pixel_acc)},
    }


def _chosen(said: sidecar.Sidecar, stages: Sequence[str]) -> list[int]:
    """Return the stages that get a head (0 is the first); ``UsageError`` if there are none."""
    if not said.classes:
        raise UsageError(
            f"network {said.name!r} has no classes in its sidecar, so there are no labels to train a head on; "
            'use difference(threshold, of="features") or of="pixels".'
        )
    names = said.stage_names[:-1]
    if not names:
        raise UsageError(f"network {said.name!r} has one stage, which no clock can watch; cut it into more stages.")
    if unknown := [name for name in stages if name not in names]:
        raise UsageError(
            f"there is no stage {unknown[0]!r} that a clock could watch; all but the last one can be. "
            f"{nearest(unknown[0], names)}"
        )
    scores = [*said.scores, *[None] * len(said.cuts)]
    bare = [index for index, name in enumerate(names) if scores[index] is None and (not stages or name in stages)]
    if len(bare) < len(set(stages)) or not bare:
        there = ", ".join(name for index, name in enumerate(names) if scores[index] is not None)
        raise UsageError(
            f"network {said.name!r} has class scores at {there or 'no stage'} already, "
            "and nothing is left to train: its clocks can watch them as they are."
        )
    return bare


def _maps(model: onnx.ModelProto, said: sidecar.Sidecar, chosen: Sequence[int], size: Size) -> list[FeatureMap]:
    """Return the feature map of each stage: of a cut of several tensors, the first that no earlier cut has."""
    static = fix(model, {said.input.name: (1, 3, size[1], size[0])})
    names, found = said.stage_names, []
    for index in chosen:
        earlier = {name for cut in said.cuts[:index] for name in cut}
        own = next((name for name in said.cuts[index] if name not in earlier), said.cuts[index][0])
        if own not in static.types:
            raise NetworkError(f"cut {own!r} is not a tensor of this network. {nearest(own, static.types)}")
        found.append(feature_map(model, static, own, stage=names[index]))
    return found


def _gather(
    net: StagedNetwork,
    framing: Framing,
    chosen: Sequence[int],
    plans: Plan,
    *,
    classes: int,
    random: np.random.Generator,
    progress: Callable[[str, int, int], None],
    warn: Warn,
) -> list[Cells]:
    """Return cells of each stage from one pass over the frames; ``net`` gives the feature maps in place of scores."""
    found: list[list[Cells]] = [[] for _ in chosen]
    for done, (output, maps) in enumerate(_passes(net, chosen, plans.learn, warn), start=1):
        for each, [features] in zip(found, maps, strict=True):
            grid = Grid.of(features.shape[1:], framing, output.shape[1::-1])
            count = per_frame(len(features), plans.frames)
            each.append(draw(features, output, grid, count=count, classes=classes, random=random))
        progress("learning", done, plans.frames)
    whole = [Cells(*(np.concatenate(parts) for parts in zip(*each, strict=True))) for each in found if each]
    if len(whole) < len(chosen) or not all(len(each.features) for each in whole):
        raise DataError("no frame to learn from could be decoded, or the network gives none of its classes on them.")
    return whole


def _agreement(
    net: StagedNetwork,
    framing: Framing,
    chosen: Sequence[int],
    parts: Sequence[Part],
    *,
    classes: int,
    warn: Warn,
    progress: Callable[[str, int, int], None],
) -> list[Confusion]:
    """Return the agreement of each head's labels with the output's at the cells' centres, on held-out frames."""
    found = [Confusion.none(classes) for _ in chosen]
    total = sum(len(part.places) for part in parts)
    for done, (output, maps) in enumerate(_passes(net, chosen, parts, warn), start=1):
        for place, [given] in enumerate(map(labels, maps)):
            grid = Grid.of(given.shape, framing, output.shape[1::-1])
            rows, columns = grid.shape
            found[place] += confusion(grid.centres(output), given[:rows, :columns], classes)
        progress("scoring", done, total)
    return found


def _passes(
    net: StagedNetwork, chosen: Sequence[int], parts: Sequence[Part], warn: Warn
) -> Iterator[tuple[Labels, list[Array]]]:
    """Yield the output and the maps of the chosen stages, [1, ..], for each picture of ``parts``."""
    schedule = frame_oracle(len(net))
    for image in (image for part in parts for image in part.images(warn)):
        output, memory = fill(net, schedule, image)
        yield output, [net.stages[at].scores(memory.stages[at].held.value) for at in chosen]  # type: ignore[misc]


def check_unchanged(
    before: tuple[onnx.ModelProto, sidecar.Sidecar], after: tuple[onnx.ModelProto, sidecar.Sidecar], size: Size
) -> None:
    """Raise ``NetworkError`` unless the graph from the frame to the output is the same, weights included, at this size."""
    old, new = (assemble(*one, engine=None).whole for one in (before, after))
    if not isinstance(old, GraphPart) or not isinstance(new, GraphPart) or old.build(size) != new.build(size):
        raise NetworkError(
            "the network in the file is no longer the same graph; this is a fault, and nothing was written."
        )


MOST_CELLS = 30_000
MOST_NUMBERS = 32_000_000
"""Limit of the numbers kept per stage, 128 MB; with more than a thousand channels there are fewer cells."""
_FINEST = 8
"""Side of the grid on which a cell's pixels are sampled, at most."""


@dataclass(frozen=True)
class Grid:
    """The cells of a map [h, w] in a frame of ``frame`` (WIDTH, HEIGHT), without those in the padding.

    ``spans``: per axis (down, across) a cell's side in the frame's pixels; ``shape``: rows and columns not in the padding.
    """

    shape: tuple[int, int]
    spans: tuple[float, float]
    frame: Size

    @classmethod
    def of(cls, cells: tuple[int, int], framing: Framing, frame: Size) -> Grid:
        """Return the grid of a map of ``cells`` rows and columns."""
        scaled, padded = framing.scaled(frame), framing.padded(frame)
        rows, columns = (_inside(cells[axis], padded[1 - axis], scaled[1 - axis]) for axis in (0, 1))
        down, across = (padded[1 - axis] / cells[axis] * frame[1 - axis] / scaled[1 - axis] for axis in (0, 1))
        return cls((rows, columns), (down, across), frame)

    def centres(self, labels: Labels) -> Labels:
        """Return the labels [rows, columns] at the cells' centres; ``labels``: at the frame's size."""
        rows, columns = (self._pixels(axis, np.arange(self.shape[axis]) + 0.5) for axis in (0, 1))
        return labels[rows[:, None], columns]

    def shares(self, labels: Labels, cells: Array, classes: int) -> Array:
        """Return the share of each class among the pixels of ``cells`` (row * columns + column), float32 [n, classes]."""
        fine = [max(1, min(_FINEST, round(span))) for span in self.spans]
        places = [(np.arange(each) + 0.5) / each for each in fine]
        row, column = np.divmod(cells, self.shape[1])
        rows = self._pixels(0, row[:, None] + places[0])
        columns = self._pixels(1, column[:, None] + places[1])
        seen = labels[rows[:, :, None], columns[:, None, :]].reshape(len(cells), -1).astype(np.int64)
        found = np.zeros((len(cells), classes + 1), np.float32)
        # Pixels without a class (255) are counted in a further column, which is dropped.
        np.add.at(found, (np.arange(len(cells))[:, None], np.minimum(seen, classes)), 1)
        found = found[:, :classes]
        total = found.sum(axis=1, keepdims=True)
        return np.asarray(found / np.maximum(total, 1))

    def _pixels(self, axis: int, places: Array) -> Array:
        return np.minimum((places * self.spans[axis]).astype(np.int64), self.frame[1 - axis] - 1)


def _inside(cells: int, padded: int, scaled: int) -> int:
    """Return the number of cells with their centre in the picture: at least one."""
    return max(1, int(np.count_nonzero((np.arange(cells) + 0.5) * padded / cells < scaled)))


class Cells(NamedTuple):
    """Cells of one stage: features [n, channels], and the shares of classes that the network gives them, [n, classes]."""

    features: Array
    shares: Array

    def weights(self) -> Array:
        """Return each cell's weight: classes count by their share to the power -1/2, which raises rare ones moderately."""
        share = self.shares.mean(axis=0, dtype=np.float64)
        return self.shares @ np.where(share > 0, 1 / np.sqrt(np.maximum(share, 1e-6)), 0.0)


def per_frame(channels: int, frames: int) -> int:
    """Return the number of cells to keep from each of ``frames`` frames."""
    return max(1, min(MOST_CELLS, MOST_NUMBERS // channels) // max(1, frames))


def draw(
    features: Array, labels: Labels, grid: Grid, *, count: int, classes: int, random: np.random.Generator
) -> Cells:
    """Draw up to ``count`` cells of one frame; ``features``: [channels, h, w], ``labels``: at the frame's size."""
    total = grid.shape[0] * grid.shape[1]
    cells = random.choice(total, min(count, total), replace=False, shuffle=False)
    row, column = np.divmod(cells, grid.shape[1])
    shares = grid.shares(labels, cells, classes)
    known = shares.sum(axis=1) > 0
    return Cells(features[:, row, column].T[known].astype(np.float32), shares[known])
