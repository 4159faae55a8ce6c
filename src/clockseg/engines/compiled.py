"""Parts of a network compiled by an engine: at the first frame of each working size, one run at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeAlias, TypeVar

from clockseg.clockwork.network import Part, StagedNetwork
from clockseg.errors import ClocksegError, NetworkError, UsageError, fault
from clockseg.execution.fused import SIZES, fused, named_parts
from clockseg.graph.part import Built, GraphPart, Tensors
from clockseg.types import Array, Size

Runner: TypeAlias = Callable[[Sequence[Array]], list[Array]]
"""A compiled model: a function from inputs to outputs, both in the model's order. Outputs are in memory of their own."""
Compile: TypeAlias = Callable[[Built], Runner]
Key = TypeVar("Key", bound=Hashable)
Made = TypeVar("Made")


_REMEDY = (
    'Use another --size (most networks fit multiples of 32: "pad_multiple" under "input" in the network\'s NAME.json pads frames '
    "to them), a smaller one if memory ran out, or another --engine."
)


class PerSize(Generic[Key, Made]):
    """Functions made for one size each, the most recently used. Threads share them: only one makes or runs one at a time.

    A forked child starts empty, because the threads of an engine do not exist in it.
    """

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self.kept, self._lock, self._process = dict[Key, Callable[..., Made]](), threading.Lock(), os.getpid()

    def __len__(self) -> int:
        """Return the number of functions that are kept."""
        return len(self.kept)

    def run(self, size: Key, make: Callable[[Key], Callable[..., Made]], *given: Any, most: int) -> Made:
        """Call the function for ``size``, from ``make`` if there is none yet; at most ``most`` functions are kept."""
        if self._process != os.getpid():
            self._start()
        with self._lock:
            found = self.kept.pop(size, None)
            while len(self.kept) >= most:
                del self.kept[next(iter(self.kept))]
            self.kept[size] = make(size) if found is None else found
            return self.kept[size](*given)


class CompiledPart:
    """``part`` compiled by ``compile`` for each working size. Threads may share it."""

    def __init__(self, part: GraphPart, compile: Compile) -> None:
        self.part, self.compile = part, compile
        self.runners = PerSize[Size, list[Array]]()

    def __call__(self, *values: Tensors) -> dict[str, Array]:
        size = self.part.frame_size(values)
        inputs = self.part.gather(values)
        try:
            made = self.runners.run(size, self._compiled, inputs, most=SIZES)
        except Exception as error:
            self._explain("run", size, error)
            raise
        wanted = len(self.part.made)
        if not isinstance(made, list | tuple) or len(made) != wanted:
            given = f"a list of {len(made)}" if isinstance(made, list | tuple) else repr(made)
            raise NetworkError(
                f"the engine returned {given} for part {self.part.name!r}; return a list of {wanted} arrays."
            )
        return self.part.bundle(inputs, made, size)

    def _explain(self, what: str, size: Size, error: Exception) -> None:
        """Raise ``NetworkError`` for an engine's error, of whatever type: what it can't do, and what may help."""
        if isinstance(error, ClocksegError):
            return
        # The last line of an engine's message names the cause.
        reason = ((fault(error) or str(error)).strip().splitlines() or [type(error).__name__])[-1].strip()
        raise NetworkError(
            f"the engine can't {what} part {self.part.name!r} at {size[0]}x{size[1]} ({reason}). {_REMEDY}"
        ) from error

    def _compiled(self, size: Size) -> Runner:
        try:
            built = self.part.build(size)
            runner = self.compile(built)
        except Exception as error:
            self._explain("compile", size, error)
            raise
        if not callable(runner):
            raise NetworkError(
                f"the engine compiled part {self.part.name!r} to {runner!r}; return a function of a list of arrays."
            )
        read = self.part.read_by(built)
        if read == self.part.inputs:
            return runner
        positions = [self.part.inputs.index(name) for name in read]
        return lambda inputs: runner([inputs[position] for position in positions])


def has_graphs(net: StagedNetwork) -> bool:
    """Return True if any part of ``net`` is a graph that is not compiled yet."""
    return any(isinstance(part, GraphPart) for part in named_parts(net).values())


def compiled(net: StagedNetwork, compile: Compile, engine: str, *, same_bits: str = "") -> StagedNetwork:
    """Return ``net`` with its graph-backed parts compiled at first use by the engine of this name. Other parts stay as they are.

    Parts that run together are also compiled as one model (``execution.fused``). ``same_bits``: everything that the bits of the
    results depend on, as text; with it, the verdict which parts may run as one model is kept on disk. ``UsageError`` if no part
    is a graph.
    """
    if not has_graphs(net):
        raise UsageError(
            f"network {net.name!r} has no parts of an ONNX graph, which {engine} compiles; it runs in {net.engine}. Load its "
            "NAME.onnx with engine=None; a torch module runs in clockseg.engines.torch, or is exported to ONNX and cut by "
            "`clockseg cut`."
        )

    def replaced(name: str, part: Part) -> Part:
        return CompiledPart(part, compile) if isinstance(part, GraphPart) else part

    parts = replace(net.map(replaced), engine=engine)

    def shared(part: GraphPart) -> Part:
        return parts.whole if parts.whole is not None and part is net.whole else CompiledPart(part, compile)

    return fused(net, parts, shared, same_bits)
