"""Joules from a made-up sysfs tree and a made-up NVML; no machine is asked."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from clockseg.evaluation.energy import Counter, Energy, counting, nvml, rapl


def zone(root: Path, name: str, label: str, energy: int | str, last: int = 999_999) -> Path:
    """One counter of a powercap tree; microjoules."""
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{label}\n")
    (folder / "energy_uj").write_text(f"{energy}\n")
    (folder / "max_energy_range_uj").write_text(f"{last}\n")
    return folder / "energy_uj"


def test_packages_and_memory_are_counted_once(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0", 10)
    zone(tmp_path, "intel-rapl:0:0", "core", 20)
    zone(tmp_path, "intel-rapl:0:1", "dram", 30)
    zone(tmp_path, "intel-rapl:1", "package-1", 40)
    zone(tmp_path, "intel-rapl:2", "psys", 50)
    zone(tmp_path, "intel-rapl-mmio:0", "package-0", 60)
    (tmp_path / "intel-rapl").mkdir()
    assert [(counter.name, counter.read()) for counter in rapl(tmp_path)] == [
        ("package-0", 10),
        ("dram", 30),
        ("package-1", 40),
    ]


def test_joules_since_asked_last(tmp_path: Path) -> None:
    one, two = zone(tmp_path, "intel-rapl:0", "package-0", 100), zone(tmp_path, "intel-rapl:1", "package-1", 0)
    energy = Energy(rapl(tmp_path))
    one.write_text("500100")
    two.write_text("250000")
    assert energy.spent() == pytest.approx(0.75)
    assert energy.spent() == 0


def test_a_counter_that_started_again(tmp_path: Path) -> None:
    file = zone(tmp_path, "intel-rapl:0", "package-0", 999_990, last=999_999)
    energy = Energy(rapl(tmp_path))
    file.write_text("5")
    assert energy.spent() == pytest.approx(15e-6)
    file.write_text("7")
    assert energy.spent() == pytest.approx(2e-6)


def test_nothing_to_read_is_none(tmp_path: Path) -> None:
    assert rapl(tmp_path / "nowhere") == ()
    assert Energy(rapl(tmp_path / "nowhere")).spent() is None


@pytest.mark.parametrize("broken", ["energy_uj", "max_energy_range_uj", "name"])
def test_what_may_not_be_read_is_left_out(tmp_path: Path, broken: str) -> None:
    file = zone(tmp_path, "intel-rapl:0", "package-0", 1).with_name(broken)
    file.unlink()
    # A folder in its place can't be read by root either, whom permissions don't stop.
    file.mkdir()
    zone(tmp_path, "intel-rapl:1", "package-1", 2)
    assert [counter.name for counter in rapl(tmp_path)] == ["package-1"]


def test_a_counter_that_goes_away_gives_none_and_may_come_back(tmp_path: Path) -> None:
    file = zone(tmp_path, "intel-rapl:0", "package-0", 1)
    energy = Energy(rapl(tmp_path))
    file.unlink()
    assert energy.spent() is None
    file.write_text("10")
    assert energy.spent() is None
    file.write_text("2000010")
    assert energy.spent() == 2


class FakeNVML(types.ModuleType):
    """Two GPUs; ``failing`` names the call that raises."""

    class NVMLError(Exception):
        pass

    def __init__(self, failing: str = "") -> None:
        super().__init__("pynvml")
        self.failing, self.millijoules = failing, [1000, 5000]

    def nvmlInit(self) -> None:
        self._called("nvmlInit")

    def nvmlDeviceGetCount(self) -> int:
        return len(self.millijoules)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetTotalEnergyConsumption(self, gpu: int) -> int:
        self._called("nvmlDeviceGetTotalEnergyConsumption")
        return self.millijoules[gpu]

    def _called(self, name: str) -> None:
        if name == self.failing:
            raise self.NVMLError(name)


def test_gpus_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeNVML()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    energy = Energy(nvml())
    assert [counter.name for counter in energy.counters] == ["gpu-0", "gpu-1"]
    fake.millijoules = [3000, 5500]
    assert energy.spent() == pytest.approx(2.5)


@pytest.mark.parametrize("failing", ["nvmlInit", "nvmlDeviceGetTotalEnergyConsumption"])
def test_gpus_that_do_not_count_are_none(monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNVML(failing))
    assert nvml() == ()


def test_without_the_package_there_are_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvml() == ()


def test_only_engines_on_gpus_count_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNVML())

    def gpus(engine: str) -> int:
        return sum(counter.name.startswith("gpu") for counter in counting(engine).counters)

    assert [gpus(name) for name in ("openvino", "onnxruntime cuda", "onnxruntime tensorrt f16", "torch")] == [
        0,
        2,
        2,
        0,
    ]


def test_a_counter_without_an_end_only_grows() -> None:
    counter: Any = Counter("gpu-0", lambda: 0, 1e-3)
    assert counter.between(1000, 4000) == pytest.approx(3)
