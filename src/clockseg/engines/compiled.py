"""A graph-backed part that an engine has taken over: compiled on first use at each working size, one run at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from clockseg._errors import ClocksegError, NetworkError
from clockseg._types import Array, Size
from clockseg.graph.part import Built, GraphPart, Tensors
from clockseg.stages import Part, StagedNetwork

Runner: TypeAlias = Callable[[Sequence[Array]], list[Array]]
"""What an engine makes of a model: inputs, in order -> outputs, in order, in memory of their own."""
Compile: TypeAlias = Callable[[Built], Runner]
SIZES = 3
"""Working sizes that stay compiled; the one not used for longest goes first."""


@dataclass
class CompiledPart:
    """``part``, compiled by ``compile`` for each working size when it first comes. Threads may share it."""

    part: GraphPart
    compile: Compile = field(repr=False)
    runners: dict[Size, Runner] = field(default_factory=dict, repr=False)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __call__(self, *values: Tensors) -> dict[str, Array]:
        size = self.part.frame_size(values)
        inputs = self.part.gather(values)
        with self.lock:
            made = self._runner(size)(inputs)
        return self.part.bundle(values, made, size)

    def _runner(self, size: Size) -> Runner:
        runner = self.runners.pop(size, None) or self._compile(size)
        while len(self.runners) >= SIZES:
            del self.runners[next(iter(self.runners))]
        self.runners[size] = runner
        return runner

    def _compile(self, size: Size) -> Runner:
        try:
            return self.compile(self.part.build(size))
        except ClocksegError:
            raise
        except Exception as error:  # engines raise what they like
            first = (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
            raise NetworkError(
                f"the engine can't compile part {self.part.name!r} at {size[0]}x{size[1]} ({first}). "
                "Give a smaller --size or another --engine."
            ) from error


def compiled(net: StagedNetwork, compile: Compile, engine: str) -> StagedNetwork:
    """``net`` with its graph-backed parts compiled on first use, by what is called ``engine``; others stay as they are."""

    def replaced(name: str, part: Part) -> Part:
        return CompiledPart(part, compile) if isinstance(part, GraphPart) else part

    return replace(net.map(replaced), engine=engine)
