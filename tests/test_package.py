"""What importing the package costs, and what it depends on."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from clockseg import __main__ as entry
from clockseg.execution import machine as provenance
from clockseg.execution.machine import versions

ROOT = Path(__file__).resolve().parents[1]


def test_importing_clockseg_loads_nothing_heavy() -> None:
    code = (
        "import sys, clockseg; print(*sorted({'numpy', 'cv2', 'av', 'onnx', 'openvino', 'torch'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == []


def test_the_runtime_loads_no_torch() -> None:
    code = (
        "import sys, clockseg\n"
        "for name in clockseg.__all__: getattr(clockseg, name)\n"
        "import clockseg.engines, clockseg.video, clockseg.datasets, clockseg.evaluation.metrics, clockseg.networks.load\n"
        "print('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_runtime_dependencies_contain_no_torch() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not [line for line in project["dependencies"] if "torch" in line]


def test_files_that_are_public_say_so() -> None:
    """House rule: files of at most 400 lines, and no vague names."""
    vague = {"utils", "util", "misc", "core", "helpers", "base", "common"}
    for path in (ROOT / "src").rglob("*.py"):
        assert path.stem.strip("_") not in vague, path
        assert len(path.read_text().splitlines()) <= 400, path


def test_the_authoring_side_says_what_to_install(monkeypatch, capsys) -> None:
    from clockseg.cli.main import main

    monkeypatch.setattr("clockseg.cli.options.find_spec", lambda name: None)
    assert main(["train", "clock", "v.mp4", "--out", "x.onnx"]) == 1
    assert "pip install '.[torch]' in the clone" in capsys.readouterr().err


class _Interrupted:
    """Finds modules as an interrupt in the middle of it would."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "clockseg.cli.main":
            raise KeyboardInterrupt


def test_an_interrupt_before_the_command_has_begun_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "clockseg.cli.main", raising=False)
    monkeypatch.setattr(sys, "meta_path", [_Interrupted(), *sys.meta_path])
    assert entry.main() == 130
    assert capfd.readouterr() == ("", "")


def test_torch_is_among_the_versions_only_where_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert "torch" not in versions()
    assert "torch" not in sys.modules
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    monkeypatch.setattr(provenance, "version", lambda package: f"{package}'s")
    assert versions()["torch"] == "torch's"
