"""Latency and throughput of ways to run a network, exact on a timer that moves only as it is told."""

from __future__ import annotations

import pytest

import symbolic
from benchmarks.latency import Latency, measure, pipeline_runners
from clockseg import Session, Stage, StagedNetwork, UsageError, frame_oracle, pipelined, skip_frame
from clockseg.execution.pipeline import Runner, runner
from virtual_time import VirtualTimer, with_durations

WAYS = [
    "full",
    "frame_oracle",
    "alternating",
    "skip_frame(2)",
    "pipelined(2) serial",
    "pipelined(2) ahead",
    "pipelined(3) serial",
    "pipelined(3) ahead",
    "truncated(1)",
    "truncated(2)",
]


def test_latency_and_throughput_of_given_durations() -> None:
    timer = VirtualTimer()
    net = with_durations(symbolic.network(), timer, {"A.body": 3.0, "B.body": 1.0, "C.body": 2.0, "fuse": 0.5})
    frames = "0123"
    runners = {
        "full": runner(net, frame_oracle),
        "skip": runner(net, skip_frame(2)),
        "ahead": runner(net, pipelined(2), ahead=True),
    }
    rounds: list[int] = []
    full, skip, ahead = measure(runners, frames, rounds=3, now=timer.now, progress=rounds.append)
    assert rounds == [0, 1, 2, 3]
    assert full.waits == ((6.5,) * 4,) * 3
    assert full.busy == (26.0,) * 3
    assert skip.waits == ((6.5, 0, 6.5, 0),) * 3
    assert ahead.waits == ((4.5,) * 4,) * 3  # the last stage is computed when the output has left,
    assert ahead.busy == (26.0,) * 3  # which gains no throughput
    assert (full.fps, skip.relative(full), skip.relative_fps(full)) == (4 / 26, 0.5, 2.0)
    assert ahead.relative(full) == 4.5 / 6.5
    assert ahead.relative_fps(full) == 1.0


def test_percentiles_are_waits_that_were_measured() -> None:
    hundred = Latency("x", (tuple(float(number) for number in range(1, 51)), tuple(range(51, 101))), (1.0, 1.0))
    assert (hundred.tail(95), hundred.tail(99), hundred.median, hundred.mean) == (95, 99, 50.5, 50.5)
    assert (hundred.frames, hundred.fps) == (100, 50)


def test_ratios_are_of_one_round() -> None:
    """A machine that is ten times as slow in one round, for both, changes nothing."""
    a = Latency("a", ((1.0,), (10.0,), (1.0,)), (1.0, 10.0, 1.0))
    b = Latency("b", ((2.0,), (20.0,), (2.0,)), (4.0, 40.0, 4.0))
    assert (b.relative(a), b.relative_fps(a)) == (2.0, 0.25)
    assert b.facts(a)["latency_ms"] == {"mean": 8000, "median": 2000, "p95": 20000, "p99": 20000}


def test_what_is_compared() -> None:
    net = symbolic.network(2)
    runners = pipeline_runners(net, beside={"other": net})
    assert list(runners) == [*WAYS[:4], "pipelined(2) serial", "pipelined(2) ahead", "other"]
    assert [len(runners[name].session.net) for name in ("full", "frame_oracle", "other")] == [1, 2, 1]
    with pytest.raises(UsageError, match="one stage; a pipeline needs two"):
        pipeline_runners(StagedNetwork("one", (Stage("a", str.upper),)))


@pytest.mark.parametrize(("images", "rounds"), [("0", 1), ("01", 0)])
def test_too_little_to_measure(images, rounds) -> None:
    with pytest.raises(UsageError, match="at least 2 images and 1 round"):
        measure({"a": Runner(Session(symbolic.network(), frame_oracle))}, images, rounds=rounds)
