"""Libraries that are imported when they are first needed: OpenCV, and engines with their telemetry disabled."""

from __future__ import annotations

import importlib
import os
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager

from clockseg.errors import MissingDependency

_OPENVINO_TELEMETRY = "openvino_telemetry"
_ONNXRUNTIME_TELEMETRY = "ORT_DISABLE_TELEMETRY"
"""The environment variable that ONNX Runtime reads when it is first used; a value that is already set stays."""


def opencv() -> types.ModuleType:
    """Import OpenCV; ``MissingDependency`` names the line that installs it."""
    try:
        import cv2
    except ImportError as error:
        raise MissingDependency(
            "scaling frames, motion and reaction lag need OpenCV: pip install opencv-python-headless"
        ) from error
    return cv2


def imported(name: str) -> types.ModuleType:
    """Import an engine's module with its telemetry disabled.

    >>> imported("onnx").__name__
    'onnx'
    """
    os.environ.setdefault(_ONNXRUNTIME_TELEMETRY, "1")
    with _missing(_OPENVINO_TELEMETRY):
        return importlib.import_module(name)


@contextmanager
def _missing(name: str) -> Iterator[None]:
    """Make ``name`` unimportable inside the block: OpenVINO then falls back to a stub that sends nothing."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # how importlib marks a module as absent
    try:
        yield
    finally:
        del sys.modules[name]
