"""A torch module that is cut, exported for each shape of frame that comes, and its parts, which compute in torch.

A value that passes between parts is a dict of maps by name, and under ``FRAME_SIZE`` of what was given: (WIDTH, HEIGHT) of a frame, or the shape of
a tensor from its last side to its first, which starts with the same two.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from clockseg.clockwork.network import same
from clockseg.errors import NetworkError, UsageError
from clockseg.graph.part import FRAME_SIZE, IMAGE, LABELS
from clockseg.graph.rule import Division, divide
from clockseg.graph.split import splits
from clockseg.graph.torch_export import check_shape, pick
from clockseg.graph.torch_extraction import Settle, Tensors, frozen, shared, split_up
from clockseg.graph.torch_reader import Program, read
from clockseg.types import Array

SHAPES = 4
"""Shapes of frames whose graphs are kept, besides the first."""
FINISH, WHOLE = "finish", "whole"
"""Names of the pieces that are no stages and no groups."""
Key: TypeAlias = tuple[tuple[int, ...], torch.dtype, torch.device]
Inside: TypeAlias = Callable[..., Tensors]
"""Tensors in, tensors out."""
Ends: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""The tensors that a piece reads, and those that it gives, by name."""
Maps: TypeAlias = Mapping[str, Any]
"""The values that pass between parts: maps by name, tensors or numpy arrays, and the frame's size."""
Run: TypeAlias = Callable[["TorchPart", tuple[int, ...], Sequence[Tensor]], Tensors]
"""Computes a part, for frames of a size, from its inputs in their order."""


if hasattr(os, "register_at_fork"):
    # In a forked child torch would wait for ever for the parent's other threads.
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


def device_called(name: str) -> torch.device:
    """Return the device of that name, such as cpu or cuda:0; ``UsageError`` if it isn't there."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"device {name!r} isn't available ({str(error).splitlines()[0]}); give cpu.") from error
    return device


@dataclass(frozen=True)
class Dissected:
    """A module exported for one shape of frame, and divided; the pieces made of it so far, by name."""

    program: Program
    division: Division
    pieces: dict[str, Inside] = field(default_factory=dict)

    @cached_property
    def ends(self) -> dict[str, Ends]:
        """The inputs and outputs of each piece, by its name."""
        output = (self.division.output,)
        ends = {part.name: (part.inputs, part.outputs) for part in self.division.parts}
        return ends | {FINISH: ((self.division.scores,), output), WHOLE: ((IMAGE,), output)}

    def skeleton(self) -> list[Any]:
        """Return the properties that must be the same at every shape: the parts, and the numbers of tensors between them."""
        counts = {name: (len(given), len(made)) for name, (given, made) in self.ends.items()}
        return [counts, [len(stage.trunk) for stage in self.division.stages], [g.reads for g in self.division.groups]]


class Source:
    """``module`` cut at ``cuts`` (chosen from its names), its weights its own. Threads may share it.

    ``example``: a tensor like those that come; only its shape, type and device count.
    """

    def __init__(
        self,
        module: nn.Module,
        example: Tensor,
        output: str | None,
        cuts: Callable[[Program], Sequence[Sequence[str]]],
        names: Sequence[str],
        scores: Sequence[str | None],
    ) -> None:
        self.module, self.output = module, output
        self.example = torch.empty(0, dtype=example.dtype, device=example.device)
        self.lock, self._kept = threading.RLock(), lru_cache(SHAPES)(self._dissected)
        program = read(module, example, output)
        self.cuts = [[program.names(name) for name in cut] for cut in cuts(program)]
        self.scores = [None if name is None else program.names(name) for name in scores]
        self.names = tuple(names)
        self.first, self.first_key = self._divided(program), self.key(tuple(example.shape))

    def key(self, shape: tuple[int, ...]) -> Key:
        """Return the key of a graph: the shape of the frame, with the type and device of the module."""
        tensors = itertools.chain(self.module.parameters(), self.module.buffers())
        like = next((tensor for tensor in tensors if tensor.is_floating_point()), self.example)
        dtype = like.dtype if self.example.is_floating_point() else self.example.dtype
        return shape, dtype, like.device

    def at(self, shape: tuple[int, ...]) -> Dissected:
        """Return the module for frames of ``shape``, exported when that first comes."""
        with self.lock:
            return self._kept(self.key(shape))

    def _dissected(self, key: Key) -> Dissected:
        if key == self.first_key:
            return self.first
        shape, dtype, device = key
        found = self._divided(read(self.module, torch.empty(shape, dtype=dtype, device=device), self.output))
        if found.skeleton() != self.first.skeleton():
            raise NetworkError(
                f"at {'x'.join(map(str, shape))} the module takes another way than at "
                f"{'x'.join(map(str, self.first_key[0]))}, where it was cut; cut it with an example of that shape."
            )
        return found

    def _divided(self, program: Program) -> Dissected:
        program = split_up(program, splits(program.graph, self.cuts, output=program.output))
        division = divide(program.graph, self.cuts, output=program.output, names=self.names, scores=self.scores)
        return Dissected(program, division)


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
    """Return a map as a numpy array; in f32 where numpy lacks the type."""
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
