"""The engine "auto": measured once, remembered, forgotten, and robust against engines that can't."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import networks
from clockseg import engines
from clockseg.clockwork.network import Part, Stage, StagedNetwork
from clockseg.engines.auto import REMEMBERED, auto, fastest, recall
from clockseg.errors import MissingDependency, NetworkError, UsageError
from clockseg.execution.cache import add_note
from clockseg.networks.load import load


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("CLOCKSEG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Counting:
    """An engine that runs nothing, takes so long, and counts."""

    def __init__(self, seconds: float, *, fails: bool = False) -> None:
        self.seconds, self.fails, self.runs = seconds, fails, 0

    def __call__(self, net: StagedNetwork) -> StagedNetwork:
        def replaced(name: str, part: Part) -> Part:
            return lambda *values: self.run(name)

        return net.map(replaced)

    def run(self, name: str) -> Any:
        if self.fails:
            raise NetworkError("can't")
        self.runs += 1
        time.sleep(self.seconds)
        return name


def chosen(path: Path, contenders: dict[str, Any], **options: Any) -> Any:
    net = auto(load(path, engine=None), contenders, **({"precision": "f32", "threads": 1} | options))
    return net.whole(None) if net.whole else None


def test_the_faster_one_is_taken_and_remembered(tmp_path: Path, cache: Path) -> None:
    path = networks.write_tiny(tmp_path)
    slow, quick = Counting(0.004), Counting(0.0)
    for _ in range(2):
        auto(load(path, engine=None), {"slow": slow, "quick": quick}, precision="f32", threads=1)
    first = slow.runs
    assert first > 1
    auto(load(path, engine=None), {"slow": slow, "quick": quick}, precision="f32", threads=1)
    assert slow.runs == first
    [times] = json.loads((cache / "engines.json").read_text()).values()
    assert fastest(times) == "quick"
    assert engines.clear_cache() > 0
    assert recall() == {}
    auto(load(path, engine=None), {"slow": slow, "quick": quick}, precision="f32", threads=1)
    assert slow.runs == 2 * first


def test_what_the_answer_depends_on(tmp_path: Path) -> None:
    path = networks.write_tiny(tmp_path)
    both = {"slow": Counting(0.001), "quick": Counting(0.0)}
    for options in ({}, {"precision": "bf16"}, {"threads": 2}):
        chosen(path, both, **options)
    auto(load(path, engine=None, size=(64, 48)), both, precision="f32", threads=1)
    assert len(recall()) == 4
    chosen(path, both | {"new": Counting(0.0)})
    assert len(recall()) == 4
    assert {len(times) for times in recall().values()} == {2, 3}


def test_one_that_cannot_run_it_drops_out(tmp_path: Path) -> None:
    path = networks.write_tiny(tmp_path)
    assert chosen(path, {"broken": Counting(0, fails=True), "fine": Counting(0)}) == "whole"
    assert [times["broken"] for times in recall().values()] == [math.inf]
    assert chosen(path, {"broken": Counting(0, fails=True), "fine": Counting(0)}) == "whole"
    with pytest.raises(NetworkError, match="can't"):
        chosen(path, {"broken": Counting(0, fails=True), "too": Counting(0, fails=True)})


def test_one_alone_is_not_measured(tmp_path: Path, cache: Path) -> None:
    only = Counting(0)
    chosen(networks.write_tiny(tmp_path), {"only": only})
    assert only.runs == 1  # our own call
    assert not cache.exists()
    with pytest.raises(MissingDependency, match="pip install openvino"):
        chosen(networks.write_tiny(tmp_path), {})


def test_a_network_of_functions_is_not_measured() -> None:
    plain = StagedNetwork("plain", (Stage("a", str.upper),))
    assert engines.engine("auto")(plain)("x") == "X"


@pytest.mark.parametrize("text", ["", "[]", "nonsense", '{"a": 1}', '{"a": {"openvino": -1.0}}', "[" * 5000])
def test_a_damaged_memory_is_as_none(cache: Path, text: str) -> None:
    cache.mkdir()
    (cache / "engines.json").write_text(text)
    assert recall() == {}
    add_note(REMEMBERED, "key", {"a": 1.0})
    assert recall() == {"key": {"a": 1.0}}
    assert [file.name for file in cache.iterdir()] == ["engines.json"]


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("CLOCKSEG_CACHE", str(blocked))
    assert load(networks.write_tiny(tmp_path), engine="auto")(np.zeros((32, 48, 3), np.uint8)).shape == (32, 48)


def test_the_engines_that_are_here(tmp_path: Path) -> None:
    assert list(engines.contenders("f32", None))[:2] == ["openvino", "onnxruntime"]
    assert list(engines.contenders("bf16", None)) == ["openvino"]
    net = load(networks.write_tiny(tmp_path), engine="auto")
    assert net.engine in ("openvino", "onnxruntime")
    assert load(networks.write_tiny(tmp_path), engine="auto", precision="bf16").engine == "openvino bf16"


def test_a_provider_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="onnxruntime-gpu"):
        load(networks.write_tiny(tmp_path), engine="onnxruntime-cuda")


def test_providers_and_their_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a session is asked for on a GPU, with a stand-in for the library's list of what it has."""
    import onnxruntime

    asked: list[Any] = []
    plain: Callable[..., Any] = onnxruntime.InferenceSession

    def session(model: bytes, options: Any, providers: list[Any]) -> Any:
        asked.append(providers)
        return plain(model, options, providers=["CPUExecutionProvider"])

    there = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: there)
    monkeypatch.setattr(onnxruntime, "InferenceSession", session)
    path, image = networks.write_tiny(tmp_path), np.zeros((32, 48, 3), np.uint8)
    wanted = load(path, engine="onnxruntime")(image)
    assert list(engines.contenders("f32", 1)) == ["openvino", "onnxruntime", "onnxruntime-cuda"]
    asked.clear()
    assert np.array_equal(load(path, engine="onnxruntime-cuda")(image), wanted)
    assert {str(one) for one in asked} == {str([(there[0], {"use_tf32": 0}), there[1]])}
