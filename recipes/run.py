"""Everything that trainings have in common: the choices of a user, the log that begins one, its mutable state, and the device."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clockseg.errors import TrainingError, UsageError
from recipes.fitting import Log, log_to


@dataclass(frozen=True)
class Choices:
    """Options of the training; None leaves one to the recipe. `view` is (width, height), `minutes` a limit per network.

    `bf16`: whether convolutions compute in bfloat16; None: on a GPU they do, on a CPU they don't.
    """

    device: str = "cpu"
    seed: int = 0
    workers: int = max(1, os.cpu_count() or 1)
    resume: bool = False
    iterations: int | None = None
    batch: int | None = None
    view: tuple[int, int] | None = None
    minutes: float | None = None
    bf16: bool | None = None
    imagenet: bool = True

    def goes_on(self, out: Path) -> bool:
        """Return True if a training is resumed for which there is a state in `out`."""
        return self.resume and (out / "state.pt").exists()

    def in_bf16(self, where: torch.device) -> bool:
        """Return True if convolutions compute in bfloat16 there."""
        return where.type == "cuda" if self.bf16 is None else self.bf16


@dataclass
class Run:
    """The only thing that changes in a training.

    `average`: a network with the running averages of the weights, where they are wanted; `averaged`: its tensors and
    those of `net`, as they are in memory.
    """

    net: nn.Module
    optimiser: torch.optim.Optimizer
    average: Any = None
    averaged: tuple[list[Tensor], list[Tensor]] = ([], [])
    step: int = 0
    seconds: float = 0.0

    def state(self) -> dict[str, Any]:
        """All of it, as tensors and plain values."""
        cuda = torch.cuda.get_rng_state() if next(self.net.parameters()).is_cuda else None
        return {
            "net": self.net.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "step": self.step,
            "optimiser": self.optimiser.state_dict(),
            "seconds": self.seconds,
            "rng": torch.get_rng_state(),
            "cuda": cuda,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Goes back to a saved state."""
        self.net.load_state_dict(state["net"])
        if self.average is not None:
            self.average.load_state_dict(state["average"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.step, self.seconds = state["step"], state["seconds"]
        torch.set_rng_state(state["rng"].cpu())
        if state["cuda"] is not None and torch.cuda.is_available():
            torch.cuda.set_rng_state(state["cuda"].cpu())


def device(name: str) -> torch.device:
    """The device of that name, cpu or cuda; `UsageError` if it isn't there."""
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda: torch finds no CUDA device here; use --device cpu.")
    if name not in ("cpu", "cuda"):
        raise UsageError(f"device {name!r}; allowed are cpu and cuda.")
    return torch.device(name)


def device_name(device: torch.device) -> str:
    """Return the device's name for a log."""
    return (
        torch.cuda.get_device_name() if device.type == "cuda" else f"CPU ({platform.machine()}, {os.cpu_count()} cores)"
    )


DEFAULTS = Choices()


def check_out(files: Iterable[Path], out: Path, *, resume: bool) -> None:
    """Refuse with a `UsageError` to overwrite a training, whose `files` are in `out`, by one started without --resume."""
    there = [file.name for file in files if file.exists()]
    if there and not resume:
        raise UsageError(
            f"{out} holds a training already ({', '.join(there)}): go on with it by --resume, or give another --out."
        )


def begin(out: Path, where: torch.device, say: Log, *, seed: int, resume: bool, **entry: Any) -> Log:
    """Make the folder of a training and its log.jsonl, whose first entry says what is trained, and seed torch."""
    out.mkdir(parents=True, exist_ok=True)
    log = log_to(out / "log.jsonl", say, fresh=not resume)
    log({"event": "start", **entry, "torch": torch.__version__, "device": device_name(where)})
    torch.manual_seed(seed)
    return log


def check_loss(loss: float, step: int, rate: float) -> None:
    """`TrainingError` if a loss is not finite."""
    if not math.isfinite(loss):
        raise TrainingError(
            f"the loss is {loss} at step {step}, at a rate of {rate:g}: the steps are too large. Train again with a lower rate, "
            f"such as {rate / 10:g}, or go on from the last saved state with it and --resume."
        )
