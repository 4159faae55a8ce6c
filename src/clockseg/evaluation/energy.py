"""Energy in joules, if the machine counts it: CPUs by RAPL (Linux, mostly readable by root only), NVIDIA GPUs by NVML.

RAPL (``/sys/class/powercap``) counts the energy of processor packages, on some machines also that of their memory; virtual
machines have none. NVML, of the package ``nvidia-ml-py``, counts that of GPUs since Volta. Either includes everything that
runs on the machine meanwhile.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

POWERCAP = Path("/sys/class/powercap")


class Counter(NamedTuple):
    """A counter: ``read`` returns units of ``joules`` each; after ``last`` it wraps around to 0 (None: never)."""

    name: str
    read: Callable[[], int]
    joules: float
    last: int | None = None

    def between(self, before: int, now: int) -> float:
        """Return the joules from one reading to a later one, between which the counter wrapped around at most once."""
        wrapped = self.last + 1 if now < before and self.last is not None else 0
        return (now - before + wrapped) * self.joules


def rapl(root: Path = POWERCAP) -> tuple[Counter, ...]:
    """Return the counters of processor packages, and of memory that is not part of them, as far as they are readable."""
    found = []
    # intel-rapl:0 is a package (also of AMD's processors), intel-rapl:0:1 a part of it; intel-rapl-mmio counts again.
    for zone in sorted(root.glob("intel-rapl:*")):
        try:
            name, last = (zone / "name").read_text().strip(), int((zone / "max_energy_range_uj").read_text())
            counter = Counter(name, lambda file=zone / "energy_uj": int(file.read_text()), 1e-6, last)  # type: ignore[misc]
            counter.read()
        except (OSError, ValueError):
            continue
        if name.startswith("package-") or name == "dram":
            found.append(counter)
    return tuple(found)


def nvml() -> tuple[Counter, ...]:
    """Return the counters of all NVIDIA GPUs; none without ``nvidia-ml-py``, a driver, or a GPU that counts."""
    try:
        library: Any = importlib.import_module("pynvml")
    except ImportError:
        return ()
    consumed = library.nvmlDeviceGetTotalEnergyConsumption
    try:
        library.nvmlInit()
        gpus = [library.nvmlDeviceGetHandleByIndex(index) for index in range(library.nvmlDeviceGetCount())]
        found = [Counter(f"gpu-{n}", lambda gpu=gpu: int(consumed(gpu)), 1e-3) for n, gpu in enumerate(gpus)]  # type: ignore[misc]
        for counter in found:
            counter.read()
    except library.NVMLError:
        return ()
    return tuple(found)


class Energy:
    """The energy between two calls of ``spent``, in joules; None without a counter, or if one fails.

    >>> readings = iter([10, 30, 70])
    >>> energy = Energy([Counter("package-0", lambda: next(readings), 0.5)])
    >>> energy.spent(), energy.spent()
    (10.0, 20.0)
    """

    def __init__(self, counters: Iterable[Counter]) -> None:
        self.counters = tuple(counters)
        self._before = self._readings()

    def spent(self) -> float | None:
        """Return the joules since the last call."""
        before, self._before = self._before, self._readings()
        if not self.counters or before is None or self._before is None:
            return None
        return sum(one.between(*pair) for one, *pair in zip(self.counters, before, self._before, strict=True))

    def _readings(self) -> list[int] | None:
        try:
            return [counter.read() for counter in self.counters]
        except Exception:  # a file that went away, or whatever NVML raises; a missing figure must not end a run
            return None


def counting(engine: str) -> Energy:
    """Return the energy of this machine as far as ``engine`` (``StagedNetwork.engine``) uses it; an idle GPU is included."""
    on_gpu = any(word in engine for word in ("cuda", "tensorrt"))
    return Energy(rapl() + (nvml() if on_gpu else ()))
