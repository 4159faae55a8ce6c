"""The machine that runs the network: processor, cores, threads, and the versions of the libraries."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from clockseg.errors import UsageError

PACKAGES = ("numpy", "onnx", "av", "opencv-python-headless", "openvino", "onnxruntime")


def versions() -> dict[str, str]:
    """Return the versions of clockseg, Python and the installed libraries; of torch only if it was imported.

    >>> sorted(versions())[:2]
    ['av', 'clockseg']
    """
    found = {"clockseg": _version("clockseg"), "python": platform.python_version()}
    packages = (*PACKAGES, "torch") if "torch" in sys.modules else PACKAGES
    found |= {package: _version(package) for package in packages}
    return {name: number for name, number in found.items() if number}


def machine() -> dict[str, str | int]:
    """Return the processor, the number of cores that this process may use, and the system.

    >>> machine()["cores"] >= 1
    True
    """
    return {"processor": _processor(), "cores": cores(), "system": f"{platform.system()} {platform.machine()}"}


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if platform.system() == "Linux" else os.cpu_count() or 1


def threads_or_all(threads: int | None) -> int:
    """Return ``threads``, or if it is None the number of cores that this process may use.

    >>> threads_or_all(2)
    2
    """
    if threads is None:
        return cores()
    if threads < 1:
        raise UsageError(f"threads={threads}: an engine needs at least 1; leave it out to use all cores.")
    return threads


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(errors="replace").splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def release_memory() -> None:
    """Collect garbage, and return free memory to the system where the C library can (glibc).

    >>> release_memory()
    """
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
