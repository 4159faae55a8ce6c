"""Parts of a network that compute in torch, and the values that pass between them.

A value is a dict of maps by name, and under ``FRAME_SIZE`` of what was given: (WIDTH, HEIGHT) of a frame, or the shape of
a tensor from its last side to its first, which starts with the same two.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from clockseg.clockwork.network import same
from clockseg.errors import NetworkError, UsageError
from clockseg.graph.part import FRAME_SIZE, IMAGE, LABELS
from clockseg.graph.torch_export import check_shape, pick
from clockseg.graph.torch_extraction import Settle, Tensors, frozen, shared
from clockseg.graph.torch_source import WHOLE, Inside, Source
from clockseg.types import Array

Maps: TypeAlias = Mapping[str, Any]
"""The values that pass between parts: maps by name, tensors or numpy arrays, and the frame's size."""
Run: TypeAlias = Callable[["TorchPart", tuple[int, ...], Sequence[Tensor]], Tensors]
"""Computes a part, for frames of a size, from its inputs in their order."""


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
    """A part of the cut module ``source`` that computes in torch: a stage, a group, ``FINISH`` or ``WHOLE``, by its ``name``.

    ``before`` makes of the frame what the module reads, in the type that it is given; ``after`` of its output what is wanted,
    for the size that it is given, which is then called ``last``. ``arrays``: what the part makes leaves as numpy arrays; labels
    always do. ``trains``: torch's own grad mode holds, so that gradients may flow; else there are none. ``run``: an engine's,
    which computes on ``device``; None: with the module's own weights, on their device. What it gives is in memory of its own,
    which no later run writes to.
    """

    source: Source
    name: str
    before: Callable[[Tensor, torch.dtype], Tensor] | None = None
    after: Callable[[Tensor, tuple[int, ...]], Tensor] | None = None
    last: str | None = None
    arrays: bool = True
    trains: bool = False
    run: Run | None = None
    device: torch.device | None = None

    def __call__(self, *values: Maps) -> dict[str, Any]:
        size = values[0][FRAME_SIZE] if FRAME_SIZE in values[0] else np.array(values[0][IMAGE].shape[2:0:-1])
        maps = {name: map for value in values for name, map in value.items()}
        device = self.device or self.source.key(())[2]
        given = [_tensor(maps[name]).to(device) for name in self.inputs]
        with nullcontext() if self.trains else torch.inference_mode():
            made = (self.run or TorchPart._shared)(self, tuple(int(side) for side in size), given)
            found = self._named(made, given)
        left = {name: array(map) if name == LABELS or self.arrays else map for name, map in found.items()}
        return left | {FRAME_SIZE: size}

    @property
    def inputs(self) -> tuple[str, ...]:
        """The maps it reads, as they are called in values."""
        return self.source.first.ends[self.name][0]

    @property
    def outputs(self) -> tuple[str, ...]:
        """The maps it gives, as they are called in values."""
        return (self.last,) if self.last else self.source.first.ends[self.name][1]

    def frozen(
        self, size: tuple[int, ...], settle: Settle, device: torch.device, compile: Callable[[Inside], Inside] = same
    ) -> Inside:
        """Return a function that computes this part for frames of ``size``, on ``device`` with weights of its own.

        ``settle``: see ``torch_extraction.frozen``. ``compile``: applied to the part's graph, whose code is its own, and not to
        the steps around it: of functions that share code, torch keeps only a few compiled.
        """
        there = self.source.at(_shape(size))
        graph = frozen(there.program, self.source.module, *there.ends[self.name], settle=settle, device=device)
        run = compile(graph)
        return self._around(lambda *given: run(*map(_laid_out, self.inputs, given)), size)

    def _shared(self, size: tuple[int, ...], given: Sequence[Tensor]) -> Tensors:
        """Compute with the module's own weights."""
        try:
            return self._around(self._inside(_shape(size)), size)(*given)
        except AttributeError as error:
            raise NetworkError(f"the module was changed since it was cut ({error}); cut it again.") from error

    def _inside(self, shape: tuple[int, ...]) -> Inside:
        if self.name == WHOLE:
            return self._whole
        there = self.source.at(shape)
        if self.name not in there.pieces:
            there.pieces[self.name] = shared(there.program, self.source.module, *there.ends[self.name])
        return there.pieces[self.name]

    def _whole(self, image: Tensor) -> Tensors:
        try:
            given = self.source.module(image)
        except RuntimeError:
            check_shape(self.source.module, image)
            raise
        return (pick(given, self.source.output),)

    def _around(self, run: Inside, size: tuple[int, ...]) -> Inside:
        """Return ``run`` with the steps before and after the part, for frames of ``size``."""
        before, after, dtype = self.before, self.after, self.source.key(())[1]

        def call(*given: Tensor) -> Tensors:
            pairs = zip(given, self.inputs, strict=True)
            made = run(*(before(map, dtype) if before and name == IMAGE else map for map, name in pairs))
            return (after(made[0], size),) if after else made

        return call

    def _named(self, made: Tensors, given: Sequence[Tensor]) -> dict[str, Tensor]:
        """Return the results by name. Those in the memory of the frame itself are copied, since that belongs to the caller."""
        frames = {t.untyped_storage().data_ptr() for t, name in zip(given, self.inputs, strict=True) if name == IMAGE}
        return {
            name: t.clone() if t.untyped_storage().data_ptr() in frames else t
            for name, t in zip(self.outputs, made, strict=True)
        }


def _tensor(map: Any) -> Tensor:
    """Return a map as a tensor; torch warns of arrays that mustn't be written to, such as decoded frames."""
    if isinstance(map, np.ndarray):
        map = torch.from_numpy(map if map.flags.writeable else map.copy())
    found: Tensor = map
    return found


def _shape(size: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of what the module reads, for a frame of ``size``."""
    return size[::-1] if len(size) > 2 else (1, 3, *size[::-1])


def _laid_out(name: str, given: Tensor) -> Tensor:
    """Return a map channels last, as convolutions are fastest, and the frame in f32."""
    given = given.float() if name == IMAGE and given.is_floating_point() else given
    return given.contiguous(memory_format=torch.channels_last) if given.dim() == 4 else given


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
