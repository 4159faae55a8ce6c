"""The training loop of a correction: labels where there are any, the network's own scores everywhere."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from clockseg.errors import DataError
from clockseg.training.fitting import load_state, save_state
from clockseg.training.stale_batches import Batch, Batches
from clockseg.training.stale_net import Fusion
from clockseg.training.stale_samples import IGNORE

SAVED_SECONDS = 30
"""Between states that can be resumed from."""


@dataclass(frozen=True)
class Recipe:
    """Length and rates of a training: ``steps`` of ``batch`` windows, or a quarter as many whole frames if windows don't fit.

    ``wrong``: how much more a place counts where the moved scores name another class than they should.
    """

    steps: int = 2400
    batch: int = 8
    rate: float = 3e-3
    warm_up: int = 50
    decay: float = 1e-4
    wrong: float = 2.0
    average: float = 0.99


@dataclass
class _Run:
    """All that changes in a training."""

    net: Fusion
    average: Fusion
    optimiser: torch.optim.Optimizer
    random: np.random.Generator
    step: int = 0
    seconds: float = 0.0

    def save(self, file: Path) -> None:
        state = {
            "net": self.net.state_dict(),
            "average": self.average.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "step": self.step,
            "seconds": self.seconds,
        }
        save_state(state, file)

    def restore(self, file: Path, seed: int) -> None:
        state = load_state(file, torch.device("cpu"))
        try:
            self.net.load_state_dict(state["net"])
            self.average.load_state_dict(state["average"])
            self.optimiser.load_state_dict(state["optimiser"])
            self.step, self.seconds = int(state["step"]), float(state["seconds"])
        except (RuntimeError, KeyError, ValueError, TypeError) as error:
            raise DataError(
                f"{file} is of another training ({error}); delete it, or train without --resume."
            ) from error
        self.random = np.random.default_rng([seed, self.step])


def fit(
    net: Fusion,
    batches: Batches,
    recipe: Recipe,
    state: Path,
    *,
    seed: int = 0,
    minutes: float | None = None,
    resume: bool = False,
    log: Callable[[dict[str, Any]], None] = lambda entry: None,
) -> Fusion:
    """The averaged weights after ``recipe.steps``, or after ``minutes`` if that is sooner; the rate falls to zero either way.

    ``state``: the file that it can be resumed from, written every half minute.
    """
    net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = torch.optim.AdamW(net.parameters(), lr=recipe.rate, weight_decay=recipe.decay)
    run = _Run(net, copy.deepcopy(net), optimiser, np.random.default_rng([seed, 0]))
    if resume and state.exists():
        run.restore(state, seed)
    saved = time.perf_counter()
    losses: list[float] = []
    while (done := _done(run, recipe, minutes)) < 1:
        start = time.perf_counter()
        for group in optimiser.param_groups:
            group["lr"] = recipe.rate * min(1.0, (run.step + 1) / recipe.warm_up) * (1 + math.cos(math.pi * done)) / 2
        losses.append(_step(run, batches.draw(run.random), recipe))
        run.seconds += time.perf_counter() - start
        if run.step % max(1, recipe.steps // 40) == 0:
            facts = {"step": run.step, "of": recipe.steps, "loss": round(float(np.mean(losses)), 4)}
            log({"event": "step", **facts, "minutes": round(run.seconds / 60, 2)})
            losses.clear()
        if time.perf_counter() - saved > SAVED_SECONDS:
            run.save(state)
            saved = time.perf_counter()
    run.save(state)
    run.average.eval()
    return run.average


def _done(run: _Run, recipe: Recipe, minutes: float | None) -> float:
    """The share of the training that is over."""
    timed = 0.0 if minutes is None else run.seconds / 60 / minutes
    return max(run.step / recipe.steps, timed)


def _step(run: _Run, batch: Batch, recipe: Recipe) -> float:
    found = batch.moved + run.net(batch.seen, batch.moved, batch.unexplained)
    loss = loss_of(found, batch, recipe.wrong)
    run.optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    run.optimiser.step()
    run.step += 1
    keep = min(recipe.average, run.step / (run.step + 20))
    with torch.no_grad():
        for kept, now in zip(run.average.parameters(), run.net.parameters(), strict=True):
            kept.lerp_(now, 1 - keep)
    return float(loss.detach())


def loss_of(found: Tensor, batch: Batch, wrong: float) -> Tensor:
    """Return the Kullback-Leibler divergence from the network's own scores, plus the cross-entropy of the labels if given."""
    taught = batch.moved.argmax(1) != batch.wanted.argmax(1)
    weight = batch.inside * (1 + wrong * taught)
    apart = functional.kl_div(
        functional.log_softmax(found, 1), functional.log_softmax(batch.wanted, 1), log_target=True, reduction="none"
    ).sum(1)
    loss = (apart * weight).sum() / weight.sum().clamp(min=1)
    if batch.labels is None:
        return loss
    size = batch.labels.shape[1:]
    known = batch.labels != IGNORE
    weight = known * (1 + wrong * (_enlarged(batch.moved, size).argmax(1) != batch.labels))
    crossed = functional.cross_entropy(_enlarged(found, size), batch.labels, ignore_index=IGNORE, reduction="none")
    return loss + (crossed * weight).sum() / weight.sum().clamp(min=1)


def _enlarged(scores: Tensor, size: torch.Size) -> Tensor:
    return functional.interpolate(scores, size=size, mode="bilinear", align_corners=False)
