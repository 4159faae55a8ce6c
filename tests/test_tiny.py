"""Read this first: the whole idea on three stages that are functions on strings."""

from __future__ import annotations

from clockseg import (
    Group,
    Schedule,
    Session,
    Stage,
    StagedNetwork,
    adaptive,
    alternating,
    fill,
    frame_oracle,
    pipelined,
    run,
    skip_frame,
    step,
)

NET = StagedNetwork(
    "tiny",
    stages=(
        Stage("pool3", body="f1({})".format, head="s1[{}]".format),
        Stage("pool4", body="f2({})".format, head="s2[{}]".format),
        Stage("fc7", body="f3({})".format, head="s3[{}]".format),
    ),
    groups=(Group("fuse", reads=("pool3", "pool4", "fc7"), function="{} + {} + {}".format),),
    finish="<{}>".format,
)


def outputs(schedule) -> list[str]:
    return [output for output, _ in run(NET, ["x0", "x1", "x2"], schedule)]


def test_the_network_as_it_is() -> None:
    assert NET("x") == "<s1[f1(x)] + s2[f2(f1(x))] + s3[f3(f2(f1(x)))]>"


def test_the_frame_oracle_runs_everything_on_every_frame() -> None:
    assert outputs(frame_oracle) == [NET("x0"), NET("x1"), NET("x2")]


def test_a_stage_that_holds_shows_what_it_had() -> None:
    assert outputs(alternating)[1] == "<s1[f1(x1)] + s2[f2(f1(x1))] + s3[f3(f2(f1(x0)))]>"


def test_skip_frame_shows_the_last_output() -> None:
    assert outputs(skip_frame(2)) == [NET("x0"), NET("x0"), NET("x2")]


def test_a_pipelined_stage_reads_what_the_frame_before_left() -> None:
    assert outputs(pipelined(3)) == [
        NET("x0"),
        "<s1[f1(x1)] + s2[f2(f1(x0))] + s3[f3(f2(f1(x0)))]>",
        "<s1[f1(x2)] + s2[f2(f1(x1))] + s3[f3(f2(f1(x0)))]>",
    ]


def test_a_clock_is_a_function_of_the_tick() -> None:
    schedule = Schedule((lambda tick: True, lambda tick: tick.t != 1, lambda tick: tick.since >= 2))
    fired = [record.fired for _, record in run(NET, ["x0", "x1", "x2"], schedule)]
    assert fired == [(True, True, True), (True, False, False), (True, True, True)]


def test_state_in_state_out() -> None:
    schedule = alternating(3)
    first, memory = fill(NET, schedule, "x0")
    second, later = step(NET, schedule, memory, "x1")
    again, _ = step(NET, schedule, memory, "x1")
    assert (first, second, later.t, memory.t) == (NET("x0"), again, 1, 0)


def test_a_session_keeps_the_memory_and_counts() -> None:
    session = Session(NET, alternating)
    for frame in ("x0", "x1", "x2"):
        session(frame)
    assert session.tally.fire_rate == {"pool3": 1.0, "pool4": 1.0, "fc7": 0.5}
    assert session.record.reflects == (2, 2, 2)


def test_a_named_schedule_is_a_function_of_the_number_of_stages() -> None:
    assert adaptive(0.25).threshold == 0.25
