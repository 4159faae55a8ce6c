"""A graph-backed part that an engine has taken over: compiled on first use at each working size, one run at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from clockseg.clockwork.network import Part, StagedNetwork
from clockseg.errors import ClocksegError, NetworkError, UsageError
from clockseg.execution.fused import SIZES, fused
from clockseg.graph.part import Built, GraphPart, Tensors
from clockseg.types import Array, Size

Runner: TypeAlias = Callable[[Sequence[Array]], list[Array]]
"""What an engine makes of a model: inputs, in order -> outputs, in order, in memory of their own."""
Compile: TypeAlias = Callable[[Built], Runner]


@dataclass
class CompiledPart:
    """``part``, compiled by ``compile`` for each working size when it first comes. Threads may share it.

    A forked child compiles anew, since the threads of the engine do not exist in it.
    """

    part: GraphPart
    compile: Compile = field(repr=False)
    runners: dict[Size, Runner] = field(default_factory=dict, repr=False)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    process: int = field(default_factory=os.getpid, repr=False)

    def __call__(self, *values: Tensors) -> dict[str, Array]:
        size = self.part.frame_size(values)
        inputs = self.part.gather(values)
        if self.process != os.getpid():
            self.runners, self.lock, self.process = {}, threading.Lock(), os.getpid()
        with self.lock:
            made = self._run(self._runner(size), inputs)
        return self.part.bundle(values, made, size)

    def _run(self, runner: Runner, inputs: Sequence[Array]) -> list[Array]:
        try:
            return runner(inputs)
        except ClocksegError:
            raise
        except Exception as error:
            raise NetworkError(
                f"the engine can't run part {self.part.name!r} ({_reason(error)}). Give another --engine, or export the "
                "network anew."
            ) from error

    def _runner(self, size: Size) -> Runner:
        runner = self.runners.pop(size, None) or self._compile(size)
        while len(self.runners) >= SIZES:
            del self.runners[next(iter(self.runners))]
        self.runners[size] = runner
        return runner

    def _compile(self, size: Size) -> Runner:
        try:
            built = self.part.build(size)
            runner = self.compile(built)
        except ClocksegError:
            raise
        except Exception as error:  # engines raise what they like
            raise NetworkError(
                f"the engine can't compile part {self.part.name!r} at {size[0]}x{size[1]} ({_reason(error)}). "
                "Give a smaller --size or another --engine."
            ) from error
        read = self.part.read_by(built)
        if read == self.part.inputs:
            return runner
        positions = [self.part.inputs.index(name) for name in read]
        return lambda inputs: runner([inputs[position] for position in positions])


def _reason(error: Exception) -> str:
    """What an engine says last, where it says why."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()


def of_graphs(net: StagedNetwork) -> bool:
    """Whether any part of ``net`` is a graph that is not compiled yet."""
    found: list[bool] = []

    def seen(name: str, part: Part) -> Part:
        found.append(isinstance(part, GraphPart))
        return part

    net.map(seen)
    return any(found)


def compiled(net: StagedNetwork, compile: Compile, engine: str, *, same_bits: str = "") -> StagedNetwork:
    """``net`` with its graph-backed parts compiled on first use, by what is called ``engine``; others stay as they are.

    Parts that run together are compiled as one as well (``execution.fused``). ``same_bits``: all that the bits of results
    depend on, as text: then it is kept on disk which parts may run as one. ``UsageError`` if there is nothing to compile.
    """
    if not of_graphs(net):
        raise UsageError(
            f"network {net.name!r} has no parts of an ONNX graph, which {engine} compiles; it runs in {net.engine}. Load its "
            "NAME.onnx with engine=None; a torch module runs in clockseg.engines.torch, or is exported to ONNX and cut by "
            "`clockseg cut`."
        )

    def made(part: GraphPart) -> Part:
        return CompiledPart(part, compile)

    def replaced(name: str, part: Part) -> Part:
        return made(part) if isinstance(part, GraphPart) else part

    parts = replace(net.map(replaced), engine=engine)

    def shared(part: GraphPart) -> Part:
        return parts.whole if parts.whole is not None and part is net.whole else made(part)

    return fused(net, parts, shared, same_bits)
