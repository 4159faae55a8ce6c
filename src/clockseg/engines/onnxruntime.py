"""ONNX Runtime on CPUs, the portable engine: one session per part, bound to buffers."""

from __future__ import annotations

import importlib
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from clockseg._errors import MissingDependency, UsageError
from clockseg._types import Array
from clockseg.engines.buffers import Pool
from clockseg.engines.compiled import Runner, compiled
from clockseg.engines.threads import threads_or_all
from clockseg.graph.part import Built
from clockseg.stages import StagedNetwork


def onnxruntime(net: StagedNetwork, *, precision: str = "f32", threads: int | None = None) -> StagedNetwork:
    """``net`` with its graph-backed parts compiled by ONNX Runtime for the CPU, at first use of each working size.

    ``precision`` must be "f32". ``threads``: as many as the process may use if None.
    """
    if precision != "f32":
        raise UsageError(f"precision {precision!r}: ONNX Runtime runs here in f32; use the engine 'openvino' for bf16.")
    library = _library()
    options = library.SessionOptions()
    options.intra_op_num_threads = threads_or_all(threads)
    options.inter_op_num_threads = 1
    options.graph_optimization_level = library.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    # Each part has threads of its own; those of one must not spin while another works.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")

    def compile(built: Built) -> Runner:
        return _Session(library.InferenceSession(built.model, options, providers=["CPUExecutionProvider"]), built)

    return compiled(net, compile, "onnxruntime")


class _Session:
    """One session that reads its inputs where they are and writes into buffers that nobody holds."""

    def __init__(self, session: Any, built: Built) -> None:
        self.session, self.built = session, built
        self.binding = session.io_binding()
        self.pools = [Pool(tuple(value.shape), np.dtype(_TYPES[value.type])) for value in session.get_outputs()]

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        arrays = [np.ascontiguousarray(array) for array in inputs]
        slots = [pool.take() for pool in self.pools]
        for name, array in zip(self.built.inputs, arrays, strict=True):
            self.binding.bind_cpu_input(name, array)
        for name, slot in zip(self.built.outputs, slots, strict=True):
            self.binding.bind_output(name, "cpu", 0, slot.array.dtype, slot.array.shape, slot.array.ctypes.data)
        self.session.run_with_iobinding(self.binding)
        self.binding.clear_binding_inputs()
        self.binding.clear_binding_outputs()
        return [slot.array for slot in slots]


_TYPES = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(double)": "float64",
    "tensor(uint8)": "uint8",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
    "tensor(bool)": "bool",
}


def _library() -> types.ModuleType:
    try:
        return importlib.import_module("onnxruntime")
    except ImportError as error:
        raise MissingDependency(
            "the engine 'onnxruntime' needs ONNX Runtime: pip install 'clockseg[onnxruntime]'"
        ) from error
