"""A torch module that is cut, and its pieces as functions: exported again for each shape of frame that comes."""

from __future__ import annotations

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
from clockseg.graph.torch_export import check_shape, pick
from clockseg.graph.torch_extraction import Settle, Tensors, frozen, shared, split_up
from clockseg.graph.torch_reader import Program, read

SHAPES = 4
"""Shapes of frames whose graphs are kept, besides the first."""
FINISH, WHOLE = "finish", "whole"
"""Names of the pieces that are no stages and no groups."""
Key: TypeAlias = tuple[tuple[int, ...], torch.dtype, torch.device]
Step: TypeAlias = Callable[[Tensor], Tensor]
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
        tensors = (t for t in (*self.module.parameters(), *self.module.buffers()) if t.is_floating_point())
        like = next(tensors, self.example)
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
class Piece:
    """A part of a cut module as a function for ``TorchPart``: maps by name and the frame's size -> maps by name.

    ``name``: of a stage, a group, ``FINISH`` or ``WHOLE``. ``before`` makes of the frame, for a type, what the module reads;
    ``after`` of its output, for a size, what is wanted, which is then called ``last``.
    """

    source: Source
    name: str
    before: Callable[[torch.dtype], Step] | None = None
    after: Callable[[tuple[int, ...]], Step] | None = None
    last: str | None = None

    def __call__(self, maps: dict[str, Tensor], size: tuple[int, ...]) -> dict[str, Tensor]:
        shape, _, device = self.source.key(self.shape(size))
        given = [maps[name].to(device) for name in self.inputs]
        try:
            made = self._around(self._inside(shape), size)(*given)
        except AttributeError as error:
            raise NetworkError(f"the module was changed since it was cut ({error}); cut it again.") from error
        return self.named(made, given)

    def shape(self, size: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of what the module reads, for a frame of ``size``."""
        return size[::-1] if len(size) > 2 else (1, 3, *size[::-1])

    @property
    def inputs(self) -> tuple[str, ...]:
        """The maps it reads, as they are called in values."""
        return self.source.first.ends[self.name][0]

    @property
    def outputs(self) -> tuple[str, ...]:
        """The maps it gives, as they are called in values."""
        return (self.last,) if self.last else self.source.first.ends[self.name][1]

    def frozen(self, size: tuple[int, ...], settle: Settle, device: torch.device) -> Inside:
        """Return this piece for frames of ``size``, on ``device`` with weights of its own (``torch_extraction.frozen``)."""
        there = self.source.at(self.shape(size))
        run = frozen(there.program, self.source.module, *there.ends[self.name], settle=settle, device=device)
        return self._around(lambda *given: run(*map(_laid_out, self.inputs, given)), size)

    def _around(self, run: Inside, size: tuple[int, ...]) -> Inside:
        """Return ``run`` with the steps before and after the piece, for frames of ``size``."""
        before = self.before(self.source.key(())[1]) if self.before else None
        after = self.after(size) if self.after else None

        def call(*given: Tensor) -> Tensors:
            read = [before(t) if before and name == IMAGE else t for t, name in zip(given, self.inputs, strict=True)]
            made = run(*read)
            return (after(made[0]),) if after else made

        return call

    def named(self, made: Tensors, given: Sequence[Tensor]) -> dict[str, Tensor]:
        """Return the results by name. Those in the memory of the frame itself are copied, since that belongs to the caller."""
        frames = {t.untyped_storage().data_ptr() for t, name in zip(given, self.inputs, strict=True) if name == IMAGE}
        return {
            name: t.clone() if t.untyped_storage().data_ptr() in frames else t
            for name, t in zip(self.outputs, made, strict=True)
        }

    def _whole(self, image: Tensor) -> Tensors:
        try:
            given = self.source.module(image)
        except RuntimeError:
            check_shape(self.source.module, image)
            raise
        return (pick(given, self.source.output),)

    def _inside(self, shape: tuple[int, ...]) -> Inside:
        if self.name == WHOLE:
            return self._whole
        there = self.source.at(shape)
        if self.name not in there.pieces:
            there.pieces[self.name] = shared(there.program, self.source.module, *there.ends[self.name])
        return there.pieces[self.name]


def _laid_out(name: str, given: Tensor) -> Tensor:
    """Return a map channels last, as convolutions are fastest, and the frame in f32."""
    given = given.float() if name == IMAGE and given.is_floating_point() else given
    return given.contiguous(memory_format=torch.channels_last) if given.dim() == 4 else given
