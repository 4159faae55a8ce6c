"""Trains a correction for stale scores: on most frames no stage runs, and propagated scores of an earlier frame are shown.

The network's own scores for every frame teach a small fusion to correct the propagated scores from the motion residual and
the picture. Human labels are not used, and the network is not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from clockseg.carry import Flow
from clockseg.clockwork.network import StagedNetwork
from clockseg.datasets.clips import Clip
from clockseg.errors import NetworkError, UsageError
from clockseg.evaluation.metrics import Confusion, confusion, finite
from clockseg.graph.correction import network_alone
from clockseg.graph.onnx_reader import write_network
from clockseg.graph.part import LABELS, GraphPart
from clockseg.graph.sidecar import Input
from clockseg.graph.staged import input_size
from clockseg.networks.load import assemble, read
from clockseg.types import Array
from recipes.fitting import Log, Recipe, check_resumed, fit, log_to
from recipes.street.correction.fusion import STEM_STRIDE, Fusion, Shape, corrected
from recipes.street.correction.samples import Sample, Samples, Target, gather
from recipes.street.correction.teacher import Teacher, teacher

RECIPE = Recipe(steps=2400, batch=4)
LIKE = 0.99
"""Share of labels in which the written file must agree with the trained fusion."""
AGES = ((1, 1), (2, 4), (5, 8), (9, 12))
"""Ages of scores, in frames, that are scored together."""
WRONG = 2.0
"""Extra weight of places where the propagated scores name another class than the network's own."""


@dataclass(frozen=True)
class Choices:
    """Options of the training. ``samples``: about how many to learn from; ``hold_out``: clips to score on only; ``minutes``: a
    time limit; ``flow``: the flow of the carry."""

    samples: int = 1000
    hold_out: tuple[str, ...] = ()
    seed: int = 0
    minutes: float | None = None
    resume: bool = False
    flow: Flow = field(default_factory=Flow)
    recipe: Recipe = RECIPE


@dataclass(frozen=True)
class Trained:
    """The file that a training wrote, and ``facts`` about it: plain values, for ``json.dumps``."""

    path: Path
    facts: dict[str, Any]


def train_correction(
    network: str | Path,
    clips: Sequence[Clip],
    out: Path,
    *,
    choices: Choices = Choices(),
    name: str | None = None,
    say: Log = lambda entry: None,
    progress: Callable[[str, int, int], None] = lambda what, done, of: None,
    warn: Callable[[str], None] = lambda sentence: None,
    **options: Any,
) -> Trained:
    """Write ``out``/NAME.onnx and its sidecar: ``network`` with a correction learned from ``clips``.

    ``name``: default the network's with -stale behind it. The frames of a clip must be consecutive. ``out`` also gets
    log.jsonl, and state.pt to resume from. ``options``: engine, precision, threads and size, as of ``load``. A correction that
    the network already has is replaced. ``UsageError`` for a network without classes,
    ``NetworkError`` for one without a score map, ``DataError`` if there is nothing to learn from.
    """
    model, said = read(network)
    alone, _ = network_alone(model, said)
    said = replace(said, correction=None)
    out.mkdir(parents=True, exist_ok=True)
    state, path = out / "state.pt", out / f"{name or f'{said.name}-stale'}.onnx"
    if state.exists() and not choices.resume:
        raise UsageError(
            f"{out} holds a training already (state.pt): continue it with --resume, or give another --out."
        )
    settings = {
        "network": said.name,
        "size": options.get("size"),
        "clips": [clip.name for clip in clips],
        "flow": str(choices.flow),
        **{each: getattr(choices, each) for each in ("samples", "hold_out", "seed")},
    }
    check_resumed(state, settings)
    log = log_to(out / "log.jsonl", say, fresh=not choices.resume)
    if options.get("threads") is not None:
        torch.set_num_threads(options["threads"])
    asked = teacher(alone, said, flow=choices.flow, **options)
    random = np.random.default_rng(choices.seed)
    how: dict[str, Any] = {"hold_out": choices.hold_out, "progress": progress, "warn": warn}
    samples = gather(asked, clips, count=choices.samples, random=random, **how)
    fusion, batches = _fitted(asked, samples, choices, state, settings, log)
    made, named = corrected(asked, fusion, name=path.stem)
    net = assemble(made, named, **options)
    old, new = assemble(alone, said, engine=None).whole, assemble(made, named, engine=None).whole
    if (
        not isinstance(old, GraphPart)
        or not isinstance(new, GraphPart)
        or old.build(asked.size) != new.build(asked.size)
    ):
        raise NetworkError("the network in the file is no longer the same graph; nothing was written.")
    _check_correction(asked, net, fusion, (samples.held_out or samples.learn)[0], batches)
    write_network(made, named, path)
    scores = {"held_out": score_samples(asked, fusion, samples.held_out, batches)}
    log({"event": "score", **scores})
    return Trained(path, {"network": str(path), "engine": asked.net.engine, **scores})


def _fitted(
    asked: Teacher, samples: Samples, choices: Choices, state: Path, settings: dict[str, Any], log: Log
) -> tuple[Fusion, Batches]:
    batches = Batches(samples.learn, asked.said.input)
    counts = {"samples": len(samples.learn), "held_out": len(samples.held_out)}
    log({"event": "start", **settings, **counts, "recipe": asdict(choices.recipe), "torch": torch.__version__})
    torch.manual_seed(choices.seed)
    fusion = fit(
        Fusion(shape_for(asked, batches)),
        lambda net, random: loss_of(net, batches.draw(random, choices.recipe.batch)),
        choices.recipe,
        state,
        settings=settings,
        seed=choices.seed,
        minutes=choices.minutes,
        resume=choices.resume,
        log=log,
    )
    return fusion, batches


def shape_for(asked: Teacher, batches: Batches) -> Shape:
    """Return the grid to work on, and the units, that suit the network's maps."""
    down, across = asked.stride
    fold = 2 if max(down, across) <= STEM_STRIDE / 2 else 1
    # Sides that are always multiples of a cell of the grid make all maps fit each other at any size.
    cell = down * fold
    fixed = input_size(asked.model, asked.said.input.name) is not None
    fits = down == across and (fixed or asked.said.input.pad_multiple % cell == 0)
    fits = fits and cell == STEM_STRIDE and all(side % cell == 0 for side in asked.size)
    some = batches.samples[:40]
    units = [_deviation([sample.moved for sample in some]), _deviation([batches.seen(one.target) for one in some])]
    return Shape(asked.shape[0], fold, fits, (units[0], units[1]))


def _deviation(maps: Sequence[Array]) -> float:
    """Return the standard deviation, as a short number that is never 0."""
    values = np.concatenate([one.ravel()[::13] for one in maps]).astype(np.float32)
    return max(round(float(values.std()), 4), 1e-3)


def mended(fusion: Fusion, sample: Sample, batches: Batches) -> Array:
    """Return the sample's scores with the fusion's correction, float32 [classes, h, w]."""
    given = (batches.seen(sample.target), sample.moved, sample.unexplained)
    with torch.inference_mode():
        added = fusion(*(torch.from_numpy(np.ascontiguousarray(one, np.float32))[None] for one in given))
    found: Array = np.asarray(sample.moved, np.float32) + added[0].numpy()
    return found


def _check_correction(asked: Teacher, net: StagedNetwork, fusion: Fusion, sample: Sample, batches: Batches) -> None:
    """Raise ``NetworkError`` unless the correction in the file, run as part of ``net``, gives what was trained."""
    if net.correction is None:
        raise NetworkError("the file has no correction; this is a fault, and nothing was written.")
    frame = {"image": sample.target.image[None]}
    maps = (sample.moved.astype(np.float32)[None], sample.unexplained.astype(np.float32)[None])
    found = net.correction(frame, {asked.of: maps[0]}, {"unexplained": maps[1]})[LABELS][0]
    alike = float((found == asked.labels(mended(fusion, sample, batches), sample.target.size)).mean())
    if alike < LIKE:
        raise NetworkError(
            f"the written correction agrees with the trained one in {100 * alike:.2f} % of the labels; at least "
            f"{100 * LIKE:.0f} % are required. This is a fault, and nothing was written."
        )


def score_samples(asked: Teacher, fusion: Fusion, samples: Sequence[Sample], batches: Batches) -> dict[str, Any]:
    """Return the mIoU of propagated and corrected scores with the network's own labels, by the age of the scores."""
    found: dict[str, Any] = {}
    for first, last in AGES:
        chosen = [sample for sample in samples if first <= sample.lag <= last]
        moved = fixed = Confusion.none(asked.shape[0])
        for sample in chosen:
            target = sample.target
            truth = target.inside(target.own)
            maps = (asked.labels(one, target.size) for one in (sample.moved, mended(fusion, sample, batches)))
            counts = [confusion(truth, target.inside(labels), asked.shape[0]) for labels in maps]
            moved, fixed = moved + counts[0], fixed + counts[1]
        if chosen:
            means = {name: finite(one.mean_iu_of()) for name, one in (("moved", moved), ("corrected", fixed))}
            found[f"{first}-{last}" if last > first else str(first)] = {"samples": len(chosen), **means}
    return found


class Batch(NamedTuple):
    """Float32 maps: ``seen`` [n, .., .., ..], ``moved`` and ``wanted`` scores [n, classes, h, w], ``unexplained`` [n, 1, h, w],
    and ``inside``, 1 in the picture and 0 in the padding, [n, h, w]."""

    seen: Tensor
    moved: Tensor
    unexplained: Tensor
    wanted: Tensor
    inside: Tensor


@dataclass(frozen=True)
class Batches:
    """Draws batches of ``samples``; ``given``: the network's input."""

    samples: Sequence[Sample]
    given: Input

    def draw(self, random: np.random.Generator, size: int) -> Batch:
        """Return a batch of samples whose maps have one shape."""
        alike = self._of_shape[self.samples[int(random.integers(len(self.samples)))].moved.shape]
        chosen = [alike[place] for place in random.integers(0, len(alike), size)]
        mirror = random.random() < 0.5
        parts = zip(*(self._maps(sample, random) for sample in chosen), strict=True)
        maps = (np.stack([one[..., ::-1] if mirror else one for one in each]) for each in parts)
        return Batch(*(torch.from_numpy(each).float() for each in maps))

    @cached_property
    def _of_shape(self) -> dict[tuple[int, ...], list[Sample]]:
        found: dict[tuple[int, ...], list[Sample]] = {}
        for sample in self.samples:
            found.setdefault(sample.moved.shape, []).append(sample)
        return found

    def _maps(self, sample: Sample, random: np.random.Generator) -> tuple[Array, ...]:
        target = sample.target
        inside = np.zeros(sample.moved.shape[1:], np.float32)
        target.inside(inside)[:] = 1
        gain = random.uniform(0.8, 1.25) * random.uniform(0.94, 1.06, 3)
        seen = self.seen(target, gain, random.normal(0, 12))
        return seen, sample.moved, sample.unexplained, target.scores, inside

    def seen(self, target: Target, gain: Array | float = 1.0, level: float = 0.0) -> Array:
        """Return the picture as the network reads it, in another light."""
        factor, offset = self.given.affine()
        picture = target.image[..., ::-1] if self.given.colour == "bgr" else target.image
        lit = picture * (gain * factor).astype(np.float32) + (level * factor + offset).astype(np.float32)
        return np.ascontiguousarray(lit.transpose(2, 0, 1))


def loss_of(fusion: Fusion, batch: Batch) -> Tensor:
    """Return the Kullback-Leibler divergence of the corrected scores from the network's own, averaged over the picture."""
    found = batch.moved + fusion(batch.seen, batch.moved, batch.unexplained)
    weight = batch.inside * (1 + WRONG * (batch.moved.argmax(1) != batch.wanted.argmax(1)))
    logs = functional.log_softmax(found, 1), functional.log_softmax(batch.wanted, 1)
    losses = functional.kl_div(*logs, log_target=True, reduction="none").sum(1)
    return (losses * weight).sum() / weight.sum().clamp(min=1)
