"""Trains `scene` on the teacher's class probabilities and validates it against the teacher's labels."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor

from clockseg.errors import DataError
from clockseg.evaluation.metrics import Confusion, confusion
from clockseg.training.fitting import Log
from clockseg.types import Array, Image, Labels
from recipes.batches import Batches
from recipes.run import Choices, Run, begin, check_out, device
from recipes.scene.classes import CLASSES
from recipes.scene.exported import load_exported
from recipes.scene.loss import loss_on_probabilities
from recipes.scene.pictures import Picture, read_picture, training_pictures, validation_pictures
from recipes.scene.recipe import MAIN, Phase
from recipes.scene.teacher import label_file, soft_file
from recipes.scene.views import SoftViews
from recipes.street.checkpoint import Description, save_network
from recipes.street.fit import fit, start
from recipes.street.network import build, framing, load_imagenet, normalise
from recipes.street.recipe import Recipe, shortened
from recipes.street.validate import report, torch_labeller

CHECKS = 4
"""Validations over a training, the last one left to its end."""
STATISTICS = 48
"""Views from which batch norms get their statistics where a training starts from an exported network."""
LEAST_SHARE = 0.005
"""The mean IU is over the classes that hold at least this share of the teacher's pixels."""


def train(
    data: Path,
    cache: Path,
    out: Path,
    *,
    choices: Choices,
    phase: Phase = MAIN,
    permissive: bool,
    say: Log,
    weights: Path | None = None,
) -> Path:
    """Trains on `data`, the shared data folder, and returns the checkpoint `out/scene.safetensors`.

    `cache` holds the teacher's answers (`python -m recipes.scene teach`). `out/state.pt` is for resuming, also with more
    iterations or minutes than before: the learning rate then goes back to where that longer training has it.
    `weights`: an exported network (NAME.onnx) to start from instead of ImageNet's encoder, at half of the learning rate.
    """
    check_out([out / "state.pt", out / "scene.safetensors"], out, resume=choices.resume)
    recipe = shortened(phase.recipe, choices.iterations, choices.batch, choices.view)
    if weights is not None:
        recipe = replace(recipe, rate=recipe.rate / 2)
    where = device(choices.device)
    pictures = training_pictures(data, permissive=permissive)
    if missing := [picture.name for picture in pictures if not soft_file(cache, picture).exists()]:
        raise DataError(
            f"{cache} lacks the teacher's answers for {len(missing)} pictures: run recipes.scene teach first."
        )
    made = {"recipe": asdict(recipe), "choices": asdict(choices), "mix": phase.mix, "pictures": len(pictures)}
    made |= {"sources": "permissive" if permissive else "all", "weights": None if weights is None else weights.name}
    log = begin(out, where, say, seed=choices.seed, resume=choices.resume, **made)
    net = build(recipe.shape, recipe.drop)
    views = SoftViews(pictures, cache, recipe.view, recipe.working, recipe.augmentation, phase.mix)
    if not choices.goes_on(out):
        if weights is not None:
            load_exported(net, weights, some_pictures(views, choices.seed))
        elif choices.imagenet:
            load_imagenet(net.encoder)
    run = start(net, recipe, where)
    batches = Batches(views, recipe.batch, choices.seed, choices.workers)
    loss = loss_on_probabilities(torch.tensor(shares(cache, pictures), dtype=torch.float32), recipe)
    description = Description(recipe.shape, recipe.working, CLASSES)

    def save_and_score(run: Run) -> None:
        save_network(run.average, description, out / "scene.safetensors")
        log({"event": "score", "step": run.step, **scores(run.average, recipe, data, cache)})

    check = every(choices.minutes, save_and_score)
    bf16, minutes, resume = choices.in_bf16(where), choices.minutes, choices.resume
    fit(run, recipe, batches, loss, out, log, check=check, minutes=minutes, resume=resume, bf16=bf16)
    save_and_score(run)
    return out / "scene.safetensors"


def some_pictures(views: SoftViews, seed: int) -> Tensor:
    """Return `STATISTICS` views of different pictures, normalised, float [n, 3, h, w]."""
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(views))[:STATISTICS]
    return normalise(torch.from_numpy(np.stack([views.draw(int(index), views.rare(), rng)[0] for index in chosen])))


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


def shares(cache: Path, pictures: Sequence[Picture]) -> Array:
    """Return the share of each class in the teacher's answers, float [classes]."""
    total = np.zeros(len(CLASSES.names))
    for picture in pictures[::4]:
        total += np.load(soft_file(cache, picture), mmap_mode="r")[::8, ::8].astype(np.float64).sum((0, 1))
    made: Array = total / total.sum()
    return made


def scores(net: Any, recipe: Recipe, data: Path, cache: Path) -> dict[str, Any]:
    """Agreement with the teacher's labels on the validation pictures, as fractions of 1."""
    found = agreement(torch_labeller(net, framing(recipe.working)), data, cache)
    return {**report(found, CLASSES.names), "mean_iu": round(found.mean_iu_of(LEAST_SHARE), 4)}


def agreement(labeller: Callable[[Image], Labels], data: Path, cache: Path) -> Confusion:
    """Return the confusion of the teacher's labels, 512x512, with a labeller's, which are stretched to that size."""
    classes = len(CLASSES.names)

    def one(picture: Picture) -> Confusion:
        wanted = cv2.imread(str(label_file(cache, picture)), cv2.IMREAD_GRAYSCALE)
        if wanted is None:
            raise DataError(f"{label_file(cache, picture)} is missing: run recipes.scene teach first.")
        found = cv2.resize(labeller(read_picture(picture)), wanted.shape[::-1], interpolation=cv2.INTER_NEAREST)
        return confusion(wanted, found, classes)

    return reduce(add, map(one, validation_pictures(data)), Confusion.none(classes))
