"""The training loop of one FCN."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recipes.batches import Batches
from recipes.fcn.net import FCN
from recipes.fcn.recipe import FCNRecipe, Loss, Phase
from recipes.fcn.vgg16 import Mean
from recipes.fitting import Log
from recipes.run import Run, check_loss
from recipes.street.fit import progress, rate_factor

LINES = 10
"""Lines in the log from one saved state to the next."""


def start(net: FCN, phase: Phase, recipe: FCNRecipe) -> Run:
    """A run at step 0."""
    groups = parameter_groups(net, recipe)
    if recipe.optimiser == "sgd":
        return Run(net, torch.optim.SGD(groups, phase.rate, momentum=recipe.momentum))
    return Run(net, torch.optim.Adam(groups, phase.rate, betas=(recipe.momentum, 0.999)))


def parameter_groups(net: FCN, recipe: FCNRecipe) -> list[dict[str, Any]]:
    """Weights, and biases, which learn at `bias_rate` times the rate and don't decay. `share` is a group's share of it."""
    learned = [value for value in net.parameters() if value.requires_grad]
    return [
        {"params": [value for value in learned if value.ndim > 1], "weight_decay": recipe.decay, "share": 1.0},
        {"params": [value for value in learned if value.ndim == 1], "weight_decay": 0.0, "share": recipe.bias_rate},
    ]


def softmax_loss(score: Tensor, labels: Tensor, ignore: int, kind: Loss) -> Tensor:
    """The softmax loss of scores [n, k, h, w] for labels [n, h, w], summed over the pixels that aren't `ignore`.

    `kind` mean: divided by their number; 0 where there are none.
    """
    total = F.cross_entropy(score.float(), labels.long(), ignore_index=ignore, reduction="sum")
    return total if kind == "sum" else total / (labels != ignore).sum().clamp(min=1)


def prepared(images: Tensor, mean: Mean) -> Tensor:
    """Convert pictures [n, h, w, 3], uint8 RGB, to an FCN's input [n, 3, h, w]: BGR minus `mean` (blue, green, red)."""
    return images.flip(-1).float().sub(torch.tensor(mean, device=images.device)).permute(0, 3, 1, 2)


def fit(
    run: Run,
    phase: Phase,
    recipe: FCNRecipe,
    batches: Batches,
    mean: Mean,
    log: Log,
    *,
    ignore: int,
    minutes: float | None,
    check: Callable[[], None],
) -> None:
    """Trains to the phase's end, or to `minutes` if that comes first (a rate that falls is zero then, too).

    `check` is called after each `recipe.every` steps and at the end. `TrainingError` if the loss is no longer finite.
    """
    where = next(run.net.parameters()).device
    losses: list[float] = []
    checked = run.step
    views, began = batches.from_step(run.step), time.monotonic() - run.seconds
    while (done := progress(run, phase.iterations, minutes)) < 1:
        images, labels = (part.to(where, non_blocking=True) for part in next(views))
        rate = phase.rate * (rate_factor(done, recipe.warm_up) if recipe.falls else 1.0)
        losses.append(update(run, prepared(images, mean), labels, rate, recipe, ignore=ignore))
        run.step, run.seconds = run.step + 1, time.monotonic() - began
        if run.step % max(1, recipe.every // LINES) == 0:
            log(
                {
                    "event": "step",
                    "net": phase.variant,
                    "step": run.step,
                    "loss": float(f"{sum(losses) / len(losses):.5g}"),
                    "rate": float(f"{rate:.4g}"),
                    "minutes": round(run.seconds / 60, 3),
                }
            )
            losses = []
        if run.step % recipe.every == 0:
            check()
            checked = run.step
    if run.step != checked:
        check()


def update(run: Run, data: Tensor, labels: Tensor, rate: float, recipe: FCNRecipe, *, ignore: int) -> float:
    """One step of the optimiser; the loss before it, which must be finite (`TrainingError`)."""
    run.net.train()
    for group in run.optimiser.param_groups:
        group["lr"] = rate * group["share"]
    loss = softmax_loss(run.net(data).score, labels, ignore, recipe.loss)
    value = float(loss.detach())
    check_loss(value, run.step + 1, rate)
    run.optimiser.zero_grad(set_to_none=True)
    loss.backward()
    if recipe.clip is not None:
        nn.utils.clip_grad_norm_(run.net.parameters(), recipe.clip)
    run.optimiser.step()
    return value
