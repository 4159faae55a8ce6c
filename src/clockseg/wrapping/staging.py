"""A module in parts, for one shape of what it reads: in torch, or exported and in an engine for ONNX graphs."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from clockseg.clockwork.network import StagedNetwork
from clockseg.engines import ENGINES, engine
from clockseg.engines import torch as in_torch
from clockseg.errors import NetworkError, UsageError, nearest
from clockseg.graph import onnx_reader
from clockseg.graph.choice import choose
from clockseg.graph.cost import node_work
from clockseg.graph.sidecar import Input, Sidecar
from clockseg.graph.staged import staged
from clockseg.graph.static import fix
from clockseg.graph.torch_export import pick
from clockseg.networks.cut_names import parse_cuts
from clockseg.networks.cut_torch import cut
from clockseg.networks.onnx_export import INPUT, OUTPUT, to_onnx
from clockseg.types import FRAME_SIZE, IMAGE, Array

Cuts: TypeAlias = Sequence[str | Sequence[str]] | Literal["auto"]
MODULE, TORCH = "module", "torch"


@dataclass(frozen=True)
class Staging:
    """Options for cutting and running a module; see ``clockseg.wrap``.

    ``engine``: "module" (torch, on the module's own weights), "torch" (on weights of now, laid out for speed), "auto", or a
    name of ``clockseg.engines.ENGINES``.
    """

    engine: str = TORCH
    precision: str = "f32"
    threads: int | None = None
    at: Cuts = "auto"
    stages: int = 3
    output: str | None = None

    def __post_init__(self) -> None:
        known = (MODULE, TORCH, "auto", *ENGINES)
        if self.engine not in known:
            raise UsageError(f"there is no engine {self.engine!r}. {nearest(self.engine, known)}")
        if self.engine == MODULE and self.precision != "f32":
            raise UsageError(
                f"precision {self.precision!r} with engine 'module', whose precision is the module's own; give engine='torch'."
            )

    def net(self, module: nn.Module, frame: Tensor) -> StagedNetwork:
        """``module`` in parts for frames like ``frame``, [1, channels, h, w]: tensors in, the tensor that it gives out.

        ``NetworkError`` where it can't be exported or divided.
        """
        return self._in_torch(module, frame) if self.engine in (MODULE, TORCH) else self._in_onnx(module, frame)

    def _in_torch(self, module: nn.Module, frame: Tensor) -> StagedNetwork:
        net = cut(module, frame, at=self.at, output=self.output, stages=self.stages)
        # Weights of 16 bits: the engine would make f32 of them.
        if self.engine == MODULE or frame.dtype != torch.float32:
            return net
        return in_torch(net, precision=self.precision, threads=self.threads, device=str(frame.device))

    def _in_onnx(self, module: nn.Module, frame: Tensor) -> StagedNetwork:
        _, channels, height, width = frame.shape
        if channels != 3:
            raise UsageError(f"frames of {channels} channels in {self.engine}; give engine='torch'.")
        alone = _Picked(copy.deepcopy(module).float().cpu(), self.output).eval()
        size = width, height
        model = to_onnx(alone, size, free=False)
        static = fix(model, {INPUT: (1, 3, height, width)})
        graph = onnx_reader.neutral(static, INPUT)
        if self.at == "auto":
            chosen = choose(graph, static.shapes, node_work(static), output=OUTPUT, stages=self.stages)
            cuts = chosen.cuts
        else:
            named = (name if isinstance(name, str) else "+".join(name) for name in self.at)
            cuts = parse_cuts(",".join(named), graph)
        said = Sidecar(type(module).__name__, Input(INPUT, width, height), OUTPUT, cuts)
        compile = engine(self.engine, precision=self.precision, threads=self.threads)
        net = replace(staged(model, said, size=size, frames=False), prepare=_array, restore=_tensor)
        return replace(compile(net), sidecar=None)


class _Picked(nn.Module):  # type: ignore[misc,unused-ignore]
    """One tensor of what a module gives; the exporter is told of it by the name that it takes off the paths."""

    def __init__(self, module: nn.Module, output: str | None) -> None:
        super().__init__()
        self.clockseg, self.output = module, output

    def forward(self, image: Tensor) -> Tensor:
        return pick(self.clockseg(image), self.output)


def _array(frame: Tensor) -> dict[str, Array]:
    return {IMAGE: frame.detach().float().numpy(force=True), FRAME_SIZE: np.array(frame.shape[:1:-1])}


def _tensor(value: dict[str, Array], frame: Any) -> Tensor:
    [made] = [array for name, array in value.items() if name != FRAME_SIZE]
    # A copy: the engine goes on using its memory, and arrays may be read-only.
    return torch.from_numpy(np.array(made))


def check_same(ours: Tensor, theirs: Tensor, tolerance: float) -> None:
    """``NetworkError`` unless ``ours``, what parts gave, is what the module gives: max |a - b| / max |b| <= tolerance.

    >>> check_same(torch.ones(2), torch.ones(2), 0.0)
    """
    if ours.shape != theirs.shape:
        raise NetworkError(f"in parts the module gives {list(ours.shape)}, as it is {list(theirs.shape)}.")
    difference = float(
        (ours.double().cpu() - theirs.double().cpu()).abs().max() / theirs.double().abs().max().clamp(min=1e-30)
    )
    if not difference <= tolerance:
        raise NetworkError(
            f"in parts the module gives something else than as it is: {difference:.1e} of the largest value apart, at most "
            f"{tolerance:.0e} is allowed. In f32 that is a fault: try another engine or other cuts (at=), and report it. In 16 "
            "bits, allow more: tolerance=0.05."
        )
