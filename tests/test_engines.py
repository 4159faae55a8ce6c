"""Engines: buffers are never overwritten while held, options are checked, what is kept on disk can be cleared."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import networks
from clockseg import engines
from clockseg.clocks.rates import alternating, exponential, pipelined, skip_frame
from clockseg.clockwork.network import Stage, StagedNetwork
from clockseg.engines import onnxruntime, openvino, timed
from clockseg.engines.buffers import MOST_KEPT, Pool, lend
from clockseg.engines.compiled import compiled
from clockseg.errors import MissingDependency, NetworkError, UsageError
from clockseg.networks.load import load
from clockseg.showing.stream import run

ENGINES = {"openvino": openvino, "onnxruntime": onnxruntime}


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What engines keep on disk goes to the tests' own folder."""
    monkeypatch.setenv("CLOCKSEG_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(params=ENGINES)
def net(request: pytest.FixtureRequest, tmp_path: Path) -> StagedNetwork:
    """The tiny network compiled by each engine."""
    return load(networks.write_tiny(tmp_path), engine=ENGINES[request.param])


def frames(count: int) -> list[np.ndarray]:
    random = np.random.default_rng(1)
    return [random.integers(0, 256, (32, 48, 3), dtype=np.uint8) for _ in range(count)]


def test_what_is_held_is_never_overwritten(net: StagedNetwork) -> None:
    body = net.stages[0].body
    held = [body(net.prepare(image)) for image in frames(MOST_KEPT + 4)]
    copies = [{name: array.copy() for name, array in value.items()} for value in held]
    views = [value["low"][0, 0] for value in held]
    tops = [view.copy() for view in views]
    for value, copy in zip(held, copies, strict=True):
        assert all(np.array_equal(value[name], copy[name]) for name in value)
    del held, value
    for image in frames(5):
        body(net.prepare(image))
    assert all(np.array_equal(view, top) for view, top in zip(views, tops, strict=True))


def test_labels_handed_out_stay_what_they_were(net: StagedNetwork) -> None:
    found = [net(image) for image in frames(6)]
    again = [net(image) for image in frames(6)]
    assert all(np.array_equal(a, b) for a, b in zip(found, again, strict=True))


def test_buffers_are_used_again(net: StagedNetwork) -> None:
    seen = {net.stages[0].body(net.prepare(image))["low"].ctypes.data for image in frames(8)}
    assert len(seen) <= 2


def test_outputs_are_the_pools_own_memory(net: StagedNetwork) -> None:
    value = net.stages[0].body(net.prepare(frames(1)[0]))
    [runner] = net.stages[0].body.runners.kept.values()
    assert any(np.shares_memory(value["low"], slot.array) for slot in runner.pools[0].slots)


def test_frames_that_are_read_only_or_windows(net: StagedNetwork) -> None:
    image = frames(1)[0]
    wanted = net(image)
    fixed = image.copy()
    fixed.flags.writeable = False
    assert np.array_equal(net(fixed), wanted)
    large = np.zeros((64, 96, 3), np.uint8)
    large[:32, :48] = image
    assert np.array_equal(net(large[:32, :48]), wanted)


def test_threads_may_share_parts(net: StagedNetwork) -> None:
    images = frames(8)
    wanted = [net(image) for image in images]
    found: dict[int, list[np.ndarray]] = {}

    def work(number: int) -> None:
        found[number] = [net(image) for _ in range(3) for image in images]

    workers = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for results in found.values():
        assert all(np.array_equal(a, b) for a, b in zip(results, wanted * 3, strict=True))


@pytest.mark.parametrize("schedule", [alternating, exponential, skip_frame(2), pipelined(2), pipelined(3)])
def test_schedules_give_the_oracles_labels_where_all_stages_fire(net: StagedNetwork, schedule: Any) -> None:
    images = frames(9)
    oracle = [net(image) for image in images]
    serial = [output for output, _ in run(net, images, schedule)]
    assert np.array_equal(serial[0], oracle[0])
    if schedule in (alternating, exponential):
        assert all(np.array_equal(serial[t], oracle[t]) for t in (0, 4, 8))


def test_engines_agree(tmp_path: Path) -> None:
    path = networks.write_tiny(tmp_path)
    a, b = (load(path, engine=engine).stages[0].body for engine in ENGINES.values())
    value = load(path, engine=None).prepare(frames(1)[0])
    for name in ("low", "scores_1"):
        assert np.abs(a(value)[name] - b(value)[name]).max() <= 1e-4 * np.abs(a(value)[name]).max()


def test_f32_is_f32_even_where_bf16_is_at_hand(tmp_path: Path) -> None:
    path = networks.write_tiny(tmp_path)
    value = load(path, engine=None).prepare(frames(1)[0])
    plain = load(path, engine="onnxruntime").stages[0].body(value)["low"]
    for precision, most in (("f32", 1e-5), ("bf16", 0.05)):
        stage = load(path, engine="openvino", precision=precision).stages[0]
        found = stage.body(value)
        assert np.abs(found["low"].astype(np.float32) - plain).max() <= most * np.abs(plain).max()
        assert str(found["low"].dtype) == ("float32" if precision == "f32" else "bfloat16")
        assert stage.features(found).dtype == stage.scores(stage.head(found)).dtype == np.float32


@pytest.mark.parametrize("compile", [openvino, onnxruntime])
def test_other_parts_are_left_alone(tmp_path: Path, compile: Any) -> None:
    net = load(networks.write_tiny(tmp_path), engine=None)
    plain = replace(net, prepare=lambda image: image, restore=lambda value, image: value)
    counted = replace(plain, finish=lambda value: "X")
    assert compile(counted).finish({}) == "X"


@pytest.mark.parametrize("compile", [openvino, onnxruntime])
def test_a_network_with_nothing_to_compile_is_refused(tmp_path: Path, compile: Any) -> None:
    """It would be the same network under an engine's name."""
    with pytest.raises(UsageError, match="'plain' has no parts of an ONNX graph"):
        compile(StagedNetwork("plain", (Stage("a", str.upper),)))
    running = load(networks.write_tiny(tmp_path), engine="onnxruntime")
    with pytest.raises(UsageError, match="with engine=None"):
        compile(running)


@pytest.mark.parametrize("engine", ENGINES)
def test_options(tmp_path: Path, engine: str) -> None:
    plain = load(networks.write_tiny(tmp_path), engine=None)
    with pytest.raises(UsageError, match="threads=0"):
        ENGINES[engine](plain, threads=0)
    with pytest.raises(UsageError, match="precision 'f8'"):
        ENGINES[engine](plain, precision="f8")
    one, two = (ENGINES[engine](plain, threads=threads)(frames(1)[0]) for threads in (1, 2))
    assert np.array_equal(one, two)


def test_names() -> None:
    with pytest.raises(UsageError, match=r"no engine 'openvin'\. Did you mean openvino"):
        engines.engine("openvin")
    with pytest.raises(UsageError, match="use the engine 'openvino' for bf16"):
        engines.engine("onnxruntime", precision="bf16")(StagedNetwork("plain", (Stage("a", str.upper),)))


@pytest.mark.parametrize("library", ["openvino", "onnxruntime"])
def test_a_missing_library(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingDependency, match=f"pip install .*{library}"):
        engines.engine(library)(StagedNetwork("plain", (Stage("a", str.upper),)))


def test_the_cache_can_be_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache"
    monkeypatch.setenv("CLOCKSEG_CACHE", str(folder))
    path = networks.write_tiny(tmp_path)
    wanted = load(path, engine="openvino")(frames(1)[0])
    assert any(folder.rglob("*"))
    assert np.array_equal(load(path, engine="openvino")(frames(1)[0]), wanted)
    assert engines.clear_cache() > 0
    assert not any(file.is_file() for file in folder.rglob("*"))
    assert engines.clear_cache() == 0
    monkeypatch.setenv("CLOCKSEG_CACHE_BYTES", "0")
    load(path, engine="openvino")(frames(1)[0])
    assert not any(file.is_file() for file in folder.rglob("*"))


def in_cache(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def test_the_cache_stays_within_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache"
    monkeypatch.setenv("CLOCKSEG_CACHE", str(folder))
    path = networks.write_tiny(tmp_path)
    (folder / "openvino").mkdir(parents=True)
    (folder / "openvino" / "of-an-older-version.blob").write_bytes(bytes(1000))
    os.utime(folder / "openvino" / "of-an-older-version.blob", (0, 0))
    heights = (8, 16, 24, 32, 40)
    for height in heights:
        load(path, engine="openvino")(np.zeros((height, 48, 3), np.uint8))
    one = (in_cache(folder) - 1000) // len(heights)
    limit = 3 * one
    monkeypatch.setenv("CLOCKSEG_CACHE_BYTES", str(limit))
    load(path, engine="openvino")(np.zeros((8, 48, 3), np.uint8))  # the first one is used again
    before = set((folder / "openvino").iterdir())
    load(path, engine="openvino")(np.zeros((48, 48, 3), np.uint8))
    assert one < in_cache(folder) <= limit
    kept = before.intersection((folder / "openvino").iterdir())
    assert max(before, key=lambda entry: entry.stat().st_mtime if entry.exists() else 0) in kept
    assert not (folder / "openvino" / "of-an-older-version.blob").exists()


def test_no_cache_with_a_limit_of_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOCKSEG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CLOCKSEG_CACHE_BYTES", "0")
    load(networks.write_tiny(tmp_path), engine="openvino")(frames(1)[0])
    assert in_cache(tmp_path / "cache") == 0


@pytest.mark.parametrize("wrong", ["much", "-1", "1e9"])
def test_a_wrong_limit_is_refused_at_once(wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOCKSEG_CACHE_BYTES", wrong)
    with pytest.raises(UsageError, match=r"CLOCKSEG_CACHE_BYTES=.*2000000000"):
        load(networks.write_tiny(tmp_path), engine="openvino")


def test_a_damaged_cache_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache"
    monkeypatch.setenv("CLOCKSEG_CACHE", str(folder))
    path = networks.write_tiny(tmp_path)
    wanted = load(path, engine="openvino")(frames(1)[0])
    for file in [file for file in folder.rglob("*") if file.is_file()]:
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert np.array_equal(load(path, engine="openvino")(frames(1)[0]), wanted)


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLOCKSEG_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    monkeypatch.setattr(sys, "platform", "linux")
    assert engines.cache_directory() == Path("/somewhere/clockseg")


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("CLOCKSEG_CACHE", str(blocked))
    assert load(networks.write_tiny(tmp_path), engine="openvino")(frames(1)[0]).shape == (32, 48)


SIGNAL_AFTER_NETWORKS = """
import gc, signal, sys
import numpy as np
import clockseg
frame = np.zeros((32, 48, 3), np.uint8)
first, second = (clockseg.load(sys.argv[1], engine="openvino") for _ in range(2))
first(frame), second(frame)
del first
gc.collect()
del second
gc.collect()
signal.signal(signal.SIGUSR1, lambda number, frame: print("handled"))
signal.raise_signal(signal.SIGUSR1)
"""


def test_signals_are_handled_after_networks_are_dropped(tmp_path: Path) -> None:
    script = [sys.executable, "-c", SIGNAL_AFTER_NETWORKS, str(networks.write_tiny(tmp_path))]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "handled\n"), done.stderr


def test_sizes_stay_compiled_and_the_oldest_goes(net: StagedNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clockseg.engines.compiled.SIZES", 3)
    for height in (32, 24, 16, 8):
        net(np.zeros((height, 48, 3), np.uint8))
    assert list(net.stages[0].body.runners.kept) == [(48, 24), (48, 16), (48, 8)]


def test_sizes_that_go_are_freed_at_once(net: StagedNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled models hold memory that the garbage collector can't see, so that it would wait too long to look for cycles."""
    monkeypatch.setattr("clockseg.engines.compiled.SIZES", 2)
    gc.disable()
    try:
        net(np.zeros((8, 48, 3), np.uint8))
        gone = weakref.ref(net.stages[0].body.runners.kept[48, 8])
        for height in (16, 24):
            net(np.zeros((height, 48, 3), np.uint8))
        assert gone() is None
    finally:
        gc.enable()


def test_a_network_that_goes_is_freed_at_once(tmp_path: Path) -> None:
    path = networks.write_tiny(tmp_path)
    gc.disable()
    try:
        for name in ENGINES:
            dropped = load(path, engine=name)
            list(run(dropped, frames(2), skip_frame(1)))
            body = weakref.ref(dropped.stages[0].body)
            del dropped
            assert body() is None, name
    finally:
        gc.enable()


def test_timed(net: StagedNetwork) -> None:
    wrapped, times = timed(net)
    wrapped(frames(1)[0])
    wrapped(frames(1)[0])
    assert times.calls["low.body"] == times.calls["finish"] == times.calls["mid+deep"] == 2
    assert times.seconds["low.body"] > 0
    assert "whole" not in times.calls
    times.clear()
    assert not times.calls


def test_a_pool_forgets_what_is_held_for_long() -> None:
    pool = Pool((4,), np.dtype(np.float32))
    held: list[Any] = [lend([pool])[0].array for _ in range(3 * MOST_KEPT)]
    assert len({array.ctypes.data for array in held}) == len(held)
    assert len(pool.slots) == MOST_KEPT


def test_what_an_engine_can_not_compile_is_told(tmp_path) -> None:
    def broken(built):
        raise RuntimeError("first line\nno such operation")

    net = compiled(load(networks.write_tiny(tmp_path), engine=None), broken, "broken")
    with pytest.raises(NetworkError, match=r"can't compile part .*\(no such operation\)"):
        net(np.zeros((32, 48, 3), np.uint8))


@pytest.mark.parametrize(
    ("compile", "said"),
    [
        (lambda built: None, "compiled part .* to None"),
        (lambda built: lambda inputs: None, "returned None for part .*; return a list of"),
        (lambda built: lambda inputs: [inputs[0]] * 9, "returned a list of 9 for part"),
        (lambda built: built.nothing, r"\(test_engines.py, line \d+, in <lambda>: AttributeError: .*'nothing'\)"),
    ],
)
def test_a_fault_in_an_engine_of_ones_own_is_told(compile: Any, said: str, tmp_path: Path) -> None:
    net = compiled(load(networks.write_tiny(tmp_path), engine=None), compile, "own")
    with pytest.raises(NetworkError, match=said):
        net(np.zeros((32, 48, 3), np.uint8))
