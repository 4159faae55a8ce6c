"""Trains `scene` on what the teacher says about its views, and validates it against the teacher's labels."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import reduce
from itertools import islice
from operator import add
from pathlib import Path
from typing import Any

import cv2
import torch
from torch import Tensor

from clockseg.evaluation.metrics import Confusion, confusion
from clockseg.types import Image, Labels
from recipes.batches import Batches
from recipes.fitting import Log
from recipes.run import Choices, Run, begin, check_out, device
from recipes.scene.classes import CLASSES
from recipes.scene.exported import load_exported
from recipes.scene.loss import loss_on_probabilities
from recipes.scene.pictures import Picture, read_picture, training_pictures, validation_pictures
from recipes.scene.recipe import SCENE
from recipes.scene.teacher import Teaches
from recipes.scene.views import Views
from recipes.street.checkpoint import Description, save_network
from recipes.street.fit import fit, start
from recipes.street.network import build, framing, load_imagenet, normalise
from recipes.street.recipe import Recipe, shortened
from recipes.street.validate import report, torch_labeller

CHECKS = 3
"""Validations over a training, the last one left to its end."""
STATISTICS = 16
"""Batches that tell the share of each class, and the statistics of batch norms where an exported network is the start."""
LEAST_SHARE = 0.005
"""The mean IU is over the classes that hold at least this share of the teacher's pixels."""


def train(
    data: Path,
    teacher: Teaches,
    out: Path,
    *,
    choices: Choices,
    recipe: Recipe = SCENE,
    permissive: bool,
    say: Log,
    weights: Path | None = None,
) -> Path:
    """Trains on `data`, the shared data folder, and returns the checkpoint `out/scene.safetensors`.

    `out/state.pt` is for resuming, also with more iterations or minutes than before: the learning rate then goes back to
    where that longer training has it. `weights`: an exported network (NAME.onnx) to start from instead of ImageNet's
    encoder, at a fifth of the learning rate.
    """
    check_out([out / "state.pt", out / "scene.safetensors"], out, resume=choices.resume)
    recipe = shortened(recipe, choices.iterations, choices.batch, choices.view)
    if weights is not None:
        recipe = replace(recipe, rate=recipe.rate / 5)
    where = device(choices.device)
    views = Views(training_pictures(data, permissive=permissive), teacher, recipe.view, recipe.augmentation)
    made = {"recipe": asdict(recipe), "choices": asdict(choices), "pictures": len(views)}
    made |= {"area": views.area, "aspect": views.aspect, "mix": views.mix}
    made |= {"sources": "permissive" if permissive else "all", "weights": None if weights is None else weights.name}
    log = begin(out, where, say, seed=choices.seed, resume=choices.resume, **made)
    batches = Batches(views, recipe.batch, choices.seed, choices.workers)
    images, soft = first_views(batches)
    net = build(recipe.shape, recipe.drop)
    if not choices.goes_on(out):
        if weights is not None:
            load_exported(net, weights, normalise(images))
        elif choices.imagenet:
            load_imagenet(net.encoder)
    run = start(net, recipe, where)
    description = Description(recipe.shape, recipe.working, CLASSES)

    def save_and_score(run: Run) -> None:
        save_network(run.average, description, out / "scene.safetensors")
        log({"event": "score", "step": run.step, **scores(run.average, recipe, data, teacher)})

    check = every(choices.minutes, save_and_score)
    bf16, minutes, resume = choices.in_bf16(where), choices.minutes, choices.resume
    loss = loss_on_probabilities(soft.float().mean((0, 1, 2)), recipe)
    fit(run, recipe, batches, loss, out, log, check=check, minutes=minutes, resume=resume, bf16=bf16)
    save_and_score(run)
    return out / "scene.safetensors"


def first_views(batches: Batches) -> list[Tensor]:
    """Return the first `STATISTICS` batches as one: drawn by processes of their own, as OpenVINO is not to be forked."""
    return [torch.cat(parts) for parts in zip(*islice(batches.from_step(0), STATISTICS), strict=True)]


def every(minutes: float | None, check: Callable[[Run], None]) -> Callable[[Run], None]:
    """Return what calls `check` about `CHECKS` times over a training of this many minutes; at each call without a limit."""
    apart = 60 * (minutes or 0) / CHECKS
    last = time.monotonic()

    def now_and_then(run: Run) -> None:
        nonlocal last
        if time.monotonic() - last >= apart:
            check(run)
            last = time.monotonic()

    return now_and_then


def scores(net: Any, recipe: Recipe, data: Path, teacher: Teaches) -> dict[str, Any]:
    """Agreement with the teacher's labels on the validation pictures, as fractions of 1."""
    found = agreement(torch_labeller(net, framing(recipe.working)), data, teacher)
    return {**report(found, CLASSES.names), "mean_iu": round(found.mean_iu_of(LEAST_SHARE), 4)}


def agreement(labeller: Callable[[Image], Labels], data: Path, teacher: Teaches) -> Confusion:
    """Return the confusion of the teacher's labels, 512x512, with a labeller's, which are stretched to that size."""
    classes = len(CLASSES.names)

    def one(picture: Picture) -> Confusion:
        image = read_picture(picture)
        wanted = teacher.labels(image)
        found = cv2.resize(labeller(image), wanted.shape[::-1], interpolation=cv2.INTER_NEAREST)
        return confusion(wanted, found, classes)

    return reduce(add, map(one, validation_pictures(data)), Confusion.none(classes))
