"""What produced a figure: versions and machine, for summaries and benchmarks."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("numpy", "onnx", "av", "opencv-python-headless", "openvino", "onnxruntime")


def versions() -> dict[str, str]:
    """Of clockseg, Python and what it runs on; what isn't installed is left out, and torch where nothing has loaded it.

    >>> sorted(versions())[:2]
    ['av', 'clockseg']
    """
    found = {"clockseg": _version("clockseg"), "python": platform.python_version()}
    packages = (*PACKAGES, "torch") if "torch" in sys.modules else PACKAGES
    found |= {package: _version(package) for package in packages}
    return {name: number for name, number in found.items() if number}


def machine() -> dict[str, str | int]:
    """The processor, the cores this process may use, and the system.

    >>> machine()["cores"] >= 1
    True
    """
    return {"processor": _processor(), "cores": cores(), "system": f"{platform.system()} {platform.machine()}"}


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if platform.system() == "Linux" else os.cpu_count() or 1


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
