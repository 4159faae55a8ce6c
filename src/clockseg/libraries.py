"""Libraries that are imported when they are first needed: OpenCV, OpenVINO, ONNX Runtime and torch.

No other module imports an engine's library, so that telemetry stays off and a process has one OpenVINO core.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import logging
import os
import sys
import types
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from clockseg.errors import MissingDependency, UsageError, install

CPU_ENGINES = ("openvino", "onnxruntime")
GRAPH_ENGINES = (*CPU_ENGINES, "onnxruntime-cuda")
"""The names of the engines that compile ONNX graphs (``clockseg.engines.ENGINES``). The one usually fastest comes first."""
_M_ARENA_MAX = -8
_cores: dict[int, Any] = {}
_running: weakref.WeakSet[Any] = weakref.WeakSet()


@functools.cache
def opencv() -> types.ModuleType:
    """Import OpenCV; ``MissingDependency`` names the line that installs it."""
    return _imported("cv2", "scaling frames and motion need OpenCV: pip install opencv-python-headless")


def openvino(module: str = "openvino") -> types.ModuleType:
    """Import a module of OpenVINO, or raise ``MissingDependency`` with the line that installs it."""
    return _imported(module, "OpenVINO is not installed: pip install openvino")


def openvino_core() -> Any:
    """Return the process's only OpenVINO core.

    It is never dropped: the CPU plugin installs a signal stack for its thread and restores the previous one at its end. If
    two cores end in another order than they began, the restored stack is freed memory, and the next signal that Python
    handles (Ctrl-C, the end of a child) kills the process.

    ``UsageError`` in a child that was forked after its parent ran a network: OpenVINO would wait for ever for threads that
    exist in the parent only.
    """
    library, process = openvino(), os.getpid()
    if _cores and process not in _cores:
        raise UsageError(
            "OpenVINO does not work in this process: it was forked from one that had run a network in OpenVINO already. "
            "Start processes with multiprocessing.get_context('spawn'), run no network before the fork, or use "
            "engine='onnxruntime'."
        )
    if process not in _cores:
        _cores[process] = library.Core()
    return _cores[process]


def keep_after_fork(compiled: Any) -> None:
    """Register an object that uses an engine's threads, so that a forked child never destroys it.

    The threads do not exist in the child, where the destructor would wait for them for ever.
    """
    _running.add(compiled)


def _after_fork() -> None:
    for held in (*_running, *_cores.values()):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def onnxruntime(module: str = "onnxruntime") -> types.ModuleType:
    """Import a module of ONNX Runtime, or raise ``MissingDependency`` with the line that installs it."""
    return _imported(module, f"ONNX Runtime is not installed: {install('onnxruntime')}")


def torch(what: str) -> types.ModuleType:
    """Import torch, or raise ``MissingDependency`` with the line that installs it; ``what``: the thing that needs it."""
    return _imported("torch", f"{what} needs torch: {install('torch')}")


@contextmanager
def silent_logs() -> Iterator[None]:
    """Silence what libraries log inside the block, where it holds nothing that the user can act on."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@functools.cache
def _limit_arenas() -> None:
    """Let glibc's allocator divide memory into one arena per core, unless the environment says otherwise.

    By default it makes eight per core, and models compiled for ever new sizes fragment them all.
    """
    if "MALLOC_ARENA_MAX" not in os.environ:
        with suppress(OSError, AttributeError):
            ctypes.CDLL("libc.so.6").mallopt(_M_ARENA_MAX, max(2, len(os.sched_getaffinity(0))))


def _imported(name: str, missing: str) -> types.ModuleType:
    _limit_arenas()
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    # By default, OpenVINO's oneDNN keeps 1024 compiled operations, so that memory grows with every new size of frames.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")
    # Without this module, OpenVINO uses a stub that sends nothing; importlib reads None as "not installed".
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingDependency(missing) from error
