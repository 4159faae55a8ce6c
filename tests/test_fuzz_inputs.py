"""A few hundred hostile inputs of every kind that is read from outside: an error of clockseg's own, or none.

The same again and again; ``python -m benchmarks fuzz`` tries others, for as long as one likes.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz_targets import TARGETS, tried

INPUTS = {
    "videos": 120,
    "videos, segmented": 25,
    "ONNX graphs, cut": 60,
    "ONNX graphs, run": 60,
    "result folders": 40,
    "data sets": 40,
    "learned clocks": 200,
    "folders": 25,
    "command lines": 40,
}
"""How many; of what is quick, 150."""


@pytest.fixture(autouse=True)
def _watched() -> Iterator[None]:
    """What hangs is ended, where the system can."""

    def end(number: int, frame: object) -> None:
        raise TimeoutError("an input takes more than a minute")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="needs SIGALRM")
@pytest.mark.parametrize("kind", TARGETS)
def test_hostile_inputs_are_taken_or_refused(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOCKSEG_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    taken = 0
    for number in range(INPUTS.get(kind, 150)):
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            taken += tried(TARGETS[kind], f"test {number}", folder)
        except Exception as error:
            raise AssertionError(f"{kind}, input {number}: {type(error).__name__}: {error}") from error
    # What is made hostile is good to begin with: else nothing but the first check is tried.
    assert taken
