"""A torch module that is cut: exported again for each shape of frame that comes, and divided."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from clockseg.errors import NetworkError
from clockseg.graph.part import IMAGE
from clockseg.graph.rule import Division, divide
from clockseg.graph.split import splits
from clockseg.graph.torch_extraction import Tensors, split_up
from clockseg.graph.torch_reader import Program, read

SHAPES = 4
"""Shapes of frames whose graphs are kept, besides the first."""
FINISH, WHOLE = "finish", "whole"
"""Names of the pieces that are no stages and no groups."""
Key: TypeAlias = tuple[tuple[int, ...], torch.dtype, torch.device]
Inside: TypeAlias = Callable[..., Tensors]
"""Tensors in, tensors out."""
Ends: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""The tensors that a piece reads, and those that it gives, by name."""


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
