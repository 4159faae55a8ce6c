"""The PyTorch engine, for modules cut in torch: channels last, autocast and ``torch.compile``."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from clockseg import libraries
from clockseg.clockwork.network import Part, StagedNetwork, same
from clockseg.engines.compiled import PerSize
from clockseg.errors import ClocksegError, NetworkError, UsageError, first_line
from clockseg.execution.machine import threads_or_all

PRECISIONS = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
SIZES = 3
"""The number of frame sizes for which a part stays compiled."""
_CONVOLUTIONS = frozenset({"conv2d", "conv_transpose2d"})
_PRODUCTS = _CONVOLUTIONS | {"linear", "matmul", "mm", "bmm", "addmm"}
Run: TypeAlias = Callable[..., Any]
"""A function from tensors to tensors."""


def torch(
    net: StagedNetwork,
    *,
    precision: str = "f32",
    compile: bool = False,
    device: str = "cpu",
    threads: int | None = None,
) -> StagedNetwork:
    """Prepare ``net``, from ``clockseg.cut`` of a module, for inference in PyTorch.

    The parts of a cut module get copies of the current weights: on ``device``, channels last, and in ``precision`` ("f32",
    "bf16" or "f16") where autocast would convert them. ``compile``: use ``torch.compile``, which needs a C++ compiler and
    compiles at the first frame of each size. ``threads``: the number of threads of torch, in the whole process. A later run
    never writes to a result.

    >>> import torch as library
    >>> from clockseg.networks.cutting import cut
    >>> module = library.nn.Sequential(library.nn.Conv2d(3, 4, 3), library.nn.Conv2d(4, 2, 3))
    >>> image = library.ones(1, 3, 8, 8)
    >>> net = cut(module, image, at=["0", "1"])
    >>> bool((torch(net, precision="bf16")(image) - net(image)).abs().max() < 0.02)
    True
    """
    library = libraries.torch("the engine 'torch'")
    from clockseg.graph.torch_part import TorchPart, device_called

    if precision not in PRECISIONS:
        raise UsageError(f"precision {precision!r}; torch runs here in {', '.join(PRECISIONS)}.")
    where = device_called(device)
    if not any(isinstance(stage.body, TorchPart) for stage in net.stages):
        raise UsageError(
            f"network {net.name!r} ({net.engine}) has no parts in torch; cut a module with clockseg.cut, or use "
            "another engine, such as clockseg.engines.openvino."
        )
    if threads is not None:
        library.set_num_threads(threads_or_all(threads))
    builder = _Builder(library, getattr(library, PRECISIONS[precision]), compile, where)
    words = ["torch", *([] if where.type == "cpu" else [device]), *([] if precision == "f32" else [precision])]
    made = net.map(lambda name, part: builder.part(name, part) if isinstance(part, TorchPart) else part)
    return replace(made, engine=" ".join(words))


@dataclass(frozen=True)
class _Builder:
    """Builds parts with these options. ``weights`` holds the converted weights, which parts share."""

    torch: types.ModuleType
    dtype: Any
    compile: bool
    device: Any
    weights: dict[tuple[str, Any], Any] = field(default_factory=dict)

    def part(self, name: str, part: Any) -> Part:
        made: Part = replace(part, run=_Compiled(name, self), device=self.device, trains=False)
        return made

    def runner(self, part: Any, size: tuple[int, ...]) -> Run:
        """Return the function that computes ``part`` for frames of ``size``, under autocast in the builder's precision."""
        low = self.dtype != self.torch.float32
        with self.torch.inference_mode(False), self.torch.no_grad():
            compile = partial(self.torch.compile, dynamic=False) if self.compile else same
            made = part.frozen(size, self.weight, self.device, compile)

        def call(*given: Any) -> Any:
            with self.torch.autocast(self.device.type, self.dtype, enabled=low, cache_enabled=False):
                return made(*given)

        return call

    def weight(self, path: str, value: Any, readers: frozenset[str]) -> Any:
        """Convert a weight to the type and memory layout that the operations reading it need."""
        wanted = self.dtype if readers <= _PRODUCTS else self.torch.float32
        dtype = wanted if value.is_floating_point() else value.dtype
        if (path, dtype) in self.weights:
            return self.weights[path, dtype]
        made = value.to(self.device, dtype)
        if made.dim() == 4 and readers & _CONVOLUTIONS:
            made = made.contiguous(memory_format=self.torch.channels_last)
        if path:
            # Copied even if nothing was converted, because training may go on in the module's own weights.
            made = self.weights[path, dtype] = made.clone() if made.data_ptr() == value.data_ptr() else made
        return made


class _Compiled:
    """Computes a part of a cut module, compiled at the first frame of each size."""

    def __init__(self, name: str, builder: _Builder) -> None:
        self.name, self.builder = name, builder
        self.runners = PerSize[tuple[int, ...], Any]()

    def __call__(self, part: Any, size: tuple[int, ...], given: Sequence[Any]) -> Any:
        try:
            return self.runners.run(size, partial(self.builder.runner, part), *given, most=SIZES)
        except ClocksegError:
            raise
        except Exception as error:  # torch.compile raises many types
            remedy = (
                " torch.compile needs a C++ compiler; without one, use compile=False." if self.builder.compile else ""
            )
            raise NetworkError(
                f"torch can't run part {self.name!r} at {size[0]}x{size[1]} ({first_line(error)}).{remedy}"
            ) from error
