"""Trains a correction for stale scores: on most frames no stage runs, and propagated scores of an earlier frame are shown.

The network's own scores for every frame teach a small fusion to correct the propagated scores from the motion residual and
the picture, or the features of a stage; labels teach too, if there are any. The network is not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clockseg.carry import Flow, Warp
from clockseg.clocks import Every
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule
from clockseg.datasets.clips import Clip
from clockseg.errors import NetworkError, UsageError
from clockseg.evaluation.labels import Evaluation, evaluate
from clockseg.evaluation.metrics import Confusion, confusion, finite
from clockseg.graph.correction import network_alone
from clockseg.graph.onnx_reader import write_network
from clockseg.graph.part import LABELS
from clockseg.graph.staged import input_size
from clockseg.networks.load import assemble, read
from clockseg.training import Trained
from clockseg.training.fitting import Log, Recipe, check_resumed, fit, log_to
from clockseg.training.heads import check_unchanged
from clockseg.training.stale_batches import Batches, loss_of
from clockseg.training.stale_net import STEM_STRIDE, Fusion, Shape, corrected
from clockseg.training.stale_samples import Sample, gather, matching
from clockseg.training.stale_teacher import Teacher, stage_read, teacher
from clockseg.types import Array

RECIPE = Recipe(steps=2400, batch=4)
ALIGNED = 0.97
"""Labels are learned from only if enlarging the score map gives this share of the network's own labels."""
LIKE = 0.99
"""Share of labels in which the written file must agree with the trained fusion."""
AGES = ((1, 1), (2, 4), (5, 8), (9, 12))
"""Ages of scores, in frames, that are scored together."""
RATES = (2, 4, 8, 12)
"""On validation clips the whole network runs on every so many frames."""


@dataclass(frozen=True)
class Choices:
    """Options of the training. ``reads``: "frame", or a stage by its name or as stage1, stage2, ..; ``samples``: about how many
    to learn from; ``hold_out``: clips to score on only; ``minutes``: a time limit; ``flow``: the flow of the carry."""

    reads: str = "frame"
    samples: int = 1000
    hold_out: tuple[str, ...] = ()
    seed: int = 0
    minutes: float | None = None
    resume: bool = False
    flow: Flow = field(default_factory=Flow)
    recipe: Recipe = RECIPE


def train_stale(
    network: str | Path,
    clips: Sequence[Clip],
    out: Path,
    *,
    choices: Choices = Choices(),
    name: str | None = None,
    validation: Sequence[Clip] = (),
    say: Log = lambda entry: None,
    progress: Callable[[str, int, int], None] = lambda what, done, of: None,
    warn: Callable[[str], None] = lambda sentence: None,
    **options: Any,
) -> Trained:
    """Write ``out``/NAME.onnx and its sidecar: ``network`` with a correction learned from ``clips``.

    ``name``: default the network's with -stale behind it. Videos teach by their own frames; folders of pictures, which may be
    far apart in time, by synthetic motion. ``validation``: clips to score on at the end, with the whole network on every 2nd
    to 12th frame. ``out`` also gets log.jsonl, and state.pt to resume from. ``options``: engine, precision, threads and
    size, as of ``load``. A correction that the network already has is replaced. ``UsageError`` for a network without classes
    or a stage that can't be read, ``NetworkError`` for one without a score map, ``DataError`` if there is nothing to learn
    from.
    """
    model, said = read(network)
    alone, _ = network_alone(model, said)
    said = replace(said, correction=None)
    reads = stage_read(said, choices.reads)
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
        **{each: getattr(choices, each) for each in ("reads", "samples", "hold_out", "seed")},
    }
    check_resumed(state, settings)
    log = log_to(out / "log.jsonl", say, fresh=not choices.resume)
    if options.get("threads") is not None:
        torch.set_num_threads(options["threads"])
    asked = teacher(alone, said, reads=reads, flow=choices.flow, **options)
    random = np.random.default_rng(choices.seed)
    how: dict[str, Any] = {"hold_out": choices.hold_out, "progress": progress, "warn": warn}
    samples = gather(asked, clips, count=choices.samples, random=random, **how)
    labels = any(sample.target.labels is not None for sample in samples.learn) and aligned(asked, samples.learn)
    batches = Batches(samples.learn, said.input, labels)
    counts = {"samples": len(samples.learn), "held_out": len(samples.held_out), "labels": labels}
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
    made, named = corrected(asked, fusion, reads=reads, name=path.stem)
    net = assemble(made, named, **options)
    check_unchanged((alone, said), (made, named), asked.size)
    _check_correction(asked, net, fusion, (samples.held_out or samples.learn)[0], batches)
    write_network(made, named, path)
    scores = {"held_out": score_samples(asked, fusion, samples.held_out, batches)}
    if validation:
        scores["clips"] = score_clips(assemble(alone, said, **options), net, asked.warp, validation, warn)
    log({"event": "score", **scores})
    return Trained(path, {"network": str(path), "engine": asked.net.engine, "reads": choices.reads, **scores})


def shape_for(asked: Teacher, batches: Batches) -> Shape:
    """Return the grid to work on, and the units, that suit the network's maps."""
    classes, height, width = asked.shape
    down, across = asked.stride
    fold = 2 if max(down, across) <= STEM_STRIDE / 2 else 1
    one = batches.samples[0].target.features
    # Sides that are always multiples of a cell of the grid make all maps fit each other at any size.
    cell = down * fold
    fixed = input_size(asked.model, asked.said.input.name) is not None
    fits = down == across and (fixed or asked.said.input.pad_multiple % cell == 0)
    fits = fits and all(side % cell == 0 for side in asked.size)
    fits = fits and (cell == STEM_STRIDE if one is None else one.shape[1:] == (height // fold, width // fold))
    some = batches.samples[:40]
    units = [_deviation([sample.moved for sample in some]), _deviation([batches.seen(one.target) for one in some])]
    return Shape(classes, 0 if one is None else len(one), fold, fits, (units[0], units[1]))


def _deviation(maps: Sequence[Array]) -> float:
    """Return the standard deviation, as a short number that is never 0."""
    values = np.concatenate([one.ravel()[::13] for one in maps]).astype(np.float32)
    return max(round(float(values.std()), 4), 1e-3)


def aligned(asked: Teacher, samples: Sequence[Sample]) -> bool:
    """Return True if enlarging the score map gives nearly the labels that the network makes of it, on a few frames."""
    found = []
    for sample in samples[:8]:
        labels = asked.labels(sample.target.scores, sample.target.size)
        scores = torch.from_numpy(sample.target.scores.astype(np.float32))[None]
        large = torch.nn.functional.interpolate(scores, size=labels.shape, mode="bilinear")[0].argmax(0).numpy()
        found.append(float((large == labels).mean()))
    return float(np.mean(found)) >= ALIGNED


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
    seen: Any = {"image": sample.target.image[None]}
    for stage in net.stages[: 0 if asked.features is None else asked.said.stage_names.index(asked.features.stage) + 1]:
        seen = stage.body(seen)
    maps = (sample.moved.astype(np.float32)[None], sample.unexplained.astype(np.float32)[None])
    found = net.correction.part(seen, {asked.of: maps[0]}, {"unexplained": maps[1]})[LABELS][0]
    alike = float((found == asked.labels(mended(fusion, sample, batches), sample.target.size)).mean())
    if alike < LIKE:
        raise NetworkError(
            f"the written correction agrees with the trained one in {100 * alike:.2f} % of the labels; at least "
            f"{100 * LIKE:.0f} % are required. This is a fault, and nothing was written."
        )


def score_samples(asked: Teacher, fusion: Fusion, samples: Sequence[Sample], batches: Batches) -> dict[str, Any]:
    """Return the mIoU of propagated, corrected and fresh scores by age, against labels, or else the network's own."""
    found: dict[str, Any] = {}
    for first, last in AGES:
        chosen = [sample for sample in samples if first <= sample.lag <= last]
        sums = dict.fromkeys(("moved", "corrected", "fresh"), Confusion.none(asked.shape[0]))
        for sample in chosen:
            target = sample.target
            truth = target.own if target.labels is None else target.labels
            maps = (
                asked.labels(sample.moved, target.size),
                asked.labels(mended(fusion, sample, batches), target.size),
                target.own,
            )
            for name, labels in zip(sums, maps, strict=True):
                sums[name] += confusion(target.inside(truth), target.inside(labels), asked.shape[0])
        if chosen:
            means = {name: finite(one.mean_iu_of(0.001)) for name, one in sums.items()}
            found[f"{first}-{last}" if last > first else str(first)] = {"samples": len(chosen), **means}
    return found


def score_clips(
    plain: StagedNetwork, mended_net: StagedNetwork, warp: Warp, clips: Sequence[Clip], warn: Callable[[str], None]
) -> dict[str, Any]:
    """Return the mIoU over whole clips of every frame in full, of propagated and of corrected scores, by rate.

    The whole network runs on every 2nd, 4th, 8th and 12th frame; the stages up to the one that the correction reads run on
    every frame. Without labels of the same classes it is agreement with every frame in full. "kept": the share of the
    mIoU of every frame in full.
    """
    reads = None if mended_net.correction is None else mended_net.correction.reads
    moved = [(f"moved 1/{rate}", _every(plain, None, rate, warp)) for rate in RATES]
    mending = [(f"corrected 1/{rate}", mended_net, _every(mended_net, reads, rate, warp)) for rate in RATES]
    classes = plain.sidecar.classes
    labelled = [matching(clip, classes) for clip in clips]
    found = evaluate(plain, moved, labelled, baselines=mending, boundary=False, warn=warn)
    truth = any(clip.labelled for clip in labelled)
    every = found[0].oracle.mean_iu if truth else 1.0

    def mean(one: Evaluation) -> float:
        return one.scores.mean_iu if truth else one.agreement.mean_iu

    rows = {"every 1/1": finite(every), **{one.schedule: finite(mean(one)) for one in found}}
    return {"mean_iu": rows, "kept": {name: None if value is None else value / every for name, value in rows.items()}}


def _every(net: StagedNetwork, reads: str | None, rate: int, warp: Warp) -> Schedule:
    names = [stage.name for stage in net.stages]
    often = 0 if reads is None else names.index(reads) + 1
    return Schedule(tuple(Every(1 if index < often else rate) for index in range(len(names))), carry=warp)
