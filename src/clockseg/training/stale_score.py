"""Scores of a correction: on held-out samples by their age, and on whole clips."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from onnx.helper import tensor_dtype_to_np_dtype

from clockseg.carry import Warp
from clockseg.clocks import Every
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule, frame_oracle
from clockseg.clockwork.session import Session
from clockseg.datasets.clips import Clip
from clockseg.evaluation.metrics import Confusion, confusion, finite
from clockseg.graph.part import FRAME_SIZE, LABELS
from clockseg.training.stale_batches import Batches
from clockseg.training.stale_net import Fusion
from clockseg.training.stale_samples import IGNORE, Sample, Target
from clockseg.training.stale_teacher import Teacher
from clockseg.types import Array, Labels, Size

AGES = ((1, 1), (2, 4), (5, 8), (9, 12))
"""Lags that are told of together."""
RATES = (2, 4, 8, 12)
"""On clips: every so many frames the whole network runs."""


class Held(NamedTuple):
    """Confusions of one age: of the scores as moved, as corrected, and of the network's own; ``samples``: how many."""

    moved: Confusion
    corrected: Confusion
    fresh: Confusion
    samples: int


def score_samples(teacher: Teacher, fusion: Fusion, samples: Sequence[Sample], batches: Batches) -> dict[str, Any]:
    """Mean IU of moved, corrected and fresh scores by age; against labels, or where there are none the network's own."""
    found: dict[str, Any] = {}
    for first, last in AGES:
        chosen = [sample for sample in samples if first <= sample.lag <= last]
        if chosen:
            found[f"{first}-{last}" if last > first else str(first)] = _facts(_held(teacher, fusion, chosen, batches))
    return found


def _held(teacher: Teacher, fusion: Fusion, samples: Sequence[Sample], batches: Batches) -> Held:
    none = Confusion.none(teacher.shape[0])
    total = Held(none, none, none, len(samples))
    for sample in samples:
        size = sample.target.size
        fresh = sample.target.own
        truth = fresh if sample.target.labels is None else sample.target.labels
        truth = _shown(truth, sample.target)
        mended_scores = mended(fusion, sample, batches)
        maps = (concluded(teacher, sample.moved, size), concluded(teacher, mended_scores, size), fresh)
        each = (confusion(truth, labels, teacher.shape[0]) for labels in maps)
        moved, corrected, own = each
        total = Held(total.moved + moved, total.corrected + corrected, total.fresh + own, len(samples))
    return total


def _facts(held: Held) -> dict[str, Any]:
    parts = zip(("moved", "corrected", "fresh"), held, strict=False)
    means = {name: finite(one.mean_iu_of(0.001)) for name, one in parts if isinstance(one, Confusion)}
    return {"samples": held.samples, **means}


def mended(fusion: Fusion, sample: Sample, batches: Batches) -> Array:
    """The sample's scores with what the fusion adds, float32 [classes, h, w]."""
    seen = batches.seen(sample.target)
    given = (
        torch.from_numpy(np.ascontiguousarray(a, np.float32))[None] for a in (seen, sample.moved, sample.unexplained)
    )
    with torch.inference_mode():
        found: Array = np.asarray(sample.moved, np.float32) + fusion(*given)[0].numpy()
    return found


def concluded(teacher: Teacher, scores: Array, size: Size) -> Labels:
    """The labels that the network makes of a score map, uint8 [H, W]; ``size``: (W, H)."""
    value = {
        teacher.of: np.ascontiguousarray(scores, tensor_dtype_to_np_dtype(teacher.kind))[None],
        FRAME_SIZE: np.array(size),
    }
    labels: Labels = (teacher.net.conclude or teacher.net.finish)(value)[LABELS][0]
    return labels


def _shown(truth: Array, target: Target) -> Array:
    """Without the padding."""
    height, width = truth.shape
    found = np.full_like(truth, IGNORE)
    rows, columns = round(height * target.share[1]), round(width * target.share[0])
    found[:rows, :columns] = truth[:rows, :columns]
    return found


def score_clips(plain: StagedNetwork, corrected: StagedNetwork, warp: Warp, clips: Sequence[Clip]) -> dict[str, Any]:
    """Over the labelled frames of whole clips: mean IU of every frame in full, of scores moved, and of scores corrected.

    Every 2nd, 4th, 8th and 12th frame runs in full; where the correction reads a stage, the stages up to that run on
    every frame.
    Without labels, agreement with every frame in full. "kept": the share of what every frame in full gives.
    """
    runs = {("moved", rate): (plain, _schedule(plain, None, rate, warp)) for rate in RATES}
    reads = None if corrected.correction is None else corrected.correction.reads
    runs |= {("corrected", rate): (corrected, _schedule(corrected, reads, rate, warp)) for rate in RATES}
    classes = len(plain.sidecar.classes)
    total = dict.fromkeys([("every", 1), *runs], Confusion.none(classes))
    for clip in clips:
        for labels in _labelled(plain, runs, clip):
            truth = labels.pop("truth")
            for key, found in labels.items():
                total[key] += confusion(truth, found, classes)
    every = total["every", 1].mean_iu
    rows = {f"{how} 1/{rate}": finite(one.mean_iu) for (how, rate), one in total.items()}
    return {"mean_iu": rows, "kept": {name: None if mean is None else mean / every for name, mean in rows.items()}}


def _schedule(net: StagedNetwork, reads: str | None, rate: int, warp: Warp) -> Schedule:
    names = [stage.name for stage in net.stages]
    often = 0 if reads is None else names.index(reads) + 1
    return Schedule(tuple(Every(1 if index < often else rate) for index in range(len(names))), carry=warp)


def _labelled(
    plain: StagedNetwork, runs: dict[Any, tuple[StagedNetwork, Schedule]], clip: Clip
) -> Iterator[dict[Any, Any]]:
    sessions = {key: Session(net, schedule) for key, (net, schedule) in runs.items()}
    every = Session(plain, frame_oracle)
    truths = bool(clip.labelled) and clip.classes is not None and clip.classes.names == plain.sidecar.classes
    for frame in clip:
        found = {key: session(frame.image) for key, session in sessions.items()}
        found["every", 1] = every(frame.image)
        truth = frame.labels if truths else found["every", 1]
        if truth is not None:
            yield {"truth": truth, **found}
