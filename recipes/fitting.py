"""The loop that the trainings in torch share: steps with a falling rate, a log, and a state to resume from."""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from clockseg.errors import DataError, TrainingError, UsageError
from clockseg.files import whole

Log = Callable[[dict[str, Any]], None]
Net = TypeVar("Net", bound=nn.Module)

SAVED_SECONDS = 30
"""Seconds between two saved states."""


@dataclass(frozen=True)
class Recipe:
    """Length and rates of a training: ``steps`` of ``batch`` samples each.

    The learning rate rises for ``warm_up`` steps, then falls from ``rate`` to 0 in half a cosine. ``decay``: weight decay.
    ``average``: the share that the running average of the weights, which is the result, keeps at each step.
    """

    steps: int
    batch: int
    rate: float = 3e-3
    warm_up: int = 50
    decay: float = 1e-4
    average: float = 0.99


def log_to(file: Path, say: Log, *, fresh: bool) -> Log:
    """Return a function that appends an entry to ``file`` and passes it to ``say``; ``fresh`` starts the file again."""
    if fresh:
        file.unlink(missing_ok=True)

    def log(entry: dict[str, Any]) -> None:
        with file.open("a") as stream:
            stream.write(json.dumps(entry) + "\n")
        say(entry)

    return log


def save_state(state: dict[str, Any], file: Path) -> None:
    """Write everything that resuming needs; the file is renamed into place when complete."""
    with whole(file) as part:
        torch.save(state, part)


def load_state(file: Path, device: torch.device) -> dict[str, Any]:
    """Load the state to resume from: tensors and plain values only, never pickled code."""
    try:
        state: dict[str, Any] = torch.load(file, map_location=device, weights_only=True)
    except Exception as error:
        raise DataError(f"{file} can't be resumed from ({error}); delete it, or train without --resume.") from error
    return state


def check_resumed(file: Path, settings: dict[str, Any]) -> None:
    """Raise ``UsageError`` if the state in ``file`` is of a training with other ``settings``; no file is no error."""
    if not file.is_file():
        return
    before, now = load_state(file, torch.device("cpu")).get("settings"), json.dumps(settings)
    if before != now:
        raise UsageError(
            f"{file} is the state of a training with {before}; this one has {now}. Give the same data and options, or "
            "train without --resume."
        )


@dataclass
class _Run:
    """Everything that changes in a training."""

    net: nn.Module
    average: nn.Module
    optimiser: torch.optim.Optimizer
    settings: str
    step: int = 0
    seconds: float = 0.0

    def save(self, file: Path) -> None:
        parts = {name: getattr(self, name).state_dict() for name in ("net", "average", "optimiser")}
        save_state({**parts, "settings": self.settings, "step": self.step, "seconds": self.seconds}, file)

    def restore(self, file: Path) -> None:
        state = load_state(file, torch.device("cpu"))
        try:
            for name in ("net", "average", "optimiser"):
                getattr(self, name).load_state_dict(state[name])
            self.step, self.seconds = int(state["step"]), float(state["seconds"])
        except (RuntimeError, KeyError, ValueError, TypeError) as error:
            raise DataError(
                f"{file} is of another training ({error}); delete it, or train without --resume."
            ) from error

    def learn(self, loss: Tensor, rate: float, average: float) -> None:
        """Take one step down the slope of ``loss``."""
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self.step += 1
        keep = min(average, self.step / (self.step + 20))
        with torch.no_grad():
            for kept, now in zip(self.average.parameters(), self.net.parameters(), strict=True):
                kept.lerp_(now, 1 - keep)


def fit(
    net: Net,
    loss_of: Callable[[Net, np.random.Generator], Tensor],
    recipe: Recipe,
    state: Path,
    *,
    settings: dict[str, Any],
    seed: int = 0,
    minutes: float | None = None,
    resume: bool = False,
    log: Log = lambda entry: None,
) -> Net:
    """Return the averaged ``net`` after ``recipe.steps``, or after ``minutes`` if that is sooner; the rate falls to 0 either way.

    ``loss_of(net, random)``: the loss of a batch drawn by ``random``, which depends on ``seed`` and the step alone.
    ``state``: the file to resume from if ``resume``, written every half minute with its ``settings``. ``TrainingError`` if
    the loss is not finite.
    """
    optimiser = torch.optim.AdamW(net.parameters(), lr=recipe.rate, weight_decay=recipe.decay)
    run = _Run(net, copy.deepcopy(net), optimiser, json.dumps(settings))
    if resume and state.is_file():
        run.restore(state)
    saved, losses = time.monotonic(), list[float]()
    while (done := max(run.step / recipe.steps, run.seconds / 60 / minutes if minutes else 0.0)) < 1:
        start = time.perf_counter()
        loss = loss_of(net, np.random.default_rng([seed, run.step]))
        losses.append(float(loss.detach()))
        if not math.isfinite(losses[-1]):
            raise TrainingError(f"the loss is {losses[-1]} at step {run.step + 1}; check the data, or lower the rate.")
        rate = recipe.rate * min(1.0, (run.step + 1) / recipe.warm_up) * (1 + math.cos(math.pi * done)) / 2
        run.learn(loss, rate, recipe.average)
        run.seconds += time.perf_counter() - start
        if run.step % max(1, recipe.steps // 20) == 0:  # twenty entries in all
            facts = {"step": run.step, "of": recipe.steps, "loss": round(float(np.mean(losses)), 4)}
            log({"event": "step", **facts, "minutes": round(run.seconds / 60, 2)})
            losses.clear()
        if time.monotonic() - saved > SAVED_SECONDS:
            run.save(state)
            saved = time.monotonic()
    run.save(state)
    averaged: Net = run.average.eval()
    return averaged
