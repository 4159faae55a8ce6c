"""Pipelines run at once and ahead: the same outputs as one segment after another, from segments that really run so."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import networks
import symbolic
from clockseg import Group, Schedule, Stage, StagedNetwork, UsageError, pipelined, run
from clockseg.clockwork.schedule import alternating
from clockseg.engines import onnxruntime, openvino
from clockseg.execution.machine import cores
from clockseg.execution.pipeline import running, shares, stage_seconds
from clockseg.networks.load import load
from virtual_time import VirtualTimer, with_durations

SECONDS = 10
"""After which a segment that waits for another gives up, if the other does not run."""


def at_once(net: StagedNetwork, how: str = "concurrent", **options):
    """A runner's context for a network that is the same for every number of threads."""
    return lambda schedule: running(lambda threads: net, schedule, how=how, threads=options.get("threads", 4))


def with_bodies(net: StagedNetwork, before) -> StagedNetwork:
    """``net`` whose bodies call ``before(index)`` first."""

    def body(index: int, part):
        def call(value):
            before(index)
            return part(value)

        return call

    return replace(net, stages=tuple(replace(stage, body=body(i, stage.body)) for i, stage in enumerate(net.stages)))


def workers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("clockseg-segment")]


# The answer does not depend on who is first.


@pytest.mark.parametrize(
    ("k", "expected"), [(2, ["000", "110", "221", "332", "443"]), (3, ["000", "100", "210", "321", "432"])]
)
@pytest.mark.parametrize("how", ["serial", "concurrent", "ahead"])
def test_what_each_stage_reflects(k, expected, how) -> None:
    """Traps 6 and 7: segments read what the frame before left, from (0, 0, 0) by (2, 1, 0)."""
    with at_once(symbolic.network(), how)(pipelined(k)) as runner:
        found = []
        for frame in "01234":
            found.append(symbolic.frames_of(runner.session(frame)))
            runner.between()
    assert found == expected


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_segments_read_old_state_in_whatever_order_they_finish(order) -> None:
    """Trap 6: with the shallow segment done before the deep one starts, the deep one still reads the old value."""
    turn: list[threading.Event] = []

    def in_order(index: int) -> None:
        if turn:
            place = order.index(index)
            assert turn[place].wait(SECONDS)

    def done(index: int, value):
        if turn:
            turn[order.index(index) + 1].set()
        return value

    net = with_bodies(symbolic.network(), in_order)
    net = replace(net, stages=tuple(replace(s, head=lambda v, i=i: done(i, v)) for i, s in enumerate(net.stages)))
    with at_once(net)(pipelined(3)) as runner:
        runner.session("0")
        for frame, expected in (("1", "100"), ("2", "210"), ("3", "321")):
            turn[:] = [threading.Event() for _ in range(4)]
            turn[0].set()
            assert symbolic.frames_of(runner.session(frame)) == expected


@settings(max_examples=15, deadline=None)
@given(k=st.integers(2, 4), seed=st.integers(0, 2**32 - 1))
def test_concurrent_is_serial_however_long_stages_take(k, seed) -> None:
    rng = np.random.default_rng(seed)
    net = symbolic.network(4)
    slow = with_bodies(net, lambda index: time.sleep(rng.integers(0, 3) / 1000))
    serial = [output for output, _ in run(net, "012345", pipelined(k))]
    with at_once(slow)(pipelined(k)) as runner:
        assert [runner.session(frame) for frame in "012345"] == serial


@settings(max_examples=40, deadline=None)
@given(data=st.data(), stages=st.integers(2, 4))
def test_any_clocks_and_delays_give_the_same_at_once_and_ahead(data, stages) -> None:
    fires = data.draw(st.lists(st.lists(st.booleans(), min_size=stages, max_size=stages), min_size=6, max_size=6))
    delays = (0, *data.draw(st.lists(st.integers(0, 1), min_size=stages - 1, max_size=stages - 1)))
    clocks = tuple(lambda tick, i=i: fires[tick.t][i] for i in range(stages))
    schedule = Schedule(clocks, delays, nested=data.draw(st.booleans()))
    net = symbolic.network(stages)
    found = {}
    for how in ("serial", "concurrent", "ahead"):
        with at_once(net, how)(schedule) as runner:
            found[how] = []
            for frame in "012345":
                output = runner.session(frame)
                found[how].append((output, runner.session.record[:4]))
                runner.between()
    assert found["concurrent"] == found["ahead"] == found["serial"]


@pytest.mark.parametrize("engine", [openvino, onnxruntime])
@pytest.mark.parametrize("k", [2, 3])
def test_compiled_networks_give_the_same_bits(tmp_path: Path, engine, k) -> None:
    raw = load(networks.write_tiny(tmp_path), engine=None)
    nets = {threads: engine(raw, threads=threads) for threads in (1, 2)}
    images = list(np.random.default_rng(1).integers(0, 256, (6, 32, 48, 3), dtype=np.uint8))
    serial = [output for output, _ in run(nets[2], images, pipelined(k))]
    for how in ("concurrent", "ahead"):
        with running(nets.__getitem__, pipelined(k), how=how, threads=2) as runner:
            for image, wanted in zip(images, serial, strict=True):
                assert np.array_equal(runner.session(image), wanted)
                runner.between()


# Segments really run at once.


@pytest.mark.parametrize("k", [2, 3])
def test_segments_wait_for_each_other(k) -> None:
    meeting = threading.Barrier(k, timeout=SECONDS)
    first = 3 - k  # of the stages that begin a segment: (0, 2) or (0, 1, 2)
    filled = threading.Event()

    def meet(index: int) -> None:
        if filled.is_set() and (index == 0 or index > first):
            meeting.wait()

    net = with_bodies(symbolic.network(), meet)
    with at_once(net)(pipelined(k)) as runner:
        runner.session("0")
        filled.set()
        found = [symbolic.frames_of(runner.session(frame)) for frame in "1234"]
    assert found == {2: ["110", "221", "332", "443"], 3: ["100", "210", "321", "432"]}[k]


def test_one_after_another_they_would_never_meet() -> None:
    meeting = threading.Barrier(2, timeout=0.05)
    filled = threading.Event()
    net = with_bodies(symbolic.network(2), lambda index: meeting.wait() if filled.is_set() else None)
    with at_once(net, "serial")(pipelined(2)) as runner:
        runner.session("0")
        filled.set()
        with pytest.raises(threading.BrokenBarrierError):
            runner.session("1")


def test_no_more_segments_at_once_than_threads() -> None:
    running_now, most = [0], [0]
    lock = threading.Lock()

    def count(index: int) -> None:
        with lock:
            running_now[0] += 1
            most[0] = max(most[0], running_now[0])
        time.sleep(0.002)
        with lock:
            running_now[0] -= 1

    with at_once(with_bodies(symbolic.network(4), count), threads=2)(pipelined(4)) as runner:
        for frame in "01234":
            runner.session(frame)
    assert most[0] <= 2


# Errors, and the end.


def test_the_error_of_a_segment_comes_out_and_the_session_goes_on() -> None:
    failing, ended = threading.Event(), []

    def body(index: int) -> None:
        if failing.is_set() and index == 1:
            raise ZeroDivisionError("in the second")
        if failing.is_set() and index == 2:
            time.sleep(0.02)
            ended.append(index)

    with at_once(with_bodies(symbolic.network(), body))(pipelined(3)) as runner:
        runner.session("0")
        before = runner.session.memory
        failing.set()
        with pytest.raises(ZeroDivisionError, match="in the second"):
            runner.session("1")
        assert ended == [2]  # the step ended when all segments had
        assert runner.session.memory is before
        failing.clear()
        assert symbolic.frames_of(runner.session("1")) == "100"


def test_of_several_errors_the_first_segments_is_told() -> None:
    filled = threading.Event()

    def body(index: int) -> None:
        if filled.is_set():
            time.sleep(0.01 * (2 - index))
            raise ValueError(f"segment {index}")

    with at_once(with_bodies(symbolic.network(), body))(pipelined(3)) as runner:
        runner.session("0")
        filled.set()
        with pytest.raises(ValueError, match="segment 0"):
            runner.session("1")


def test_workers_end_with_the_block_also_after_an_error() -> None:
    with pytest.raises(KeyError), at_once(symbolic.network())(pipelined(3)) as runner:  # noqa: PT012
        runner.session("0")
        runner.session("1")
        assert workers()
        raise KeyError
    assert not workers()
    with pytest.raises(UsageError, match="workers have ended"):
        runner.session("2")


def test_a_schedule_of_one_segment_needs_no_workers() -> None:
    for how in ("concurrent", "ahead"):
        with at_once(symbolic.network(), how)(alternating) as runner:
            assert [symbolic.frames_of(runner.session(frame)) for frame in "012"] == ["000", "110", "222"]
            assert runner.threads == (4,)
            assert not workers()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"how": "parallel"}, "how='parallel'; a pipeline runs serial, concurrent, ahead"),
        ({"how": "concurrent", "costs": (1, 2)}, "2 costs for a network of 3 stages"),
        ({"how": "concurrent", "costs": (0, 0, 0)}, "not all 0"),
        ({"threads": 0}, "threads=0"),
    ],
)
def test_wrong_usage(options, message) -> None:
    with pytest.raises(UsageError, match=message), running(lambda threads: symbolic.network(), pipelined(2), **options):
        pass


# Threads.


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=4), st.integers(1, 8))
def test_shares_make_the_slowest_segment_as_fast_as_can_be(costs, threads) -> None:
    found = shares(costs, threads)
    assert min(found) >= 1
    assert sum(found) == max(threads, len(costs))

    def slowest(shared) -> float:
        return max(cost / share for cost, share in zip(costs, shared, strict=True))

    others = (one for one in product(range(1, threads + 1), repeat=len(costs)) if sum(one) == sum(found))
    assert all(slowest(found) <= slowest(other) * (1 + 1e-9) for other in others)


def test_each_segment_is_compiled_for_its_share_and_fusing_for_all() -> None:
    def net(threads: int) -> StagedNetwork:
        def part(name: str):
            return lambda *values: {**{k: v for value in values for k, v in value.items()}, name: threads}

        stages = tuple(Stage(letter, part(letter)) for letter in "ABC")
        return StagedNetwork("counts", stages, (Group("fuse", ("A", "B", "C"), part("fuse")),), prepare=lambda _: {})

    for how, expected in (("concurrent", [3, 3, 5]), ("serial", [8, 8, 8]), ("ahead", [8, 8, 8])):
        with running(net, pipelined(2), how=how, threads=8, costs=(1, 2, 5)) as runner:
            output = runner.session("0")
            assert [output[name] for name in "ABC"] == expected
            assert output["fuse"] == 8
            assert runner.threads == ((3, 5) if how == "concurrent" else (8, 8))


def test_stages_are_timed_for_their_shares(monkeypatch) -> None:
    timer = VirtualTimer()
    monkeypatch.setattr("clockseg.clockwork.lazy.time.perf_counter", timer.now)
    net = with_durations(symbolic.network(), timer, {"A.body": 3.0, "B.head": 2.0, "B.body": 0.5})
    assert stage_seconds(net, "0123") == (3.0, 2.5, 0.0)
    with pytest.raises(UsageError, match="at least 2"):
        stage_seconds(net, "0")


@pytest.mark.skipif(cores() < 2, reason="a machine of one core")
def test_openvino_binds_threads_only_where_it_has_all_cores(tmp_path: Path) -> None:
    """Bound, models of one thread each all run on the first core: segments at once would take turns on it."""
    raw = load(networks.write_tiny(tmp_path), engine=None)
    for threads, bound in ((1, False), (cores(), True)):
        net = openvino(raw, threads=threads)
        net(np.zeros((32, 48, 3), np.uint8))
        [runner] = net.stages[0].body.runners.kept.values()
        assert runner.request.get_compiled_model().get_property("ENABLE_CPU_PINNING") is bound


# Time: what ran at once counts once.


def test_what_overlaps_counts_once() -> None:
    """The stages' seconds are shares of the time that passed."""
    net = with_bodies(symbolic.network(), lambda index: time.sleep(0.05))
    with at_once(net)(pipelined(3)) as runner:
        runner.session("0")
        assert sum(runner.session.record.seconds.stages) > 0.14
        runner.session("1")
        assert sum(runner.session.record.seconds.stages) < 0.14


# Ahead.


def test_what_is_computed_when() -> None:
    log: list[str] = []
    net = symbolic.network()
    noted = net.map(lambda name, part: lambda *values: (log.append(name), part(*values))[1])
    with at_once(noted, "ahead")(pipelined(3)) as runner:
        runner.between()
        runner.session("0")
        runner.between()
        log.clear()
        # At frame 1 stage C reads what B gave at frame 0, which the fill has computed.
        for frame, later in (("1", "B"), ("2", "BC"), ("3", "BC")):
            runner.session(frame)
            assert log == ["A.body", "A.head", "fuse", "finish"]
            log.clear()
            runner.between()
            assert log == [f"{stage}.{part}" for stage in later for part in ("body", "head")]
            log.clear()


def test_without_time_between_frames_it_is_computed_when_it_is_needed() -> None:
    with at_once(symbolic.network(), "ahead")(pipelined(3)) as runner:
        assert [symbolic.frames_of(runner.session(frame)) for frame in "01234"] == ["000", "100", "210", "321", "432"]
