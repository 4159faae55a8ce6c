"""Trains heads for clocks: score maps for the stages of a network that has none on the way to its output.

SegFormer, U-Net and most other networks give class scores at their end only, and the adaptive clock watches how the labels
of an earlier score map change (paper, section 4.3). A head is a 1x1 convolution on a stage's features, fitted by logistic
regression to the labels that the network itself gives to the pixels below: no human labels are needed, any video will do.
The network runs once over the frames, in the engine it will run in; nothing in it is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from clockseg.clocks.maps import labels
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import frame_oracle
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
from clockseg.networks.framing import Framing, OwnSize
from clockseg.networks.load import WorkingSize, assemble, read
from clockseg.networks.load import framing as framing_of
from clockseg.training import Trained
from clockseg.training.frames import Part, Plan, Warn, plan
from clockseg.training.head_cells import Cells, Grid, draw, per_frame
from clockseg.training.logistic import Fit, fit
from clockseg.types import Size

FRAMES = 240


def train_heads(
    network: str | Path,
    clips: Sequence[Clip],
    out: Path,
    *,
    stages: Sequence[str] = (),
    validation: Sequence[Clip] = (),
    frames: int = FRAMES,
    seed: int = 0,
    progress: Callable[[str, int, int], None] = lambda what, done, of: None,
    warn: Warn = lambda sentence: None,
    size: WorkingSize | None = None,
    **options: Any,
) -> Trained:
    """Write ``out`` (NAME.onnx) and its sidecar: ``network`` with a head at each of ``stages``, learned from ``clips``.

    ``stages``: names; default all but the last that have no scores. ``frames``: to learn from, spread evenly over the clips;
    the last fifth of each clip, or the clips of ``validation``, tell how good the heads are. ``seed``: which cells of
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
    plans = plan(clips, validation, frames=frames, warn=warn)
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
            f"network {said.name!r} has no classes in its sidecar, so no labels for a head to learn; "
            'clock it by difference(threshold, of="features") or of="pixels".'
        )
    names = said.stage_names[:-1]
    if not names:
        raise UsageError(f"network {said.name!r} has one stage, which no clock can watch; cut it into more.")
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
            raise NetworkError(f"cut {own!r} is no tensor of this network. {nearest(own, static.types)}")
        found.append(feature_map(model, static, own, size=size, stage=names[index]))
    return found


def _gather(
    net: StagedNetwork,
    framing: Framing | OwnSize,
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
    schedule, pictures = frame_oracle(len(net)), (image for part in plans.learn for image in part.images(warn))
    for done, image in enumerate(pictures, start=1):
        output, memory = fill(net, schedule, image)
        for each, at in zip(found, chosen, strict=True):
            features = net.stages[at].scores(memory.stages[at].held.value)[0]  # type: ignore[misc]
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
    framing: Framing | OwnSize,
    chosen: Sequence[int],
    parts: Sequence[Part],
    *,
    classes: int,
    warn: Warn,
    progress: Callable[[str, int, int], None],
) -> list[Confusion]:
    """Return the agreement of each head's labels with the output's at the cells' centres, on held-out frames."""
    found = [Confusion.none(classes) for _ in chosen]
    pictures, total = (image for part in parts for image in part.images(warn)), sum(len(part.places) for part in parts)
    for done, image in enumerate(pictures, start=1):
        output, memory = fill(net, frame_oracle(len(net)), image)
        for place, at in enumerate(chosen):
            given = labels(net.stages[at].scores(memory.stages[at].held.value))[0]  # type: ignore[misc]
            grid = Grid.of(given.shape, framing, output.shape[1::-1])
            rows, columns = grid.shape
            found[place] += confusion(grid.centres(output), given[:rows, :columns], classes)
        progress("scoring", done, total)
    return found


def check_unchanged(
    before: tuple[onnx.ModelProto, sidecar.Sidecar], after: tuple[onnx.ModelProto, sidecar.Sidecar], size: Size
) -> None:
    """Raise ``NetworkError`` unless the graph from the frame to the output is the same, weights included, at this size."""
    old, new = (assemble(*one, engine=None).whole for one in (before, after))
    if not isinstance(old, GraphPart) or not isinstance(new, GraphPart) or old.build(size) != new.build(size):
        raise NetworkError(
            "the network in the file is no longer the same graph; this is a fault, and nothing was written."
        )
