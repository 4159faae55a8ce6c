"""Pipelines run ahead: the same outputs as in order, and delayed segments computed between frames."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import networks
import symbolic
from clockseg import Schedule, pipelined, run
from clockseg.clocks.rates import alternating
from clockseg.engines import onnxruntime, openvino
from clockseg.execution.machine import cores
from clockseg.execution.pipeline import Ahead
from clockseg.networks.load import load


@pytest.mark.parametrize(
    ("k", "expected"), [(2, ["000", "110", "221", "332", "443"]), (3, ["000", "100", "210", "321", "432"])]
)
@pytest.mark.parametrize("ahead", [False, True])
def test_what_each_stage_reflects(k, expected, ahead) -> None:
    """Traps 6 and 7: segments read what the frame before left, from (0, 0, 0) by (2, 1, 0)."""
    session = Ahead(symbolic.network(), pipelined(k))
    found = []
    for frame in "01234":
        found.append(symbolic.frames_of(session(frame)))
        if ahead:
            session.between()
    assert found == expected


@settings(max_examples=40, deadline=None)
@given(data=st.data(), stages=st.integers(2, 4))
def test_any_clocks_and_delays_give_the_same_ahead(data, stages) -> None:
    fires = data.draw(st.lists(st.lists(st.booleans(), min_size=stages, max_size=stages), min_size=6, max_size=6))
    delays = (0, *data.draw(st.lists(st.integers(0, 1), min_size=stages - 1, max_size=stages - 1)))
    clocks = tuple(lambda tick, i=i: fires[tick.t][i] for i in range(stages))
    schedule = Schedule(clocks, delays, nested=data.draw(st.booleans()))
    ahead = Ahead(symbolic.network(stages), schedule)
    for frame, (output, record) in zip("012345", run(symbolic.network(stages), "012345", schedule), strict=True):
        assert (ahead(frame), ahead.record[:4]) == (output, record[:4])
        ahead.between()


@pytest.mark.parametrize("engine", [openvino, onnxruntime])
@pytest.mark.parametrize("k", [2, 3])
def test_compiled_networks_give_the_same_bits(tmp_path: Path, engine, k) -> None:
    net = engine(load(networks.write_tiny(tmp_path), engine=None), threads=2)
    images = list(np.random.default_rng(1).integers(0, 256, (6, 32, 48, 3), dtype=np.uint8))
    made = Ahead(net, pipelined(k))
    for image, (wanted, _) in zip(images, run(net, images, pipelined(k)), strict=True):
        assert np.array_equal(made(image), wanted)
        made.between()


def test_a_schedule_of_one_segment_has_nothing_to_compute_between_frames() -> None:
    log: list[str] = []
    net = symbolic.network().map(lambda name, part: lambda *values: (log.append(name), part(*values))[1])
    made = Ahead(net, alternating)
    assert [symbolic.frames_of(made(frame)) for frame in "012"] == ["000", "110", "222"]
    log.clear()
    made.between()
    assert log == []


@pytest.mark.skipif(cores() < 2, reason="a machine of one core")
def test_openvino_binds_threads_only_where_it_has_all_cores(tmp_path: Path) -> None:
    """Bound, models of one thread each all run on the first core: networks run at once would take turns on it."""
    raw = load(networks.write_tiny(tmp_path), engine=None)
    for threads, bound in ((1, False), (cores(), True)):
        net = openvino(raw, threads=threads)
        net(np.zeros((32, 48, 3), np.uint8))
        [compiled] = net.stages[0].body.runners.kept.values()
        assert compiled.request.get_compiled_model().get_property("ENABLE_CPU_PINNING") is bound


def test_what_is_computed_when() -> None:
    log: list[str] = []
    net = symbolic.network().map(lambda name, part: lambda *values: (log.append(name), part(*values))[1])
    made = Ahead(net, pipelined(3))
    made.between()
    made("0")
    made.between()
    log.clear()
    # At frame 1 stage C reads what B gave at frame 0, which the fill has computed.
    for frame, later in (("1", "B"), ("2", "BC"), ("3", "BC")):
        made(frame)
        assert log == ["A.body", "A.head", "fuse", "finish"]
        log.clear()
        made.between()
        assert log == [f"{stage}.{part}" for stage in later for part in ("body", "head")]
        log.clear()


def test_without_time_between_frames_it_is_computed_when_it_is_needed() -> None:
    made = Ahead(symbolic.network(), pipelined(3))
    assert [symbolic.frames_of(made(frame)) for frame in "01234"] == ["000", "100", "210", "321", "432"]
