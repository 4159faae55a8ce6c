"""Where a training computes."""

from __future__ import annotations

import os
import platform

import torch

from clockseg.errors import UsageError


def device(name: str) -> torch.device:
    """The device of that name, cpu or cuda; `UsageError` if it isn't there."""
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda: torch finds no CUDA device here; use --device cpu.")
    if name not in ("cpu", "cuda"):
        raise UsageError(f"device {name!r}; allowed are cpu and cuda.")
    return torch.device(name)


def device_name(device: torch.device) -> str:
    """What it is called, for a log."""
    return (
        torch.cuda.get_device_name() if device.type == "cuda" else f"CPU ({platform.machine()}, {os.cpu_count()} cores)"
    )
