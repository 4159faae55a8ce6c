"""The OpenVINO engine, usually the fastest on CPUs: one compiled model and one infer request per part."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from clockseg import libraries
from clockseg.clockwork.network import StagedNetwork
from clockseg.engines.buffers import Pool, lend
from clockseg.engines.compiled import Runner, compiled
from clockseg.errors import UsageError
from clockseg.execution.cache import cache_limit, model_folder, prune
from clockseg.execution.machine import cores, machine, threads_or_all
from clockseg.files import whole
from clockseg.graph.part import Built
from clockseg.types import Array

PRECISIONS = ("f32", "bf16")


def openvino(net: StagedNetwork, *, precision: str = "f32", threads: int | None = None) -> StagedNetwork:
    """Return ``net`` with its graph-backed parts compiled by OpenVINO for the CPU, at first use of each working size.

    ``precision``: "f32" or "bf16" (half the time if the CPU supports it, slower if not). In bf16, maps between parts are
    bf16 too (arrays of ``ml_dtypes.bfloat16``), while score maps, features that clocks watch and the output are float32.
    ``threads``: None for one per core that the process may use. Compiled models are kept on disk
    (``clockseg.engines.cache_directory``) unless ``CLOCKSEG_CACHE_BYTES`` is 0.
    """
    if precision not in PRECISIONS:
        raise UsageError(f"precision {precision!r}: OpenVINO runs here in {' or '.join(PRECISIONS)}.")
    library = libraries.openvino()
    cache_limit()  # a wrong setting is reported now, not at the first frame
    options = latency_options(precision, threads)

    def compile(built: Built) -> Runner:
        core = libraries.openvino_core()
        folder = model_folder(built.digest)
        name = hashlib.sha256(f"{bits} {options} {built.inner}".encode()).hexdigest()[:16]
        file = None if folder is None else folder / f"{name}.blob"
        made = None if file is None else _read(core, file, options)
        if made is None:
            model = core.read_model(built.model)
            model.validate_nodes_and_infer_types()  # of a file that stands for one node, shapes aren't known yet
            model = _bordered(library, model, built, bf16=precision == "bf16")
            made = core.compile_model(model, "CPU", options)
            if file is not None:
                _write(made, file)
        return _Request(library, made, built)

    bits = f"openvino {library.__version__} {precision} {threads_or_all(threads)} threads, {machine()['processor']}"
    return compiled(net, compile, "openvino" if precision == "f32" else f"openvino {precision}", same_bits=bits)


def latency_options(precision: str, threads: int | None) -> dict[str, Any]:
    """Return the properties of a model that runs one frame at a time, as fast as possible."""
    options: dict[str, Any] = {
        "INFERENCE_PRECISION_HINT": precision,
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": threads_or_all(threads),
    }
    if threads_or_all(threads) < cores():
        # Pinned threads of every model are on the same first cores, so two models that run at once would take turns.
        options["ENABLE_CPU_PINNING"] = False
    return options


def _read(core: Any, file: Path, options: dict[str, Any]) -> Any:
    """Return a compiled model from the cache; None if there is none, or OpenVINO refuses it.

    OpenVINO's own cache would have the model read and its borders built again first, which takes as long again.
    """
    try:
        return core.import_model(io.BytesIO(file.read_bytes()), "CPU", options)
    except (OSError, RuntimeError):
        return None


def _write(made: Any, file: Path) -> None:
    """Keep a compiled model in the cache, if it can be written to."""
    blob = io.BytesIO()
    made.export_model(blob)
    with contextlib.suppress(OSError):
        with whole(file) as part:
            part.write_bytes(blob.getvalue())
        prune()


def _bordered(library: types.ModuleType, model: Any, built: Built, *, bf16: bool) -> Any:
    """Return ``model`` with maps as [1, h, w, channels] at its inputs and outputs.

    OpenVINO computes in that layout, so nothing is reordered where the network is cut; on `street`, reordering to channels
    first and back takes 4 % of the time. ``bf16``: tensors that only other parts read are passed on in bf16; as float32 the
    layers before them would be computed in float32 as well, which takes 15 % of the time of SegFormer-B0.
    """
    steps = libraries.openvino("openvino.preprocess").PrePostProcessor(model)
    for names, port, step in ((built.inputs, model.input, steps.input), (built.outputs, model.output, steps.output)):
        for name in names:
            if _is_map(port(name)):
                step(name).tensor().set_layout(library.Layout("NHWC"))
                step(name).model().set_layout(library.Layout("NCHW"))
            if bf16 and name in built.inner and port(name).get_element_type() == library.Type.f32:
                step(name).tensor().set_element_type(library.Type.bf16)
    return steps.build()


def _is_map(port: Any) -> bool:
    return port.partial_shape.is_static and len(port.shape) == 4 and port.get_element_type().is_real()


class _Request:
    """One infer request that reads its inputs in place and writes into buffers that no result refers to.

    Outside, maps are [1, channels, h, w]; in memory they lie as [1, h, w, channels].
    """

    def __init__(self, library: types.ModuleType, model: Any, built: Built) -> None:
        self.request = model.create_infer_request()
        libraries.keep_after_fork(self)
        self.inputs = [_Port.of(library, model.input(name)) for name in built.inputs]
        self.outputs = [_Port.of(library, model.output(name)) for name in built.outputs]
        # What suppression keeps has no shape beforehand: such outputs are copied out of the request's memory.
        self.free = not all(one.port.partial_shape.is_static for one in self.outputs)
        fixed = [] if self.free else self.outputs
        self.pools = [Pool(tuple(one.port.shape), one.dtype, one.wrap) for one in fixed]

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        # Tensors over an array's memory don't keep it alive; these do while it runs.
        arrays, slots = [], lend(self.pools)
        for given, (port, dtype, last, wrap) in zip(inputs, self.inputs, strict=True):
            array = np.ascontiguousarray(given.transpose(_LAST) if last else given, dtype)
            if not array.flags.writeable:  # OpenVINO shares writable memory only
                array = array.copy()
            arrays.append(array)
            self.request.set_tensor(port, wrap(array))
        for slot, one in zip(slots, self.outputs, strict=not self.free):
            self.request.set_tensor(one.port, slot.wrapped)
        self.request.infer()
        if self.free:
            found = [np.array(self.request.get_tensor(one.port).data) for one in self.outputs]
        else:
            found = [slot.array for slot in slots]
        return [array.transpose(_FIRST) if one.last else array for array, one in zip(found, self.outputs, strict=True)]


class _Port(NamedTuple):
    """An input or output of a model. ``last``: its memory is laid out with the channels last. ``wrap``: an array as a tensor."""

    port: Any
    dtype: np.dtype[Any]
    last: bool
    wrap: Callable[[Array], Any]

    @classmethod
    def of(cls, library: types.ModuleType, port: Any) -> _Port:
        kind, last = port.get_element_type(), _is_map(port)
        if kind != library.Type.bf16:
            return cls(port, np.dtype(kind.to_dtype()), last, functools.partial(library.Tensor, shared_memory=True))
        # numpy has no bf16: the dtype is from a library that comes with ONNX, and OpenVINO reads it as integers.
        bf16 = np.dtype(ml_dtypes.bfloat16)
        return cls(port, bf16, last, lambda array: library.Tensor(array.view(np.uint16), port.shape, kind))


_LAST, _FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
