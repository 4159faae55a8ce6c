"""The ONNX Runtime engine: one session per part, bound to buffers."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clockseg import libraries
from clockseg.clockwork.network import StagedNetwork
from clockseg.engines.buffers import Pool, lend
from clockseg.engines.compiled import Runner, compiled
from clockseg.errors import UsageError
from clockseg.execution.machine import machine, threads_or_all
from clockseg.graph.part import Built
from clockseg.types import Array

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


def onnxruntime(
    net: StagedNetwork, *, precision: str = "f32", threads: int | None = None, cuda: bool = False
) -> StagedNetwork:
    """Return ``net`` with its graph-backed parts compiled by ONNX Runtime, at first use of each working size.

    ``precision``: "f32". ``threads``: None for one per core that it may use. ``cuda``: run on a GPU (the package
    onnxruntime-gpu), where maps between parts go through the CPU's memory.
    """
    if precision != "f32":
        raise UsageError(f"precision {precision!r}: ONNX Runtime runs here in f32; use the engine 'openvino' for bf16.")
    library = libraries.onnxruntime()
    if cuda and CUDA not in library.get_available_providers():
        raise UsageError(
            "the installed ONNX Runtime has no CUDA: pip install onnxruntime-gpu on a machine with an NVIDIA GPU, or give the "
            "engine 'onnxruntime', 'openvino' or 'auto'."
        )
    # Operators that CUDA lacks run on the CPU.
    providers = [(CUDA, {"use_tf32": 0}), CPU] if cuda else [CPU]
    options = library.SessionOptions()
    options.intra_op_num_threads = threads_or_all(threads)
    options.inter_op_num_threads = 1
    options.graph_optimization_level = library.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    # Each part has its own threads; those of one must not spin while another part runs.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")

    def compile(built: Built) -> Runner:
        return _Session(library.InferenceSession(built.model, options, providers=providers), built)

    if cuda:
        return compiled(net, compile, "onnxruntime cuda")
    bits = f"onnxruntime {library.__version__} {precision} {threads_or_all(threads)} threads, {machine()['processor']}"
    return compiled(net, compile, "onnxruntime", same_bits=bits)


def has_cuda() -> bool:
    """Return True if the installed ONNX Runtime is built for CUDA; a build for CPUs alone is not imported to find this out."""
    spec = None if "onnxruntime" in sys.modules else importlib.util.find_spec("onnxruntime")
    if spec is not None and spec.origin and not any(Path(spec.origin).parent.glob("capi/*providers_cuda*")):
        return False
    return CUDA in libraries.onnxruntime().get_available_providers()


class _Session:
    """One session that reads its inputs in place and writes into buffers that no result refers to."""

    def __init__(self, session: Any, built: Built) -> None:
        self.session, self.built = session, built
        self.binding = session.io_binding()
        libraries.keep_after_fork(self)
        outputs = session.get_outputs()
        # What suppression keeps has no shape beforehand: such outputs are in memory that the session allocates.
        self.free = any(not isinstance(side, int) for value in outputs for side in value.shape)
        pools = [] if self.free else outputs
        self.pools = [Pool(tuple(value.shape), _dtype(value.type)) for value in pools]

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        arrays = [np.ascontiguousarray(array) for array in inputs]
        if self.free:
            return list(self.session.run(list(self.built.outputs), dict(zip(self.built.inputs, arrays, strict=True))))
        slots = lend(self.pools)
        for name, array in zip(self.built.inputs, arrays, strict=True):
            self.binding.bind_cpu_input(name, array)
        for name, slot in zip(self.built.outputs, slots, strict=True):
            self.binding.bind_output(name, "cpu", 0, slot.array.dtype, slot.array.shape, slot.array.ctypes.data)
        self.session.run_with_iobinding(self.binding)
        self.binding.clear_binding_inputs()
        self.binding.clear_binding_outputs()
        return [slot.array for slot in slots]


def _dtype(kind: str) -> np.dtype[Any]:
    """Return the type of a tensor's elements, which ONNX Runtime tells as "tensor(float)" or "tensor(uint8)"."""
    name = kind.removeprefix("tensor(").removesuffix(")")
    return np.dtype("float32" if name == "float" else name)
