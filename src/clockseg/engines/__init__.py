"""Engines: functions over a staged network that compile its graph-backed parts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.util import find_spec

from clockseg.clockwork.network import StagedNetwork
from clockseg.engines.auto import auto
from clockseg.engines.onnxruntime import has_cuda, onnxruntime
from clockseg.engines.openvino import openvino
from clockseg.engines.torch import torch
from clockseg.errors import UsageError, nearest
from clockseg.execution.cache import cache_directory, clear_cache
from clockseg.execution.timed import Times, timed
from clockseg.libraries import CPU_ENGINES, GRAPH_ENGINES

__all__ = ["ENGINES", "Times", "cache_directory", "clear_cache", "engine", "onnxruntime", "openvino", "timed", "torch"]

_FUNCTIONS = (openvino, onnxruntime, functools.partial(onnxruntime, cuda=True))
ENGINES: dict[str, Callable[..., StagedNetwork]] = dict(zip(GRAPH_ENGINES, _FUNCTIONS, strict=True))
"""Engines by name, each a function of a network, ``precision`` and ``threads``."""


def engine(
    name: str, *, precision: str = "f32", threads: int | None = None
) -> Callable[[StagedNetwork], StagedNetwork]:
    """Return the engine of this name with its options, as a function from networks to networks.

    "auto": the fastest of those installed, measured once for each network, size and machine (``engines.auto``).
    """
    if name == "auto":
        return functools.partial(auto, contenders=contenders(precision, threads), precision=precision, threads=threads)
    if name not in ENGINES:
        raise UsageError(f"there is no engine {name!r}. {nearest(name, [*ENGINES, 'auto'])}")
    return functools.partial(ENGINES[name], precision=precision, threads=threads)


def contenders(precision: str, threads: int | None) -> dict[str, Callable[[StagedNetwork], StagedNetwork]]:
    """Return the installed engines that compute in ``precision``, the one that is usually fastest first."""
    names = [name for name in CPU_ENGINES if find_spec(name) and (precision == "f32" or name == "openvino")]
    if "onnxruntime" in names and has_cuda():
        names.append("onnxruntime-cuda")
    return {name: engine(name, precision=precision, threads=threads) for name in names}
