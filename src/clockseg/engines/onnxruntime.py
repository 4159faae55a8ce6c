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
from clockseg.execution.cache import cache_directory
from clockseg.execution.machine import machine, threads_or_all
from clockseg.graph.part import Built
from clockseg.types import Array

PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
}


def onnxruntime(
    net: StagedNetwork, *, precision: str = "f32", threads: int | None = None, provider: str = "cpu"
) -> StagedNetwork:
    """Return ``net`` with its graph-backed parts compiled by ONNX Runtime, at first use of each working size.

    ``provider``: "cpu"; on a GPU "cuda" or "tensorrt" (the package onnxruntime-gpu), where maps between parts go through
    the CPU's memory. ``precision``: "f32"; on tensorrt also "f16". ``threads``: None for one per core that it may use.
    """
    allowed = ("f32", "f16") if provider == "tensorrt" else ("f32",)
    if precision not in allowed:
        raise UsageError(
            f"precision {precision!r}: ONNX Runtime runs here in {' or '.join(allowed)}; use the engine 'openvino' for bf16."
        )
    library = libraries.onnxruntime()
    chosen = _providers(provider, precision)
    options = library.SessionOptions()
    options.intra_op_num_threads = threads_or_all(threads)
    options.inter_op_num_threads = 1
    options.graph_optimization_level = library.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    # Each part has its own threads; those of one must not spin while another part runs.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")

    def compile(built: Built) -> Runner:
        return _Session(library.InferenceSession(built.model, options, providers=chosen), built)

    name = "onnxruntime" if provider == "cpu" else f"onnxruntime {provider}"
    bits = f"{name} {library.__version__} {precision} {threads_or_all(threads)} threads, {machine()['processor']}"
    return compiled(
        net, compile, name if precision == "f32" else f"{name} {precision}", same_bits=bits if provider == "cpu" else ""
    )


def providers() -> tuple[str, ...]:
    """Return the GPU providers of the installed ONNX Runtime: "cuda", "tensorrt", or none.

    A build for CPUs alone, which has no library of a provider, is not imported to find this out.
    """
    spec = None if "onnxruntime" in sys.modules else importlib.util.find_spec("onnxruntime")
    if spec is not None and spec.origin and not any(Path(spec.origin).parent.glob("capi/*providers_cuda*")):
        return ()
    there = libraries.onnxruntime().get_available_providers()
    return tuple(name for name, full in PROVIDERS.items() if name != "cpu" and full in there)


def _providers(provider: str, precision: str) -> list[Any]:
    """Return the providers of a session: the chosen one with its options, and the CPU for operators that it lacks."""
    if provider not in PROVIDERS:
        raise UsageError(f"provider {provider!r}: ONNX Runtime has here {', '.join(PROVIDERS)}.")
    if provider == "cpu":
        return [PROVIDERS["cpu"]]
    if provider not in providers():
        raise UsageError(
            f"provider {provider!r} isn't in the installed ONNX Runtime: pip install onnxruntime-gpu on a machine with an "
            "NVIDIA GPU, or give the engine 'onnxruntime', 'openvino' or 'auto'."
        )
    cuda = (PROVIDERS["cuda"], {"use_tf32": 0})
    if provider == "cuda":
        return [cuda, PROVIDERS["cpu"]]
    folder = cache_directory() / "tensorrt"
    kept = {
        "trt_engine_cache_enable": True,
        "trt_engine_cache_path": str(folder),
        "trt_fp16_enable": precision == "f16",
    }
    return [(PROVIDERS["tensorrt"], kept), cuda, PROVIDERS["cpu"]]


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
