"""Engines that tell nobody: OpenVINO and ONNX Runtime send word of their use to their makers unless they are kept from it."""

from __future__ import annotations

import importlib
import os
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager

_OF_OPENVINO = "openvino_telemetry"
_OF_ONNXRUNTIME = "ORT_DISABLE_TELEMETRY"
"""The environment variable that it looks at when it is first used; one that is set already stays."""


def imported(name: str) -> types.ModuleType:
    """The module of an engine, imported so that it sends nothing.

    >>> imported("onnx").__name__
    'onnx'
    """
    os.environ.setdefault(_OF_ONNXRUNTIME, "1")
    with _missing(_OF_OPENVINO):
        return importlib.import_module(name)


@contextmanager
def _missing(name: str) -> Iterator[None]:
    """Inside the block ``name`` can't be imported: OpenVINO then makes do with what sends nothing."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # what importlib takes for "not there"
    try:
        yield
    finally:
        del sys.modules[name]
