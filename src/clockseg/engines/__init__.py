"""Engines: functions over a staged network that compile its graph-backed parts."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable

from clockseg._errors import UsageError, nearest
from clockseg.engines.cache import cache_directory, clear_cache
from clockseg.engines.onnxruntime import onnxruntime
from clockseg.engines.openvino import openvino
from clockseg.engines.timed import Times, timed
from clockseg.stages import StagedNetwork

__all__ = ["Times", "cache_directory", "clear_cache", "engine", "engine_name", "onnxruntime", "openvino", "timed"]

_ENGINES = {"openvino": openvino, "onnxruntime": onnxruntime}


def engine_name(name: str) -> str:
    """``name``, or what "auto" stands for on this machine: OpenVINO if it is installed, else ONNX Runtime."""
    if name != "auto":
        return name
    return "openvino" if importlib.util.find_spec("openvino") else "onnxruntime"


def engine(
    name: str, *, precision: str = "f32", threads: int | None = None
) -> Callable[[StagedNetwork], StagedNetwork]:
    """The engine of this name ("auto", "openvino" or "onnxruntime") with its options, as a function over networks."""
    chosen = _ENGINES.get(engine_name(name))
    if chosen is None:
        raise UsageError(f"there is no engine {name!r}. {nearest(name, [*_ENGINES, 'auto'])}")
    return functools.partial(chosen, precision=precision, threads=threads)
