"""How networks are cut is kept on disk: never for another file, never from a damaged one, and with the same outputs."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import networks
from clockseg import Session, skip_frame
from clockseg.clocks.spec import parse_schedule
from clockseg.engines import clear_cache
from clockseg.errors import DataError
from clockseg.graph import onnx_reader
from clockseg.graph.sidecar import Sidecar
from clockseg.networks.load import load

FRAMES = np.random.default_rng(0).integers(0, 256, (5, 32, 48, 3), dtype=np.uint8)
SCHEDULES = ("frame_oracle", "alternating", "carried(skip_frame(2), warp(flow))")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("CLOCKSEG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files of graphs that were read."""
    found: list[Path] = []
    real = onnx_reader.read

    def read(path: Path, **options: Any) -> Any:
        found.append(path)
        return real(path, **options)

    monkeypatch.setattr(onnx_reader, "read", read)
    return found


def outputs(path: Path, engine: str = "openvino", **options: Any) -> list[list[Any]]:
    net = load(path, engine=engine, threads=1, **options)
    sessions = [Session(net, parse_schedule(schedule)) for schedule in SCHEDULES]
    return [[session(frame).tolist() for frame in FRAMES] for session in sessions]


@pytest.mark.parametrize(
    ("model", "said"), [(networks.tiny(), networks.TINY), (networks.unet(), networks.UNET)], ids=["tiny", "unet"]
)
def test_the_graph_is_read_once_and_outputs_stay_the_same(
    model: onnx.ModelProto, said: Sidecar, tmp_path: Path, reads: list[Path]
) -> None:
    path = networks.write_network(tmp_path, model, said)
    first = outputs(path)
    assert len(reads) == 1
    assert outputs(path) == first
    assert len(reads) == 1


def test_another_engine_and_another_size_read_the_graph(tmp_path: Path, reads: list[Path]) -> None:
    path = networks.write_tiny(tmp_path)
    outputs(path)
    outputs(path, size=(64, 48))
    outputs(path, engine="onnxruntime")
    assert len(reads) == 3


def test_a_replaced_file_is_read_anew(tmp_path: Path) -> None:
    path = networks.write_tiny(tmp_path)
    first = outputs(path)
    kept = path.stat()
    (tmp_path / "other").mkdir()
    model = networks.tiny()
    for weight in model.graph.initializer:
        if weight.data_type == onnx.TensorProto.FLOAT:
            weight.raw_data = np.negative(np.frombuffer(weight.raw_data, np.float32)).tobytes()
    other = networks.write_network(tmp_path / "other", model, networks.TINY)
    assert other.stat().st_size == kept.st_size
    shutil.copyfile(other, path)
    os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    assert outputs(path) != first
    assert outputs(path) == outputs(other)


def test_a_file_that_is_replaced_before_its_graph_is_read_is_refused(tmp_path: Path, cache: Path) -> None:
    path = networks.write_tiny(tmp_path)
    outputs(path)
    net = load(path, engine="openvino", threads=1)
    shutil.rmtree(cache / "openvino")
    path.write_bytes(path.read_bytes())
    with pytest.raises(DataError, match="was replaced"):
        Session(net, skip_frame(2))(FRAMES[0])


class Harmful:
    def __reduce__(self) -> Any:
        return os.mkdir, (os.environ["HARMED"],)


@pytest.mark.parametrize("what", ["cut short", "harmful", "something else", "unwritable"])
def test_a_damaged_cache_does_no_harm(
    what: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, reads: list[Path]
) -> None:
    monkeypatch.setenv("HARMED", str(tmp_path / "harmed"))
    path = networks.write_tiny(tmp_path)
    first = outputs(path)
    [file] = cache.glob("cuts/*/network.pickle")
    for note in cache.glob("cuts/*/*.json"):
        note.write_text('["a", 1]')
    if what == "unwritable":
        file.unlink()
        file.mkdir()
    else:
        text = {"cut short": file.read_bytes()[:-9], "harmful": pickle.dumps(Harmful())}
        file.write_bytes(text.get(what, pickle.dumps([1, 2])))
    assert outputs(path) == first
    assert not (tmp_path / "harmed").exists()
    assert len(reads) == 2


def test_the_cache_can_be_switched_off_and_cleared(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, reads: list[Path]
) -> None:
    path = networks.write_tiny(tmp_path)
    monkeypatch.setenv("CLOCKSEG_CACHE_BYTES", "0")
    outputs(path)
    assert not (cache / "cuts").exists()
    monkeypatch.delenv("CLOCKSEG_CACHE_BYTES")
    outputs(path)
    assert clear_cache() > 0
    outputs(path)
    assert len(reads) == 3
