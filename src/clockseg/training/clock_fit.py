"""The steps of the training of a clock, and the state it resumes from."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from clockseg.errors import UsageError
from clockseg.training.clock_net import ClockNet, stacked
from clockseg.training.clock_samples import Samples
from clockseg.training.state import Log, load_state, save_state


class Recipe(NamedTuple):
    """``steps`` of ``batch`` samples; the learning rate falls from ``rate`` to 0; ``save``: steps between states."""

    steps: int = 1500
    batch: int = 64
    rate: float = 3e-3
    decay: float = 1e-3
    save: int = 250


def keep_samples(found: Samples, settings: str, file: Path) -> None:
    """Begin the state in ``file``: what was gathered, so that resuming need not gather it again."""
    kept = {name: torch.from_numpy(value) for name, value in found.values.items()}
    state = {"values": kept, "change": torch.from_numpy(found.change), "plain": torch.from_numpy(found.plain)}
    save_state({"settings": settings, "samples": state, "fit": None}, file)


def kept_samples(settings: str, file: Path) -> Samples:
    """Return the samples in the state; ``UsageError`` if it is of another training."""
    state = load_state(file, torch.device("cpu"))
    if state.get("settings") != settings:
        raise UsageError(
            f"{file} is of a training with {state.get('settings')}, and this one has {settings}; give the same data and "
            "options, or train without --resume."
        )
    found = state["samples"]
    return Samples(
        {name: value.numpy() for name, value in found["values"].items()},
        found["change"].numpy(),
        found["plain"].numpy(),
    )


def fit(found: Samples, file: Path, *, recipe: Recipe, seed: int, log: Log) -> ClockNet:
    """The net that predicts ``found.change`` best, by cross-entropy with shares; goes on from ``file`` where it can."""
    torch.manual_seed(seed)
    values = {name: torch.from_numpy(value) for name, value in found.values.items()}
    change = torch.from_numpy(found.change)
    net = _begun(values, change)
    steps = torch.optim.AdamW(net.parameters(), lr=recipe.rate, weight_decay=recipe.decay)
    state = load_state(file, torch.device("cpu"))
    first = 0
    if state["fit"] is not None:
        net.load_state_dict(state["fit"]["net"])
        steps.load_state_dict(state["fit"]["steps"])
        first = int(state["fit"]["step"])
    began = time.monotonic()
    for step in range(first, recipe.steps):
        for group in steps.param_groups:
            group["lr"] = recipe.rate * (1 + math.cos(math.pi * step / recipe.steps)) / 2
        loss = _step(net, steps, values, change, np.random.default_rng((seed, step)), recipe.batch)
        if (step + 1) % recipe.save == 0 or step + 1 == recipe.steps:
            fitted = {"net": net.state_dict(), "steps": steps.state_dict(), "step": step + 1}
            save_state({**state, "fit": fitted}, file)
            minutes = (time.monotonic() - began) / 60
            log({"event": "step", "step": step + 1, "of": recipe.steps, "loss": loss, "minutes": round(minutes, 3)})
    net.eval()
    return net


def _begun(values: dict[str, Tensor], change: Tensor) -> ClockNet:
    """Before the first step: what it reads has mean 0 and deviation 1, and it answers with about the mean change."""
    planes = stacked(values)
    places = [0, *range(2, planes.ndim)]
    net = ClockNet(tuple(values), planes.mean(places), planes.std(places).clamp_min(1e-4))
    mean = float(change.mean().clamp(1e-4, 1 - 1e-4))
    with torch.no_grad():
        net.last.bias.fill_(math.log(mean / (1 - mean)))
    return net


def _step(
    net: ClockNet,
    steps: torch.optim.Optimizer,
    values: dict[str, Tensor],
    change: Tensor,
    random: np.random.Generator,
    batch: int,
) -> float:
    chosen = torch.from_numpy(random.integers(0, len(change), batch))
    picked: dict[str, Any] = {name: value[chosen] for name, value in values.items()}
    if "now" in picked and random.random() < 0.5:
        # A mirrored picture changes as much.
        picked = {name: value.flip(-1) if value.ndim == 4 else value for name, value in picked.items()}
    loss = binary_cross_entropy_with_logits(net(picked), change[chosen])
    steps.zero_grad()
    loss.backward()
    steps.step()
    return float(loss.detach())
