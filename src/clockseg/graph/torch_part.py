"""Parts of a network that compute in torch, and the values that pass between them.

A value is a dict of maps by name, and under ``FRAME_SIZE`` of what was given: (WIDTH, HEIGHT) of a frame, or the shape of
a tensor from its last side to its first, which starts with the same two.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from clockseg.errors import UsageError
from clockseg.graph.part import FRAME_SIZE, IMAGE, LABELS
from clockseg.types import Array

Maps: TypeAlias = Mapping[str, Any]
"""What passes between parts: maps by name, tensors or numpy arrays, and the frame's size."""
Function: TypeAlias = Callable[[dict[str, Tensor], tuple[int, ...]], dict[str, Tensor]]
"""Maps by name and the frame's size -> maps by name."""


def _after_fork() -> None:
    """Compute on one thread in a forked child: torch would wait for ever for the parent's other threads."""
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def device_called(name: str) -> torch.device:
    """Return the device of that name, such as cpu or cuda:0; ``UsageError`` if it isn't there.

    >>> device_called("cpu")
    device(type='cpu')
    """
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"device {name!r} isn't available ({str(error).splitlines()[0]}); give cpu.") from error
    return device


@dataclass(frozen=True)
class TorchPart:
    """A part that computes in torch: ``function`` takes maps by name and the frame's size, and gives maps by name.

    ``device``: where maps are brought to; None: ``function`` sees to that. ``arrays``: what it makes leaves as numpy
    arrays; labels always do. ``trains``: torch's own grad mode holds, so that gradients may flow; else there are none.
    What it gives is in memory of its own, which no later run writes to.
    """

    function: Function
    device: torch.device | None = None
    arrays: bool = True
    trains: bool = False

    def __call__(self, *values: Maps) -> dict[str, Any]:
        size = values[0][FRAME_SIZE] if FRAME_SIZE in values[0] else np.array(values[0][IMAGE].shape[2:0:-1])
        given = {name: self._enter(map) for value in values for name, map in value.items() if name != FRAME_SIZE}
        with nullcontext() if self.trains else torch.inference_mode():
            made = self.function(given, tuple(int(side) for side in size))
        return {name: self._leave(name, map) for name, map in made.items()} | {FRAME_SIZE: size}

    def _enter(self, map: Any) -> Tensor:
        if isinstance(map, np.ndarray):
            # torch warns of arrays that mustn't be written to; decoded frames may be such.
            map = torch.from_numpy(map if map.flags.writeable else map.copy())
        found: Tensor = map if self.device is None else map.to(self.device)
        return found

    def _leave(self, name: str, map: Tensor) -> Any:
        return array(map) if name == LABELS or self.arrays else map


def array(map: Any) -> Array:
    """Return a map as a numpy array; in f32 where numpy lacks the type.

    >>> array(torch.ones(2, dtype=torch.bfloat16)).dtype
    dtype('float32')
    """
    if isinstance(map, Tensor):
        map = (map.float() if map.dtype == torch.bfloat16 else map).numpy(force=True)
    found: Array = map
    return found


@dataclass(frozen=True)
class Shown:
    """From a value, the map of this name as an array, for clocks to look at."""

    name: str

    def __call__(self, value: Maps) -> Array:
        return array(value[self.name])
