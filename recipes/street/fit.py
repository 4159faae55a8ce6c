"""The loss and the training loop of one network."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clockseg.errors import UsageError
from recipes.batches import Batches
from recipes.fitting import Log, load_state, save_state
from recipes.run import Run, check_loss
from recipes.street.network import AnyStreet, Scores, normalise
from recipes.street.recipe import Recipe

Loss: TypeAlias = Callable[[Scores, Tensor, Tensor], Tensor]
"""Scores as the network's `coarse` gives them, normalised pictures, and what is to be learnt about these -> the loss.

A loss without a gradient says that there is nothing to learn."""
REPORTS = 40
"""Lines in the log, and states saved, over a training."""
SAVE_SECONDS = 180.0
"""A state is saved at least this often, so that a power cut costs a long training little."""


def start(net: AnyStreet, recipe: Recipe, device: torch.device) -> Run:
    """A run at step 0."""
    net = net.to(device, memory_format=torch.channels_last)
    for part in frozen_parts(net, recipe):
        part.requires_grad_(False)
    average = copy.deepcopy(net).eval().requires_grad_(False)
    optimiser = torch.optim.AdamW(parameter_groups(net, recipe), recipe.rate, fused=device.type == "cuda")
    return Run(net, optimiser, average, (floats(average), floats(net)))


def frozen_parts(net: AnyStreet, recipe: Recipe) -> list[nn.Module]:
    """Return the modules that stay pretrained, batch norms' statistics included."""
    return [net.encoder.stem, *list(net.encoder.rows)[: recipe.frozen]] if recipe.frozen else []


def parameter_groups(net: AnyStreet, recipe: Recipe) -> list[dict[str, Any]]:
    """The pretrained encoder learns slower; biases and norms don't decay. `share` is a group's share of the rate."""
    groups = []
    for pretrained in (True, False):
        named = [
            (name, p)
            for name, p in net.named_parameters()
            if p.requires_grad and name.startswith("encoder.") == pretrained
        ]
        share = recipe.encoder_rate if pretrained else 1.0
        groups.append({"params": [p for _, p in named if p.ndim > 1], "weight_decay": recipe.decay, "share": share})
        groups.append({"params": [p for _, p in named if p.ndim <= 1], "weight_decay": 0.0, "share": share})
    return groups


def fit(
    run: Run,
    recipe: Recipe,
    batches: Batches,
    loss_of: Loss,
    out: Path,
    log: Log,
    *,
    check: Callable[[Run], None] = lambda run: None,
    minutes: float | None = None,
    resume: bool = False,
    bf16: bool = False,
) -> AnyStreet:
    """Trains to the recipe's end, or to `minutes` if that comes first (the rate falls to zero either way).

    Returns the averaged network. `out/state.pt` is written along the way; with `resume` it is gone on from. `check` is
    called at each report.
    `TrainingError` if the loss is no longer finite.
    """
    device = next(run.net.parameters()).device
    if resume and (out / "state.pt").exists():
        _restore(run, out / "state.pt", device)
    views, began, reported = batches.from_step(run.step), time.monotonic() - run.seconds, 0
    saved = time.monotonic()
    while (done := progress(run, recipe.iterations, minutes)) < 1:
        images, targets = (part.to(device, non_blocking=True) for part in next(views))
        rate = recipe.rate * rate_factor(done, recipe.warm_up)
        loss = _step(run, normalise(images), targets, rate, recipe, loss_of, bf16)
        run.step, run.seconds = run.step + 1, time.monotonic() - began
        if (due := int(progress(run, recipe.iterations, minutes) * REPORTS)) > reported:
            reported = due
            log(
                {
                    "event": "step",
                    "step": run.step,
                    "loss": round(loss.item(), 4),
                    "rate": round(rate, 7),
                    "minutes": round(run.seconds / 60, 3),
                }
            )
            check(run)
            saved = -math.inf
        if time.monotonic() - saved > SAVE_SECONDS:
            save_state(run.state(), out / "state.pt")
            saved = time.monotonic()
    average: AnyStreet = run.average
    return average


def _restore(run: Run, file: Path, device: torch.device) -> None:
    state = load_state(file, device)
    try:
        run.restore(state)
    except (KeyError, RuntimeError, ValueError) as error:  # as torch says that names, shapes or groups don't fit
        raise UsageError(
            f"{file} is of a training of another network; give the same --until and the same classes, or another --out."
        ) from error


def progress(run: Run, iterations: int, minutes: float | None) -> float:
    """Return the share of the training that is done, by steps or by minutes, whichever is further: 0 to 1."""
    return max(run.step / iterations, run.seconds / 60 / minutes if minutes else 0.0)


def rate_factor(done: float, warm_up: float) -> float:
    """Linear warm-up, then half a cosine down to zero."""
    if done < warm_up:
        return (done + 1e-3) / (warm_up + 1e-3)
    return 0.5 * (1 + math.cos(math.pi * (done - warm_up) / (1 - warm_up)))


def _step(run: Run, images: Tensor, targets: Tensor, rate: float, recipe: Recipe, loss_of: Loss, bf16: bool) -> Tensor:
    images = images.contiguous(memory_format=torch.channels_last)
    run.net.train()
    for part in frozen_parts(run.net, recipe):
        part.eval()
    for group in run.optimiser.param_groups:
        group["lr"] = rate * group["share"]
    with torch.autocast(images.device.type, torch.bfloat16, enabled=bf16):
        scores = run.net.coarse(images)
    loss = loss_of(scores, images, targets)
    if not loss.requires_grad:
        return loss
    check_loss(loss.item(), run.step + 1, rate)
    run.optimiser.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(run.net.parameters(), 5.0)
    run.optimiser.step()
    average_into(*run.averaged, min(recipe.average, (1 + run.step) / (10 + run.step)))
    return loss.detach()


def loss_on_labels(
    shares: Tensor, recipe: Recipe, ignore: int, teachers: Sequence[AnyStreet] = (), *, bf16: bool = False
) -> Loss:
    """Return the loss on labels [n, h, w] and on the answers of teachers; `shares`: of each class among the labels."""
    weights = class_weights(shares, recipe.rare)

    def loss(scores: Scores, images: Tensor, labels: Tensor) -> Tensor:
        if not teachers and not bool((labels != ignore).any()):
            return torch.zeros(())  # the mean over no pixel is no number
        with torch.autocast(images.device.type, torch.bfloat16, enabled=bf16):
            answers = teach(teachers, images) if teachers else None
        return segmentation_loss(scores, labels, weights.to(images.device), recipe, ignore, answers)

    return loss


@torch.no_grad()
def teach(teachers: Sequence[AnyStreet], images: Tensor) -> Tensor:
    """The teachers' mean class probabilities."""
    answers = [enlarged(teacher.coarse(images).fused, images.shape[2:]).softmax(1) for teacher in teachers]
    return torch.stack(answers).mean(0)


def floats(net: nn.Module) -> list[Tensor]:
    """All weights and batch norms' statistics, as they are in memory."""
    return [value for value in net.state_dict().values() if value.is_floating_point()]


@torch.no_grad()
def average_into(averages: list[Tensor], values: list[Tensor], keep: float) -> None:
    """Exponential moving average."""
    torch._foreach_lerp_(averages, values, 1 - keep)


def class_weights(shares: Tensor, power: float) -> Tensor:
    """share ** -power for each class, scaled so that a random labelled pixel weighs 1 on average."""
    weights = shares.clamp(min=1e-4) ** -power
    return weights / (weights * shares).sum()


def segmentation_loss(
    scores: Scores, labels: Tensor, weights: Tensor, recipe: Recipe, ignore: int, teacher: Tensor | None = None
) -> Tensor:
    """Cross-entropy and overlap of the fused scores, cross-entropy of each stage's, and the teachers' answers.

    `scores`: as the network's `coarse` gives them. `labels`: [n, h, w], class ids or `ignore`. `teacher`: the teachers' mean
    class probabilities [n, k, h, w].
    """
    fused, labels = enlarged(scores.fused, labels.shape[1:]), labels.long()
    total = F.cross_entropy(fused, labels, weights, ignore_index=ignore)
    log_share = F.log_softmax(fused, 1)
    if recipe.overlap:
        total = total + recipe.overlap * overlap_loss(log_share.exp(), labels, ignore)
    if teacher is not None:
        total = total + recipe.distil * F.kl_div(log_share, teacher, reduction="sum") / labels.numel()
    coarse = labels[:, 2::4, 2::4]
    for weight, own in zip(recipe.aux, scores.own):
        total = total + weight * F.cross_entropy(enlarged(own, coarse.shape[1:]), coarse, weights, ignore_index=ignore)
    return total


def enlarged(scores: Tensor, size: Sequence[int]) -> Tensor:
    """At `size` (height, width), bilinear, float32: as `Upscore`, but for the border, and faster to train through."""
    return F.interpolate(scores.float(), size=tuple(size), mode="bilinear", align_corners=False)


def overlap_loss(shares: Tensor, labels: Tensor, ignore: int) -> Tensor:
    """1 - soft intersection over union, its mean over the classes that the batch shows (Rahman and Wang, 2016).

    `shares`: softmax probabilities [n, k, h, w]. The metric is mean IU, so small classes count as much as large ones.
    """
    known = labels != ignore
    truth = torch.zeros_like(shares).scatter_(1, labels.where(known, 0)[:, None], 1.0) * known[:, None]
    shares = shares * known[:, None]
    both = (shares * truth).sum((0, 2, 3))
    either = shares.sum((0, 2, 3)) + truth.sum((0, 2, 3)) - both
    there = truth.sum((0, 2, 3)) > 0
    return ((1 - both / either.clamp(min=1)) * there).sum() / there.sum().clamp(min=1)
