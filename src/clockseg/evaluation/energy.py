"""Joules, where the machine counts them: processors by RAPL, NVIDIA GPUs by NVML.

RAPL (Linux, ``/sys/class/powercap``): Intel's and AMD's processors count what their packages take, some also what their
memory takes. Mostly only root may read it, and virtual machines have none. NVML: GPUs since Volta, by the package
``nvidia-ml-py``. Either counts all that runs on the machine meanwhile. Where there is nothing to read, joules are None.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

POWERCAP = Path("/sys/class/powercap")
MICROJOULES, MILLIJOULES = 1e-6, 1e-3


@dataclass(frozen=True)
class Counter:
    """One counter: ``read`` gives units of ``joules`` each, since some time; after ``last`` it starts again at 0.

    ``last``: None for one that never starts again.
    """

    name: str
    read: Callable[[], int]
    joules: float
    last: int | None = None

    def between(self, before: int, now: int) -> float:
        """Joules from one reading to a later one, in between which it started again once at most.

        >>> Counter("package-0", lambda: 0, 1.0, last=99).between(90, 5)
        15.0
        """
        again = self.last + 1 if now < before and self.last is not None else 0
        return (now - before + again) * self.joules


def rapl(root: Path = POWERCAP) -> tuple[Counter, ...]:
    """The counters of processor packages, and of memory where that isn't in them; those that may not be read are left out."""
    found = []
    # intel-rapl:0 is a package (of AMD's processors too), intel-rapl:0:1 one of its parts; intel-rapl-mmio counts again.
    for zone in sorted(root.glob("intel-rapl:*")):
        try:
            name = (zone / "name").read_text().strip()
            counter = Counter(
                name, _file(zone / "energy_uj"), MICROJOULES, int((zone / "max_energy_range_uj").read_text())
            )
            counter.read()
        except (OSError, ValueError):
            continue
        if name.startswith("package-") or name == "dram":
            found.append(counter)
    return tuple(found)


def _file(path: Path) -> Callable[[], int]:
    return lambda: int(path.read_text())


def nvml() -> tuple[Counter, ...]:
    """The counters of all NVIDIA GPUs; none without ``nvidia-ml-py``, a driver, or a GPU that counts."""
    try:
        library: Any = importlib.import_module("pynvml")
    except ImportError:
        return ()
    try:
        library.nvmlInit()
        gpus = [library.nvmlDeviceGetHandleByIndex(index) for index in range(library.nvmlDeviceGetCount())]
        counters = [Counter(f"gpu-{index}", _gpu(library, gpu), MILLIJOULES) for index, gpu in enumerate(gpus)]
        for counter in counters:
            counter.read()
    except library.NVMLError:
        return ()
    return tuple(counters)


def _gpu(library: Any, gpu: Any) -> Callable[[], int]:
    return lambda: int(library.nvmlDeviceGetTotalEnergyConsumption(gpu))


class Energy:
    """Joules spent from one asking to the next; None where there is no counter, or one fails.

    ``counters``: ``rapl()`` where the CPU computes, ``rapl() + nvml()`` where a GPU does: an idle GPU takes much, too.

    >>> readings = iter([10, 30, 70])
    >>> energy = Energy([Counter("package-0", lambda: next(readings), 0.5)])
    >>> energy.spent(), energy.spent()
    (10.0, 20.0)
    >>> Energy([]).spent() is None
    True
    """

    def __init__(self, counters: Iterable[Counter]) -> None:
        self.counters = tuple(counters)
        self._before = self._readings()

    def spent(self) -> float | None:
        """Joules since it was made or asked last."""
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
    """The energy of this machine as far as ``engine`` (``StagedNetwork.engine``) uses it.

    >>> counting("openvino").counters == rapl()
    True
    """
    on_gpu = any(word in engine for word in ("cuda", "tensorrt"))
    return Energy(rapl() + (nvml() if on_gpu else ()))
