"""OpenVINO, the fastest engine here on CPUs: one compiled model and one infer request per part."""

from __future__ import annotations

import contextlib
import functools
import importlib
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.engines.buffers import Pool
from clockseg.engines.cache import cache_directory
from clockseg.engines.compiled import Runner, compiled
from clockseg.engines.provenance import cores
from clockseg.engines.threads import threads_or_all
from clockseg.errors import MissingDependency, UsageError
from clockseg.graph.part import Built
from clockseg.libraries import imported
from clockseg.types import Array

PRECISIONS = ("f32", "bf16")


def openvino(
    net: StagedNetwork, *, precision: str = "f32", threads: int | None = None, cache: bool = True
) -> StagedNetwork:
    """``net`` with its graph-backed parts compiled by OpenVINO for the CPU, at first use of each working size.

    ``precision``: what it computes in, "f32" or "bf16" (half the time where the CPU has it, slower where not); in bf16,
    maps between parts are that as well (arrays of ``ml_dtypes.bfloat16``), while score maps, features that clocks watch
    and the output stay float32. ``threads``: as many as the process may use if None. ``cache``: keep compiled models on
    disk (``clockseg.engines.cache_directory``).
    """
    if precision not in PRECISIONS:
        raise UsageError(f"precision {precision!r}: OpenVINO runs here in {' or '.join(PRECISIONS)}.")
    library, core = _library(), _core()
    options: dict[str, Any] = {
        "INFERENCE_PRECISION_HINT": precision,
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": threads_or_all(threads),
    }
    if threads_or_all(threads) < cores():
        # Bound to cores, every model's threads are bound to the same first ones: two that run at once would take turns.
        options["ENABLE_CPU_PINNING"] = False
    if cache:
        folder = cache_directory() / "openvino"
        # A cache folder that can't be made isn't worth failing for.
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            options["CACHE_DIR"] = str(folder)

    def compile(built: Built) -> Runner:
        model, last = _bordered(library, core.read_model(built.model), built, bf16=precision == "bf16")
        return _Request(library, core.compile_model(model, "CPU", options), built, last)

    return compiled(net, compile, "openvino" if precision == "f32" else f"openvino {precision}")


@functools.cache
def _core() -> Any:
    """One for the whole process, never dropped.

    The CPU plugin gives its thread a signal stack and takes it back at its end, to what was there before it came. Of two
    that end in another order than they came, the last one leaves a stack that is freed: then the next signal that
    Python handles (Ctrl-C, a child's end) ends the process.
    """
    return _library().Core()


def _bordered(library: types.ModuleType, model: Any, built: Built, *, bf16: bool) -> tuple[Any, frozenset[str]]:
    """``model`` with its score and feature maps in and out as [1, h, w, channels], and which of its tensors these are.

    It is the layout OpenVINO computes in, so that nothing is reordered where the network is cut; measured on `street`,
    reordering to channels first and back takes 4 % of the time. ``bf16``: what only other parts read is handed on in it;
    as float32, what leads to it would be computed in float32 as well, on SegFormer-B0 for 15 % of the time.
    """
    steps = library.preprocess.PrePostProcessor(model)
    last = []
    for names, port, step in ((built.inputs, model.input, steps.input), (built.outputs, model.output, steps.output)):
        for name in names:
            if len(port(name).shape) == 4 and port(name).get_element_type().is_real():
                step(name).tensor().set_layout(library.Layout("NHWC"))
                step(name).model().set_layout(library.Layout("NCHW"))
                last.append(name)
            if bf16 and name in built.inner and port(name).get_element_type() == library.Type.f32:
                step(name).tensor().set_element_type(library.Type.bf16)
    return steps.build(), frozenset(last)


class _Request:
    """One infer request that reads its inputs where they are and writes into buffers that nobody holds.

    Outside, maps are [1, channels, h, w]; those in ``last`` lie in memory as [1, h, w, channels].
    """

    def __init__(self, library: types.ModuleType, model: Any, built: Built, last: frozenset[str]) -> None:
        self.library = library
        self.request = model.create_infer_request()
        self.inputs = [(model.input(name), name in last) for name in built.inputs]
        self.outputs = [(model.output(name), name in last) for name in built.outputs]
        self.pools = [
            Pool(tuple(port.shape), self._dtype(port), functools.partial(self._wrap, port)) for port, _ in self.outputs
        ]

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        # Tensors over an array's memory don't keep it alive; these do while it runs.
        arrays = [self._read(array, *known) for array, known in zip(inputs, self.inputs, strict=True)]
        slots = [pool.take() for pool in self.pools]
        for array, (port, _) in zip(arrays, self.inputs, strict=True):
            self.request.set_tensor(port, self._wrap(port, array))
        for slot, (port, _) in zip(slots, self.outputs, strict=True):
            self.request.set_tensor(port, slot.wrapped)
        self.request.infer()
        return [
            slot.array.transpose(_FIRST) if last else slot.array
            for slot, (_, last) in zip(slots, self.outputs, strict=True)
        ]

    def _read(self, array: Array, port: Any, last: bool) -> Array:
        dtype = self._dtype(port)
        array = np.ascontiguousarray(array.transpose(_LAST) if last else array, dtype)
        return array.copy() if dtype == _bf16() and not array.flags.writeable else array

    def _wrap(self, port: Any, array: Array) -> Any:
        if array.dtype == _bf16():
            return self.library.Tensor(array.view(np.uint16), port.shape, self.library.Type.bf16)
        # OpenVINO shares writable memory only.
        return self.library.Tensor(array, shared_memory=bool(array.flags.writeable))

    def _dtype(self, port: Any) -> np.dtype[Any]:
        kind = port.get_element_type()
        return _bf16() if kind == self.library.Type.bf16 else np.dtype(kind.to_dtype())


_LAST, _FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


@functools.cache
def _bf16() -> np.dtype[Any]:
    """numpy's bf16, from a library that comes with ONNX."""
    found: np.dtype[Any] = np.dtype(importlib.import_module("ml_dtypes").bfloat16)
    return found


def _library() -> types.ModuleType:
    try:
        imported("openvino.preprocess")
        return imported("openvino")
    except ImportError as error:
        raise MissingDependency("the engine 'openvino' needs OpenVINO: pip install openvino") from error
