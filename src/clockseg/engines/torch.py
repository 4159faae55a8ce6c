"""PyTorch, for networks that come from it: channels-last, autocast, ``torch.compile``, and CUDA graphs on a GPU.

What a GPU does here hasn't been run on one yet: CUDA graphs are written from torch's documentation.
"""

from __future__ import annotations

import importlib
import threading
import types
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from clockseg.clockwork.network import Part, StagedNetwork
from clockseg.engines.threads import threads_or_all
from clockseg.errors import ClocksegError, MissingDependency, NetworkError, UsageError

PRECISIONS = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
SIZES = 3
"""Sizes of frames that stay compiled; the one not used for longest goes first."""
_CONVOLUTIONS = frozenset({"conv2d", "conv_transpose2d"})
_PRODUCTS = _CONVOLUTIONS | {"linear", "matmul", "mm", "bmm", "addmm"}
Run: TypeAlias = Callable[..., Any]
"""Tensors in, tensors out."""


def torch(
    net: StagedNetwork,
    *,
    precision: str = "f32",
    compile: bool = False,
    device: str = "cpu",
    threads: int | None = None,
    cuda_graphs: bool = False,
) -> StagedNetwork:
    """``net``, from ``clockseg.cut`` of a module or an FCN's checkpoint, for running and not for training.

    A cut module's parts get weights of their own, as they are now: on ``device``, channels last, and in ``precision``
    those that autocast would cast. "f32", "bf16" or "f16". ``compile``: by ``torch.compile``, which needs a C++ compiler
    and takes its time at the first frame of each size. ``cuda_graphs``: what a part does on a GPU is recorded once and
    replayed. ``threads``: of torch in this whole process. Nothing that a part gave is written to by a later run.

    >>> import torch as library
    >>> from clockseg.networks.cut_torch import cut
    >>> module = library.nn.Sequential(library.nn.Conv2d(3, 4, 3), library.nn.Conv2d(4, 2, 3))
    >>> image = library.ones(1, 3, 8, 8)
    >>> net = cut(module, image, at=["0", "1"])
    >>> bool((torch(net, precision="bf16")(image) - net(image)).abs().max() < 0.02)
    True
    """
    library = _library()
    from clockseg.graph.torch_part import TorchPart, device_called

    if precision not in PRECISIONS:
        raise UsageError(f"precision {precision!r}; torch runs here in {', '.join(PRECISIONS)}.")
    where = device_called(device)
    if cuda_graphs and where.type != "cuda":
        raise UsageError(f"cuda_graphs on device {device!r}; they are a GPU's: give device='cuda', or leave them out.")
    if not any(isinstance(stage.body, TorchPart) for stage in net.stages):
        raise UsageError(
            f"network {net.name!r} ({net.engine}) has no parts in torch; cut a module with clockseg.cut, or give "
            "another engine, such as clockseg.engines.openvino."
        )
    if threads is not None:
        library.set_num_threads(threads_or_all(threads))
    making = _Making(library, getattr(library, PRECISIONS[precision]), compile, where, cuda_graphs)
    words = ["torch", *([] if where.type == "cpu" else [device]), *([] if precision == "f32" else [precision])]
    made = net.map(lambda name, part: making.part(name, part) if isinstance(part, TorchPart) else part)
    return replace(made, engine=" ".join(words))


@dataclass(frozen=True)
class _Making:
    """How parts are made; ``weights``: those converted already, which parts share."""

    library: types.ModuleType
    dtype: Any
    compile: bool
    device: Any
    cuda_graphs: bool
    weights: dict[tuple[str, Any], Any] = field(default_factory=dict)

    def part(self, name: str, part: Any) -> Part:
        from clockseg.graph.torch_source import Piece

        if isinstance(part.function, Piece):
            made: Part = replace(part, function=_Compiled(name, part.function, self), device=self.device, trains=False)
            return made
        if part.device is not None and part.device.type != self.device.type:
            raise UsageError(
                f"part {name!r} computes on {part.device}, not on {self.device}; load the network for that device."
            )
        same: Part = replace(part, function=self.finished(part.function))
        return same

    def finished(self, run: Run) -> Run:
        """``run`` compiled, if that is wanted, and in this precision."""
        low = self.dtype != self.library.float32
        made = self.library.compile(run, dynamic=False) if self.compile else run

        def call(*given: Any) -> Any:
            with self.library.autocast(self.device.type, self.dtype, enabled=low, cache_enabled=False):
                return made(*given)

        return call

    def runner(self, piece: Any, size: tuple[int, ...]) -> Run:
        """What computes ``piece`` for frames of ``size``."""
        with self.library.inference_mode(False), self.library.no_grad():
            run = self.finished(piece.frozen(size, self.settle, self.device))
        return _Recorded(self.library, run) if self.cuda_graphs else run

    def settle(self, path: str, value: Any, readers: frozenset[str]) -> Any:
        """A weight as the operations that read it want it."""
        wanted = self.dtype if readers <= _PRODUCTS else self.library.float32
        dtype = wanted if value.is_floating_point() else value.dtype
        if (path, dtype) in self.weights:
            return self.weights[path, dtype]
        made = value.to(self.device, dtype)
        if made.dim() == 4 and readers & _CONVOLUTIONS:
            made = made.contiguous(memory_format=self.library.channels_last)
        if path:
            # A copy even where nothing was converted: training goes on in the module's own.
            made = self.weights[path, dtype] = made.clone() if made.data_ptr() == value.data_ptr() else made
        return made


@dataclass
class _Compiled:
    """A piece of a cut module made for each size when it first comes. Threads may share it."""

    name: str
    piece: Any
    making: _Making
    runners: dict[tuple[int, ...], Run] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, maps: dict[str, Any], size: tuple[int, ...]) -> dict[str, Any]:
        given = [maps[name] for name in self.piece.inputs]
        try:
            with self.lock:
                run = self.runners.pop(size, None) or self.making.runner(self.piece, size)
                while len(self.runners) >= SIZES:
                    del self.runners[next(iter(self.runners))]
                self.runners[size] = run
                made = run(*given)
        except ClocksegError:
            raise
        except Exception as error:  # torch.compile raises what it likes
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise NetworkError(
                f"torch can't run part {self.name!r} at {size[0]}x{size[1]} ({first})."
                + (" torch.compile needs a C++ compiler; or leave compile out." if self.making.compile else "")
            ) from error
        found: dict[str, Any] = self.piece.named(made, given)
        return found


class _Recorded:
    """What ``run`` does on a GPU, recorded at its first call and replayed with other numbers at later ones."""

    def __init__(self, library: types.ModuleType, run: Run) -> None:
        self.library, self.run = library, run
        self.graph: Any = None
        self.given: tuple[Any, ...] = ()
        self.made: tuple[Any, ...] = ()

    def __call__(self, *given: Any) -> tuple[Any, ...]:
        if self.graph is None:
            self._record(given)
        for own, new in zip(self.given, given, strict=True):
            own.copy_(new)
        self.graph.replay()
        # The recording writes to the same memory each time, and what a part gave may be held.
        return tuple(tensor.clone() for tensor in self.made)

    def _record(self, given: tuple[Any, ...]) -> None:
        cuda = self.library.cuda
        self.given = tuple(tensor.clone() for tensor in given)
        side = cuda.Stream()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            # Libraries choose their methods in the first runs, which can't be recorded.
            for _ in range(3):
                self.run(*self.given)
        cuda.current_stream().wait_stream(side)
        self.graph = cuda.CUDAGraph()
        with cuda.graph(self.graph):
            self.made = tuple(self.run(*self.given))


def _library() -> types.ModuleType:
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise MissingDependency("the engine 'torch' needs torch: pip install '.[torch]' in the clone") from error
