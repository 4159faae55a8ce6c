"""A module in parts for frames of one shape, in torch or exported to an engine for ONNX graphs; the preprocessing of frames."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from clockseg.clockwork.network import StagedNetwork
from clockseg.engines import ENGINES, engine
from clockseg.engines import torch as in_torch
from clockseg.errors import NetworkError, UsageError, nearest
from clockseg.graph import onnx_reader
from clockseg.graph.part import tensors
from clockseg.graph.sidecar import Input, Sidecar
from clockseg.graph.staged import staged
from clockseg.graph.static import fix
from clockseg.graph.torch_export import pick
from clockseg.networks.checking import apart
from clockseg.networks.cut_torch import Cuts, cuts_at
from clockseg.networks.cutting import cut
from clockseg.networks.ends import tensor_named
from clockseg.networks.onnx_export import INPUT, OUTPUT, adapted, to_onnx
from clockseg.types import FRAME_SIZE, IMAGE, Array

MODULE, TORCH = "module", "torch"


@dataclass(frozen=True)
class Staging:
    """Options for cutting and running a module; see ``clockseg.wrap``.

    ``engine``: "module" (torch, with the module's own weights), "torch" (with a copy of the weights, laid out for speed),
    "auto", or a name of ``clockseg.engines.ENGINES``. ``tolerance``: the largest difference of the parts' output from the
    module's, max |a - b| / max |b|.
    """

    engine: str = TORCH
    precision: str = "f32"
    threads: int | None = None
    at: Cuts = "auto"
    stages: int = 3
    output: str | None = None
    tolerance: float = 1e-4

    def __post_init__(self) -> None:
        known = (MODULE, TORCH, "auto", *ENGINES)
        if self.engine not in known:
            raise UsageError(f"there is no engine {self.engine!r}. {nearest(self.engine, known)}")
        if self.engine == MODULE and self.precision != "f32":
            raise UsageError(
                f"precision {self.precision!r} with engine 'module', whose precision is the module's own; give engine='torch'."
            )

    def net(self, module: nn.Module, frame: Tensor, wanted: Tensor) -> StagedNetwork:
        """Return ``module`` in parts for frames like ``frame``, [1, channels, h, w], from the frame to the output tensor.

        ``NetworkError`` if it can't be exported or divided, or if its parts do not give ``wanted``, the module's output.
        """
        net = self._in_torch(module, frame) if self.engine in (MODULE, TORCH) else self._in_onnx(module, frame)
        difference = apart(*(one.double().numpy(force=True) for one in (net(frame), wanted)))
        if not difference <= self.tolerance:
            raise NetworkError(
                f"in stages the output of the module differs by {difference:.1e} of its largest value; at most {self.tolerance:.0e} "
                "is allowed. In f32 that is a fault: try another engine or other cuts (at=), and report it. In 16 bits, allow "
                "more: tolerance=0.05."
            )
        return net

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
        named = cuts_at(self.at, self.stages, graph, OUTPUT)
        cuts = tuple(tuple(tensor_named(name, graph) for name in names) for names in named)
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


def preprocessing(processor: Any) -> Input:
    """Return the normalisation of frames by an image processor of transformers, or by a pair (mean, std) for pixels 0..1."""
    mean, std, scale = (0.0,) * 3, (1.0,) * 3, 1 / 255
    try:
        if isinstance(processor, tuple):
            mean, std = processor
        else:
            scale = float(processor.rescale_factor) if processor.do_rescale else 1.0
            if processor.do_normalize:
                mean, std = processor.image_mean, processor.image_std
        mean, std = ((float(red), float(green), float(blue)) for red, green, blue in (mean, std))
        if 0 in (*std, scale):
            raise ValueError("a division by 0")
    except (AttributeError, TypeError, ValueError) as error:
        raise UsageError(
            f"processor={processor!r}; give the image processor that prepares your frames, with image_mean and image_std, or a "
            "pair (mean, std) of three numbers each, of pixels 0..1."
        ) from error
    return Input(INPUT, 1, 1, scale=scale, mean=mean, std=std)


class Pictured(np.ndarray):  # type: ignore[type-arg]
    """A frame's picture, uint8 RGB [h, w, 3], with the tensor that the network reads."""

    tensor: Tensor


def pictured(frame: Tensor, said: Input) -> Pictured:
    """Return the picture that became the frame [1, 3, h, w] by the preprocessing ``said``."""
    factor, offset = (torch.tensor(one, dtype=torch.float32, device=frame.device) for one in said.affine())
    pixels = (frame[0].float().movedim(0, 2) - offset) / factor
    rounded = pixels.round_().clamp_(0, 255).to(torch.uint8).numpy(force=True)
    found = np.ascontiguousarray(rounded).view(Pictured)
    found.tensor = frame
    return found
