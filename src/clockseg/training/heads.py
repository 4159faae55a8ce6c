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
from typing import Any, TypeAlias

import numpy as np
import onnx

from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import frame_oracle
from clockseg.clockwork.step import fill
from clockseg.datasets.clips import Clip
from clockseg.errors import DataError, NetworkError, UsageError, nearest
from clockseg.graph import sidecar
from clockseg.graph.correction import network_alone, with_addition
from clockseg.graph.heads import FeatureMap, Head, feature_map, score_name, with_heads, with_maps
from clockseg.graph.onnx_reader import write_network
from clockseg.graph.part import GraphPart
from clockseg.graph.static import fix
from clockseg.networks.framing import Framing, OwnSize
from clockseg.networks.load import Engine, WorkingSize, assemble, read
from clockseg.networks.load import framing as framing_of
from clockseg.training.frames import Plan, plan
from clockseg.training.head_cells import Cells, Grid, draw, per_frame
from clockseg.training.head_scores import HeadScore, score_heads
from clockseg.training.logistic import Fit, fit
from clockseg.types import Size

FRAMES = 240
Say: TypeAlias = Callable[[str, int, int], None]
"""Told of progress: what is being done, how many frames of it, of about how many."""


@dataclass(frozen=True)
class TrainedHead:
    """One head: the tensor it reads, what its score map is called, and what it learnt from; ``score``: on other frames."""

    stage: str
    features: str
    scores: str
    channels: int
    cells: int
    loss: float
    absent: tuple[str, ...]
    score: HeadScore

    def facts(self) -> dict[str, Any]:
        """Plain values, for ``json.dumps``; ``absent``: classes that no cell it learnt from showed."""
        told = {name: getattr(self, name) for name in ("stage", "features", "scores", "channels", "cells", "loss")}
        return {**told, "absent": list(self.absent), **self.score.facts()}


@dataclass(frozen=True)
class TrainedHeads:
    """The file that was written, its heads in the order of the stages, and on how many frames."""

    path: Path
    engine: str
    frames: int
    held_out: int
    heads: tuple[TrainedHead, ...]

    def facts(self) -> dict[str, Any]:
        """Plain values, for ``json.dumps``."""
        heads = [head.facts() for head in self.heads]
        return {"network": str(self.path), "engine": self.engine, "frames": self.frames, "held_out": self.held_out} | {
            "heads": heads
        }


def train_heads(
    network: str | Path,
    clips: Sequence[Clip],
    out: Path,
    *,
    stages: Sequence[str] = (),
    validation: Sequence[Clip] = (),
    frames: int = FRAMES,
    seed: int = 0,
    engine: str | Engine = "auto",
    precision: str = "f32",
    threads: int | None = None,
    size: WorkingSize | None = None,
    say: Say = lambda what, done, of: None,
    warn: Callable[[str], None] = lambda sentence: None,
) -> TrainedHeads:
    """Write ``out`` (NAME.onnx) and its sidecar: ``network`` with a head at each of ``stages``, learnt from ``clips``.

    ``stages``: names; default all but the last that have no scores. ``frames``: to learn from, spread evenly over the clips;
    the last fifth of each clip, or the clips of ``validation``, tell how good the heads are. ``seed``: which cells of
    the maps are looked at. ``engine`` to ``size``: as of ``load``. What there is under ``out`` is replaced.
    ``UsageError`` for a network without classes or with nothing to do, ``NetworkError`` for a stage without a map.

    The network's output stays as it was: the graph that leads to it is checked to be the same, byte for byte.
    """
    model, whole_said = read(network)
    model, correction = network_alone(model, whole_said)
    said = replace(whole_said, correction=None)
    chosen = _chosen(said, stages)
    framing = framing_of(model, said, size=size)
    working = framing.padded((said.input.width, said.input.height))
    maps = _maps(model, said, chosen, working)
    options: dict[str, Any] = {"engine": engine, "precision": precision, "threads": threads, "size": size}
    watched = dict(zip(chosen, (one.tensor for one in maps), strict=True))
    net = assemble(with_maps(model, maps), _scored(said, watched), **options)
    plans = plan(clips, validation, frames=frames, warn=warn)
    cells = _gather(net, framing, chosen, plans, len(said.classes), np.random.default_rng(seed), say, warn)
    fits = [fit(each.features, each.shares, each.weights()) for each in cells]
    heads = [Head(one, found.weight, found.bias) for one, found in zip(maps, fits, strict=True)]
    made = with_heads(model, heads)
    named = _scored(
        replace(said, name=out.stem), {at: score_name(one.stage) for at, one in zip(chosen, maps, strict=True)}
    )
    _check_unchanged((model, said), (made, named), working)
    if correction is not None:
        made, named = with_addition(made, correction), replace(named, correction=whole_said.correction)
    write_network(made, named, out)
    net = assemble(made, named, **options)
    scores = _score(net, framing, chosen, plans, len(said.classes), say, warn)
    told = [_told(*each, said) for each in zip(maps, cells, fits, scores, strict=True)]
    return TrainedHeads(out, net.engine, plans.frames, sum(len(part.places) for part in plans.held_out), tuple(told))


def _names(said: sidecar.Sidecar) -> tuple[str, ...]:
    return said.stages or tuple(f"stage{index + 1}" for index in range(len(said.cuts)))


def _chosen(said: sidecar.Sidecar, stages: Sequence[str]) -> list[int]:
    """The stages that get a head, by number (0 is the first)."""
    if not said.classes:
        raise UsageError(
            f"network {said.name!r} has no classes in its sidecar, so no labels that a head could learn; "
            'clock it by difference(threshold, of="features") or of="pixels".'
        )
    names = _names(said)[:-1]
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
    """The feature map of each stage: of a cut of several tensors, the first that no earlier cut has."""
    static = fix(model, {said.input.name: (1, 3, size[1], size[0])})
    names, found = _names(said), []
    for index in chosen:
        earlier = {name for cut in said.cuts[:index] for name in cut}
        own = next((name for name in said.cuts[index] if name not in earlier), said.cuts[index][0])
        if own not in static.types:
            raise NetworkError(f"cut {own!r} is no tensor of this network. {nearest(own, static.types)}")
        found.append(feature_map(model, static, own, size=size, stage=names[index]))
    return found


def _scored(said: sidecar.Sidecar, scores: dict[int, str]) -> sidecar.Sidecar:
    """``said`` with these score maps (stage's number -> tensor) beside those it has."""
    have = [*said.scores, *[None] * (len(said.cuts) - len(said.scores))]
    return replace(said, scores=tuple(scores.get(index, name) for index, name in enumerate(have)))


def _gather(
    net: StagedNetwork,
    framing: Framing | OwnSize,
    chosen: Sequence[int],
    plans: Plan,
    classes: int,
    random: np.random.Generator,
    say: Say,
    warn: Callable[[str], None],
) -> list[Cells]:
    """Cells of each stage, from one pass over the frames; ``net`` gives the feature maps in place of scores."""
    found: list[list[Cells]] = [[] for _ in chosen]
    for done, (output, maps) in enumerate(_run(net, chosen, plans, warn), start=1):
        frame = (output.shape[1], output.shape[0])
        for each, features in zip(found, maps, strict=True):
            grid = Grid.of(features.shape[1:], framing, frame)
            count = per_frame(len(features), plans.frames)
            each.append(draw(features, output, grid, count=count, classes=classes, random=random))
        say("learning", done, plans.frames)
    whole = [Cells(*(np.concatenate(parts) for parts in zip(*each, strict=True))) for each in found if each]
    if len(whole) < len(chosen) or not all(len(each.features) for each in whole):
        raise DataError("no frame to learn from could be decoded, or the network gives none of its classes on them.")
    return whole


def _run(net: StagedNetwork, chosen: Sequence[int], plans: Plan, warn: Callable[[str], None]) -> Iterator[Any]:
    schedule = frame_oracle(len(net))
    for part in plans.learn:
        for image in part.images(warn):
            output, memory = fill(net, schedule, image)
            yield output, [net.stages[at].scores(memory.stages[at].held.value)[0] for at in chosen]  # type: ignore[misc]


def _check_unchanged(
    before: tuple[onnx.ModelProto, sidecar.Sidecar], after: tuple[onnx.ModelProto, sidecar.Sidecar], size: Size
) -> None:
    """The graph from the frame to the output is the same, weights and all, so that every engine gives the same bits."""
    old, new = (assemble(*one, engine=None).whole for one in (before, after))
    if not isinstance(old, GraphPart) or not isinstance(new, GraphPart) or old.build(size) != new.build(size):
        raise NetworkError(
            "the graph with heads isn't the network's any more; this is a fault, and nothing was written."
        )


def _score(
    net: StagedNetwork,
    framing: Framing | OwnSize,
    chosen: Sequence[int],
    plans: Plan,
    classes: int,
    say: Say,
    warn: Callable[[str], None],
) -> tuple[HeadScore, ...]:
    total, done = sum(len(part.places) for part in plans.held_out), iter(range(1, 1 << 30))
    return score_heads(
        net,
        framing,
        chosen,
        plans.held_out,
        classes=classes,
        warn=warn,
        done=lambda: say("scoring", next(done), total),
    )


def _told(one: FeatureMap, cells: Cells, found: Fit, score: HeadScore, said: sidecar.Sidecar) -> TrainedHead:
    there = cells.shares.max(axis=0) > 0
    absent = tuple(name for name, seen in zip(said.classes, there.tolist(), strict=True) if not seen)
    return TrainedHead(
        one.stage, one.cut, score_name(one.stage), one.channels, len(cells.features), found.loss, absent, score
    )
