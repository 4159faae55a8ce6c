"""Trains a correction for staleness: on most frames no stage runs, and what is shown are scores of an earlier frame, moved.

The network's own answer for every frame teaches a small fusion to read the moved scores, what the motion leaves unexplained,
and the picture or the features of a stage; labels teach too, where there are any. The network is not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from clockseg.carry import Flow
from clockseg.datasets.clips import Clip
from clockseg.errors import NetworkError, UsageError
from clockseg.graph import sidecar
from clockseg.graph.correction import network_alone
from clockseg.graph.onnx_reader import write_network
from clockseg.graph.part import LABELS, GraphPart
from clockseg.graph.staged import input_size
from clockseg.networks.load import Engine, WorkingSize, assemble, read
from clockseg.training.fitting import Log, log_to
from clockseg.training.stale_batches import Batches
from clockseg.training.stale_export import corrected
from clockseg.training.stale_fit import Recipe, fit
from clockseg.training.stale_motion import Wander
from clockseg.training.stale_net import STEM_STRIDE, Fusion, Shape
from clockseg.training.stale_samples import Sample, Samples, gather
from clockseg.training.stale_score import concluded, mended, score_clips, score_samples
from clockseg.training.stale_teacher import Teacher, teacher
from clockseg.types import Array

FRAME = "frame"
SAMPLES = 1000
WINDOW = 192, 240
"""Pixels, down and across, that are seen at once; a frame that is smaller, whole."""
ALIGNED = 0.97
"""Share of labels that an enlargement of the score map must give as the network does, for labels to be learnt from."""
LIKE = 0.99
"""Share of labels in which the file must agree with what was trained."""


@dataclass(frozen=True)
class TrainedStale:
    """The file that was written and what is told of it: plain values, for ``json.dumps``."""

    path: Path
    facts: dict[str, Any]


@dataclass(frozen=True)
class Choices:
    """Options of the training. ``reads``: "frame", or a stage by its name or as stage1, stage2, ..; ``samples``: about how
    many to learn from; ``hold_out``: clips to score on only; ``minutes``: a limit; ``flow``: what moves the scores."""

    reads: str = FRAME
    samples: int = SAMPLES
    hold_out: tuple[str, ...] = ()
    seed: int = 0
    minutes: float | None = None
    resume: bool = False
    flow: Flow = field(default_factory=Flow)
    recipe: Recipe = field(default_factory=Recipe)
    wander: Wander = field(default_factory=Wander)


def train_stale(
    network: str | Path,
    clips: Sequence[Clip],
    out: Path,
    *,
    choices: Choices = Choices(),
    name: str | None = None,
    validation: Sequence[Clip] = (),
    engine: str | Engine = "auto",
    precision: str = "f32",
    threads: int | None = None,
    size: WorkingSize | None = None,
    say: Log = lambda entry: None,
    progress: Callable[[str, int, int], None] = lambda what, done, of: None,
    warn: Callable[[str], None] = lambda sentence: None,
) -> TrainedStale:
    """Write ``out``/NAME.onnx and its sidecar: ``network`` with a correction, learnt from ``clips``.

    ``name``: default the network's, with -stale behind it. Videos teach by their own frames; folders of pictures, which may be
    far apart in time, by motion made up. ``validation``: clips that it is run on at the end, every 2nd to 12th frame in
    full. ``out`` also gets log.jsonl, and state.pt to resume from. ``engine`` to ``size``: as of ``load``.

    A network that has a correction already gets another in its place. ``UsageError`` for a network without classes or a stage
    that can't be read, ``NetworkError`` for one without a score map, ``DataError`` if there is nothing to learn from.
    """
    model, said = read(network)
    alone, _ = network_alone(model, said)
    said = replace(said, correction=None)
    reads = _stage(said, choices.reads)
    out.mkdir(parents=True, exist_ok=True)
    state, path = out / "state.pt", out / f"{name or f'{said.name}-stale'}.onnx"
    if state.exists() and not choices.resume:
        raise UsageError(f"{out} holds a training already (state.pt): go on by --resume, or give another --out.")
    log = log_to(out / "log.jsonl", say, fresh=not choices.resume)
    if threads is not None:
        torch.set_num_threads(threads)
    options: dict[str, Any] = {"engine": engine, "precision": precision, "threads": threads, "size": size}
    asked = teacher(alone, said, reads=reads, flow=choices.flow, **options)
    random = np.random.default_rng(choices.seed)
    samples = gather(
        asked, clips, count=choices.samples, random=random, hold_out=choices.hold_out, wander=choices.wander,
        say=progress, warn=warn,
    )  # fmt: skip
    batches, shape = _plan(asked, samples.learn, choices.recipe)
    log(_start(asked, samples, batches, reads, choices))
    torch.manual_seed(choices.seed)
    fusion = fit(
        Fusion(shape), batches, choices.recipe, state, seed=choices.seed, minutes=choices.minutes,
        resume=choices.resume, log=log,
    )  # fmt: skip
    made, named = corrected(asked, fusion, reads=reads, name=path.stem)
    _check(asked, (made, named), fusion, (samples.held_out or samples.learn)[0], batches, options)
    write_network(made, named, path)
    scores = {"held_out": score_samples(asked, fusion, samples.held_out, batches)}
    if validation:
        plain, mended_net = assemble(alone, said, **options), assemble(made, named, **options)
        scores["clips"] = score_clips(plain, mended_net, asked.warp, validation)
    log({"event": "score", **scores})
    return TrainedStale(path, {"network": str(path), "engine": asked.net.engine, "reads": reads or FRAME, **scores})


def _stage(said: sidecar.Sidecar, reads: str) -> str | None:
    """The stage of that name or number; None for the frame."""
    if reads == FRAME:
        return None
    names = said.stages or tuple(f"stage{index + 1}" for index in range(len(said.cuts)))
    numbers = {f"stage{index + 1}": name for index, name in enumerate(names)}
    found = reads if reads in names else numbers.get(reads)
    if found is None or found == names[-1]:
        raise UsageError(
            f"reads {reads!r}: give frame, or a stage of {said.name!r} before its last: {', '.join(names[:-1])}."
        )
    return found


def _plan(asked: Teacher, samples: Sequence[Sample], recipe: Recipe) -> tuple[Batches, Shape]:
    """Choose the grid to work on, the windows and the units that suit the network's maps."""
    classes, height, width = asked.shape
    down, across = asked.stride
    square = down == across == int(down)
    multiple = asked.said.input.pad_multiple
    fixed = input_size(asked.model, asked.said.input.name) is not None
    fold = 2 if max(down, across) <= STEM_STRIDE / 2 else 1
    even = height % fold == width % fold == 0 and (fixed or multiple % (fold * down) == 0)
    one = samples[0].target.features
    cells = _cells(one, (height, width))
    grid = (height // fold, width // fold)
    if one is None:
        fits = square and down * fold == STEM_STRIDE and (fixed or multiple % STEM_STRIDE == 0)
    else:
        fits = one.shape[1:] == grid and (fixed or multiple % (down * fold) == 0)
    window = _window(asked, samples, fold) if fits and even and square else None
    size = recipe.batch if window is not None else max(1, recipe.batch // 4)
    labels = any(sample.target.labels is not None for sample in samples) and _aligned(asked, samples) >= ALIGNED
    cell = (int(down), int(across)) if square else (1, 1)
    batches = Batches(samples, asked.said.input, cell, window, size, one is not None, cells, labels)
    seen = np.concatenate([batches.seen(sample.target).ravel()[::97] for sample in samples[:40]])
    scores = np.concatenate([sample.moved.ravel()[::13] for sample in samples[:40]])
    units = _usual(scores), _usual(seen)
    return batches, Shape(classes, 0 if one is None else len(one), fold, even, fits, units)


def _cells(features: Array | None, shape: tuple[int, int]) -> int:
    """Cells of the score map, in each direction, of one of the features; 1 where they don't divide."""
    return 1 if features is None else max(1, shape[0] // features.shape[1])


def _window(asked: Teacher, samples: Sequence[Sample], fold: int) -> tuple[int, int] | None:
    """Rows and columns of cells of a window that lies in each of the maps; None where they are too small for one."""
    step = 4 * fold
    least = np.min([sample.moved.shape[1:] for sample in samples], axis=0)
    wanted = (round(WINDOW[0] / asked.stride[0]), round(WINDOW[1] / asked.stride[1]))
    rows, columns = (min(int(most), cells) // step * step for most, cells in zip(least, wanted, strict=True))
    return (rows, columns) if rows and columns else None


def _usual(values: Array) -> float:
    """The standard deviation, as a plain number that is never 0."""
    return max(round(float(values.astype(np.float32).std()), 4), 1e-3)


def _aligned(asked: Teacher, samples: Sequence[Sample]) -> float:
    """The share of pixels whose label an enlargement of the whole score map gives as the network does, in few frames."""
    found = []
    for sample in samples[:8]:
        labels = concluded(asked, sample.target.scores, sample.target.size)
        scores = torch.from_numpy(sample.target.scores.astype(np.float32))[None]
        large = torch.nn.functional.interpolate(scores, size=labels.shape, mode="bilinear")[0].argmax(0).numpy()
        found.append(float((large == labels).mean()))
    return float(np.mean(found))


def _start(asked: Teacher, samples: Samples, batches: Batches, reads: str | None, choices: Choices) -> dict[str, Any]:
    return {
        "event": "start",
        "network": asked.said.name,
        "reads": reads or FRAME,
        "moves": asked.of,
        "shape": list(asked.shape),
        "samples": len(samples.learn),
        "held_out": len(samples.held_out),
        "clips": sorted({sample.target.clip for sample in samples.learn}),
        "held_out_clips": sorted({sample.target.clip for sample in samples.held_out}),
        "labels": batches.labels,
        "window": batches.window,
        "recipe": asdict(choices.recipe),
        "wander": asdict(choices.wander),
        "flow": str(choices.flow),
        "seed": choices.seed,
        "torch": torch.__version__,
    }


def _check(
    asked: Teacher,
    made: tuple[onnx.ModelProto, sidecar.Sidecar],
    fusion: Fusion,
    sample: Sample,
    batches: Batches,
    options: dict[str, Any],
) -> None:
    """The file's correction gives what was trained, and the network in it is the very network."""
    graphs = [assemble(*one, engine=None).whole for one in ((asked.model, asked.said), made)]
    builds = [graph.build(asked.size) if isinstance(graph, GraphPart) else None for graph in graphs]
    if None in builds or builds[0] != builds[1]:
        raise NetworkError(
            "the network in the file isn't the network any more; this is a fault, and nothing was written."
        )
    net = assemble(*made, **options)
    if net.correction is None:
        raise NetworkError("the file has no correction; this is a fault, and nothing was written.")
    seen: Any = {"image": sample.target.image[None]}
    for stage in net.stages:
        if asked.features is None:
            break
        seen = stage.body(seen)
        if stage.name == asked.features.stage:
            break
    given = (
        {asked.of: sample.moved.astype(np.float32)[None]},
        {"unexplained": sample.unexplained.astype(np.float32)[None]},
    )
    found = net.correction.part(seen, *given)[LABELS][0]
    alike = float((found == concluded(asked, mended(fusion, sample, batches), sample.target.size)).mean())
    if alike < LIKE:
        raise NetworkError(
            f"the written correction agrees with the trained one in {100 * alike:.2f} % of the labels; "
            f"at least {100 * LIKE:.0f} % are wanted. This is a fault, and nothing was written."
        )
