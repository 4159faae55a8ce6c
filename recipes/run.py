"""The mutable state of a training run, and the device it computes on."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from clockseg.errors import UsageError


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
