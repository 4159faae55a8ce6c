"""A module in parts for frames of one shape, in torch or exported to an engine for ONNX graphs; and its preprocessing."""

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
from clockseg.graph.part import tensors
from clockseg.graph.sidecar import Input, Sidecar
from clockseg.graph.staged import staged
from clockseg.graph.static import fix
from clockseg.graph.torch_export import pick
from clockseg.networks.cut_output import parse_cuts
from clockseg.networks.cutting import cut
from clockseg.networks.onnx_export import INPUT, OUTPUT, adapted, to_onnx
from clockseg.types import FRAME_SIZE, IMAGE, Array, Image

Cuts: TypeAlias = Sequence[str | Sequence[str]] | Literal["auto"]
MODULE, TORCH = "module", "torch"


@dataclass(frozen=True)
class Staging:
    """Options for cutting and running a module; see ``clockseg.wrap``.

    ``engine``: "module" (torch, with the module's own weights), "torch" (with a copy of the weights, laid out for speed),
    "auto", or a name of ``clockseg.engines.ENGINES``.
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
        """Return ``module`` in parts for frames like ``frame``, [1, channels, h, w], from the frame to the output tensor.

        ``NetworkError`` if it can't be exported or divided.
        """
        return self._in_torch(module, frame) if self.engine in (MODULE, TORCH) else self._in_onnx(module, frame)

    def _in_torch(self, module: nn.Module, frame: Tensor) -> StagedNetwork:
        net = cut(module, frame, at=self.at, output=self.output, stages=self.stages)
        # The engine would convert 16-bit weights to f32.
        if self.engine == MODULE or frame.dtype != torch.float32:
            return net
        return in_torch(net, precision=self.precision, threads=self.threads, device=str(frame.device))

    def _in_onnx(self, module: nn.Module, frame: Tensor) -> StagedNetwork:
        _, channels, height, width = frame.shape
        if channels != 3:
            raise UsageError(f"frames of {channels} channels in {self.engine}; give engine='torch'.")
        plain = copy.deepcopy(module).float().cpu()
        alone = adapted(plain, lambda call, image: pick(call(image), self.output)).eval()
        size = width, height
        model = to_onnx(alone, size, free=False)
        static = fix(model, {INPUT: (1, 3, height, width)})
        graph = onnx_reader.neutral(static, INPUT)
        if self.at == "auto":
            chosen = choose(graph, output=OUTPUT, stages=self.stages)
            cuts = chosen.cuts
        else:
            named = (name if isinstance(name, str) else "+".join(name) for name in self.at)
            cuts = parse_cuts(",".join(named), graph)
        said = Sidecar(type(module).__name__, Input(INPUT, width, height), OUTPUT, cuts)
        compile = engine(self.engine, precision=self.precision, threads=self.threads)
        net = replace(staged(model, said, size=size, frames=False), prepare=_array, restore=_tensor)
        return replace(compile(net), sidecar=None)


def _array(frame: Tensor) -> dict[str, Array]:
    return {IMAGE: frame.detach().float().numpy(force=True), FRAME_SIZE: np.array(frame.shape[:1:-1])}


def _tensor(value: dict[str, Array], frame: Any) -> Tensor:
    [made] = tensors(value).values()
    # A copy: the engine goes on using its memory, and arrays may be read-only.
    return torch.from_numpy(np.array(made))


def check_same(ours: Tensor, theirs: Tensor, tolerance: float) -> None:
    """Raise ``NetworkError`` unless the output of the parts equals the module's: max |a - b| / max |b| <= tolerance."""
    if ours.shape != theirs.shape:
        raise NetworkError(f"in stages the module returns {list(ours.shape)}, uncut {list(theirs.shape)}.")
    difference = float(
        (ours.double().cpu() - theirs.double().cpu()).abs().max() / theirs.double().abs().max().clamp(min=1e-30)
    )
    if not difference <= tolerance:
        raise NetworkError(
            f"in stages the output of the module differs by {difference:.1e} of its largest value; at most {tolerance:.0e} is "
            "allowed. In f32 that is a fault: try another engine or other cuts (at=), and report it. In 16 bits, allow more: "
            "tolerance=0.05."
        )


@dataclass(frozen=True)
class Normalisation:
    """Preprocessing of frames: x = (pixel * ``scale`` - mean) / std, with RGB pixels 0..255."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    scale: float = 1 / 255

    @classmethod
    def of(cls, processor: Any) -> Normalisation:
        """Return the preprocessing of a transformers processor, or of a pair (mean, std) of three numbers for pixels 0..1."""
        if isinstance(processor, cls):
            return processor
        try:
            mean, std = processor if isinstance(processor, tuple) else (processor.image_mean, processor.image_std)
            scale = 1 / 255
            if not isinstance(processor, tuple):
                scale = float(processor.rescale_factor) if processor.do_rescale else 1.0
                mean, std = (mean, std) if processor.do_normalize else ((0.0,) * 3, (1.0,) * 3)
            found = cls(tuple(map(float, mean)), tuple(map(float, std)), scale)
        except (AttributeError, TypeError, ValueError) as error:
            raise UsageError(_WANTED.format(processor)) from error
        if len(found.mean) != 3 or len(found.std) != 3 or 0 in found.std or not scale:
            raise UsageError(_WANTED.format(processor))
        return found

    def picture(self, frame: Tensor) -> Image:
        """Return the picture, uint8 RGB [h, w, 3], of a frame [1, 3, h, w]."""
        factor, offset = (
            torch.tensor(one, device=frame.device).view(3, 1, 1) / self.scale for one in (self.std, self.mean)
        )
        pixels = (frame[0].float() * factor + offset).round_().clamp_(0, 255)
        found: Image = np.ascontiguousarray(pixels.to(torch.uint8).permute(1, 2, 0).numpy(force=True))
        return found


_WANTED = (
    "processor={!r}; give the image processor that prepares your frames, with image_mean and image_std, or a pair "
    "(mean, std) of three numbers each, of pixels 0..1."
)
