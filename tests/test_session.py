"""What a session computes: exact values, symbolic; the traps of the paper's reference code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clockseg import (
    Session,
    UsageError,
    adaptive,
    alternating,
    at_least_every,
    both,
    confidence,
    difference,
    either,
    every,
    exponential,
    fill,
    fixed_rate,
    frame_oracle,
    invert,
    pipelined,
    run,
    skip_frame,
    step,
)
from clockseg.carry import Identity
from clockseg.clocks import ALWAYS, Decision, Every
from clockseg.clockwork.network import Group, Stage, StagedNetwork
from clockseg.clockwork.schedule import Schedule, schedule_for
from symbolic import frames_of, network

NET = network()
FRAMES = "0123456789"


def reflected(schedule, frames: str = "01234") -> str:
    return " ".join(frames_of(output) for output, _ in run(NET, frames, schedule))


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (exponential, "000 100 220 320 444"),
        (alternating, "000 110 222 332 444"),
        (fixed_rate((1, 2, 2)), "000 100 222 322 444"),
        (skip_frame(2), "000 000 222 222 444"),
        (pipelined(2), "000 110 221 332 443"),
        (pipelined(3), "000 100 210 321 432"),
        (fixed_rate((1, 2, 3), nested=False), "000 100 220 322 442"),
        (pipelined(1), "000 111 222 333 444"),
    ],
    ids=["exponential", "alternating", "1-2-2", "skip-frame", "pipelined-2", "pipelined-3", "1-2-3", "pipelined-1"],
)
def test_expected_5_frame_each_stage_reflects(schedule, expected) -> None:
    assert reflected(schedule) == expected
    told = [record.reflects for _, record in run(NET, "01234", schedule)]
    assert " ".join("".join(map(str, row)) for row in told) == expected


def test_expected_6_alternating_off_frames_are_the_two_stage_pipeline() -> None:
    """Trap 9 as well."""
    off, pipe = reflected(alternating, FRAMES).split()[1::2], reflected(pipelined(2), FRAMES).split()[1::2]
    assert off == pipe


def test_expected_6_exponential_is_the_oracle_at_multiples_of_four() -> None:
    assert reflected(exponential, FRAMES).split()[::4] == reflected(frame_oracle, FRAMES).split()[::4]


# A numeric network: stage k doubles and shifts; scores are 3-class maps made of the trunk.
def numeric(calls: list[str] | None = None) -> StagedNetwork:
    def body(k: int):
        def run(x):
            if calls is not None:
                calls.append(f"body{k}")
            return np.float32(x) * 2 + k

        return run

    def scores(held):
        return np.stack([held % 7, held % 5, held % 3])[None]

    stages = tuple(Stage(f"s{k}", body(k), scores=scores) for k in (1, 2, 3))

    def fuse(*held):
        if calls is not None:
            calls.append("fuse")
        return sum(held)

    def finish(value):
        if calls is not None:
            calls.append("finish")
        return np.argmax(scores(value)[0], axis=0).astype(np.uint8)

    return StagedNetwork("numeric", stages, (Group("fuse", ("s1", "s2", "s3"), fuse),), finish)


def clip(frames: int = 8, shape=(4, 6), seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 40, shape).astype(np.uint8) for _ in range(frames)]


def labels(schedule, images) -> list[np.ndarray]:
    return [output for output, _ in run(numeric(), images, schedule)]


@pytest.mark.parametrize("schedule", [fixed_rate((1, 1, 1)), adaptive(0), adaptive(0, 0), pipelined(1), skip_frame(1)])
def test_expected_6_what_equals_the_oracle_bit_for_bit(schedule) -> None:
    images = clip()
    for a, b in zip(labels(schedule, images), labels(frame_oracle, images), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "schedule", [exponential, alternating, skip_frame(3), pipelined(2), pipelined(3), adaptive(0.3)]
)
def test_expected_6_on_a_static_video_every_schedule_is_the_oracle(schedule) -> None:
    images = clip(1) * 6
    for a, b in zip(labels(schedule, images), labels(frame_oracle, images), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("threshold", [1e-9, 0.25, 1.0])
def test_expected_6_no_threshold_fires_on_a_static_video(threshold) -> None:
    session = Session(numeric(), adaptive(threshold))
    for image in clip(1) * 6:
        session(image)
    assert session.tally.fire_rate["s3"] == 0


def test_expected_6_the_startup_state_of_the_notebook_is_an_off_frame_of_1_2_2() -> None:
    """(2, 1, 1) has the shape "stage 1 one frame ahead of stages 2 and 3"."""
    assert "322" in reflected(fixed_rate((1, 2, 2)))


# Traps of reference-facts 8.
def test_trap_1_the_first_frame_fills_whatever_the_clock_says() -> None:
    for schedule in (adaptive(2.0), Schedule((lambda tick: False,) * 3)):
        _, record = next(iter(run(numeric(), clip(1), schedule)))
        assert record.fill
        assert record.fired == (True, True, True)


def test_trap_1_a_nan_signal_does_not_fire_and_does_not_break() -> None:
    schedule = Schedule((ALWAYS, ALWAYS, lambda tick: Decision(float("nan") >= 0.5, float("nan"))))
    assert [record.fired[2] for _, record in run(numeric(), clip(3), schedule)] == [True, False, False]


def test_trap_2_a_change_of_size_refills_and_equals_a_fresh_session() -> None:
    for schedule in (alternating, exponential, pipelined(3), adaptive(0.4)):
        session = Session(numeric(), schedule)
        for image in clip(3):
            session(image)
        other = clip(5, shape=(5, 5), seed=1)
        fresh = Session(numeric(), schedule)
        for image in other:
            np.testing.assert_array_equal(session(image), fresh(image))
            assert session.record._replace(seconds=None) == fresh.record._replace(seconds=None)


def test_trap_2_step_fills_at_another_size() -> None:
    schedule, other = skip_frame(3)(3), clip(1, shape=(5, 5))[0]
    _, memory = fill(numeric(), schedule, clip(1)[0])
    output, after = step(numeric(), schedule, memory, other)
    np.testing.assert_array_equal(output, fill(numeric(), schedule, other)[0])
    assert (after.t, after.record.fill) == (0, True)


def drifting(frames: int = 12, cells: int = 10) -> list[np.ndarray]:
    """A score map in which one more of ten cells changes its label at each frame."""
    maps = []
    for t in range(frames):
        scores = np.zeros((1, 2, 1, cells), np.float32)
        scores[0, 1, 0, : min(t, cells)] = 1
        maps.append(scores)
    return maps


WATCHED = StagedNetwork("watched", (Stage("a", np.asarray), Stage("b", np.asarray)))


def fires(schedule, maps) -> list[int]:
    return [t for t, (_, record) in enumerate(run(WATCHED, maps, schedule)) if record.fired[1]]


def test_trap_3_drift_adds_up_against_the_last_firing() -> None:
    assert fires(adaptive(0.3), drifting()) == [0, 3, 6, 9]
    assert fires(adaptive(0.3, reference="previous"), drifting()) == [0]


def test_trap_4_the_threshold_itself_fires_and_strict_does_not() -> None:
    assert fires(adaptive(0.3, strict=True), drifting()) == [0, 4, 8]
    assert fires(adaptive(0), drifting(4)) == [0, 1, 2, 3]
    assert fires(adaptive(0, strict=True), drifting(1) * 4) == [0]
    assert fires(adaptive(1.01), drifting()) == [0]


@pytest.mark.parametrize(("threshold", "cells"), [(0.25, 484), (0.10, 194), (0.35, 678), (0.50, 968)])
def test_expected_7_cells_at_which_a_threshold_fires(threshold, cells) -> None:
    def changed(count: int) -> np.ndarray:
        scores = np.zeros((1, 2, 44, 44), np.float32)
        scores.reshape(2, -1)[1, :count] = 1
        return scores

    assert fires(adaptive(threshold), [changed(0), changed(cells - 1)]) == [0]
    assert fires(adaptive(threshold), [changed(0), changed(cells)]) == [0, 1]


def test_expected_7_and_trap_5_the_border_counts() -> None:
    before = np.zeros((1, 2, 44, 44), np.float32)
    border, inner = before.copy(), before.copy()
    border[:, 1] = 1
    border[:, 1, 5:39, 5:39] = 0
    inner[:, 1, 5:39, 5:39] = 1
    signals = [list(run(WATCHED, [before, after], adaptive(0.25)))[1][1].signal[1] for after in (border, inner)]
    assert [round(signal, 4) for signal in signals] == [0.4029, 0.5971]


def test_expected_7_half_the_one_hot_hamming_distance() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 1, 5, 8, 9))
    hot = [np.eye(5)[scores[0].argmax(0)] for scores in (a, b)]
    signal = list(run(WATCHED, [a, b], adaptive(0.5)))[1][1].signal[1]
    assert signal == pytest.approx(np.abs(hot[0] - hot[1]).sum() / (2 * 8 * 9))


def test_trap_6_a_pipeline_reads_the_old_state() -> None:
    assert reflected(pipelined(3)) != reflected(frame_oracle)
    assert reflected(pipelined(3)).split()[2] == "210"


def test_trap_7_start_up_is_the_papers() -> None:
    assert reflected(pipelined(3)).split()[:3] == ["000", "100", "210"]


def test_trap_8_a_reset_restarts_clocks_and_phase() -> None:
    session = Session(NET, exponential)
    first = [session(frame) for frame in "01234"]
    session.reset()
    assert [session(frame) for frame in "01234"] == first


def test_a_reset_begins_another_clip_in_the_tally_and_a_size_change_does_not() -> None:
    session = Session(numeric(), skip_frame(2))
    for image in clip(3):
        session(image)
    session.reset()
    for image in [*clip(3), *clip(2, shape=(5, 5))]:
        session(image)
    assert (session.tally.clips, session.tally.frames, session.tally.network) == (2, 8, 3)


def test_trap_9_skip_frame_repeats_its_output_object() -> None:
    images = clip(2)
    a, b = labels(skip_frame(2), images)
    assert a is b


def test_trap_18_what_is_held_is_not_touched_by_reused_pictures() -> None:
    """The caller may decode each frame into the same memory."""
    images, schedule = clip(6), difference(0.2, of="pixels")
    buffer = images[0].copy()
    session, fresh = Session(numeric(), schedule), Session(numeric(), schedule)
    for image in images:
        buffer[:] = image
        np.testing.assert_array_equal(session(buffer), fresh(image))
        assert session.record.signal == fresh.record.signal


# Firing and holding.
def test_what_rests_is_not_computed() -> None:
    calls: list[str] = []
    list(run(numeric(calls), clip(2), alternating))
    assert calls[5:] == ["body1", "body2", "fuse", "finish"]
    calls.clear()
    list(run(numeric(calls), clip(2), skip_frame(2)))
    assert calls[5:] == []


def test_groups_rest_while_what_they_read_rests() -> None:
    calls: list[str] = []

    def group(name: str):
        return lambda *held: calls.append(name) or name

    net = replace(NET, groups=(Group("deep", ("B", "C"), group("deep")), Group("all", ("A", "deep"), group("all"))))
    list(run(net, "0123", fixed_rate((1, 2, 2))))
    assert calls == ["deep", "all", "all", "deep", "all", "all"]


def test_nested_a_deeper_clock_is_not_asked_when_its_stage_cannot_fire() -> None:
    asked: list[int] = []
    schedule = Schedule((ALWAYS, Every(2), lambda tick: bool(asked.append(tick.t)) or True))
    assert [record.fired[2] for _, record in run(NET, "01234", schedule)] == [True, False, True, False, True]
    assert asked == [2, 4]


def test_adaptive_with_two_thresholds_stops_after_stage_1_2_or_3() -> None:
    def scores(value):
        return np.eye(4, dtype=np.float32)[value % 4].T[None, :, None]

    a = Stage("a", lambda x: x, scores=scores)
    b = Stage("b", lambda x: x // 4, scores=scores)
    net = StagedNetwork("stops", (a, b, Stage("c", lambda x: x)))
    frames = [np.array([0]), np.array([0]), np.array([4]), np.array([1]), np.array([6])]
    fired = [record.fired for _, record in run(net, frames, adaptive(0.5, 0.5))]
    assert fired == [(True,) * 3, (True, False, False), (True, False, False), (True, True, False), (True, True, True)]


def test_the_tick_shows_what_the_stage_would_see() -> None:
    seen = []
    schedule = Schedule((ALWAYS, lambda tick: seen.append(tick) or tick.t == 2, ALWAYS))
    list(run(NET, "01234", schedule))
    shown = [(tick.t, tick.stage, tick.watched, tick.reference, tick.previous, tick.since, tick.fires) for tick in seen]
    assert shown == [
        (1, 2, "A1", "A0", "A0", 1, 0),
        (2, 2, "A2", "A0", "A1", 2, 0),
        (3, 2, "A3", "A2", "A2", 1, 1),
        (4, 2, "A4", "A2", "A3", 2, 1),
    ]


def test_a_delayed_stage_is_shown_the_map_it_would_read() -> None:
    seen = []
    schedule = Schedule((ALWAYS, ALWAYS, lambda tick: seen.append(tick.watched) or True), delays=(0, 0, 1))
    list(run(NET, "012", schedule))
    assert seen == ["BA0", "BA1"]


# Clocks and what they are made of.
def test_confidence_either_sense() -> None:
    sure, unsure = np.zeros((1, 2, 1, 1), np.float32), np.zeros((1, 2, 1, 1), np.float32)
    sure[0, 0] = 20
    assert fires(confidence(0.8), [sure, sure, unsure]) == [0, 2]
    assert fires(confidence(0.8, sense="above"), [sure, sure, unsure]) == [0, 1]
    assert list(run(WATCHED, [sure, unsure], confidence(0.8)))[1][1].signal[1] == pytest.approx(0.5)


def test_a_cap_on_staleness() -> None:
    assert fires(either(adaptive(2.0), at_least_every(3)), drifting(10)) == [0, 3, 6, 9]
    assert fires(both(adaptive(0.2), every(3)), drifting(10)) == [0, 3, 6, 9]
    assert fires(invert(adaptive(0.2)), drifting(5)) == [0, 1, 2, 3, 4]


def test_either_remembers_firings_that_another_clock_caused() -> None:
    """Changes 1, 2 of 10 cells at frames 1, 2: the cap fires at 2, so the change clock counts from there."""
    assert fires(either(adaptive(0.3), at_least_every(2)), drifting(8)) == [0, 2, 4, 6]
    assert fires(either(adaptive(0.3), every(5)), drifting(10)) == [0, 3, 5, 8]


def test_one_clock_gates_every_stage_after_the_watched_one() -> None:
    rates = {}
    for watch in (1, 2):
        session = Session(numeric(), adaptive(0.9, watch=watch))
        for image in clip(20):
            session(image)
        rates[watch] = session.tally.fire_rate
    assert rates[1]["s2"] == rates[1]["s3"] < 1
    assert rates[2]["s2"] == 1 > rates[2]["s3"]


def test_difference_of_scores_features_pixels() -> None:
    a, b = np.full((1, 2, 2, 2), 1.0, np.float32), np.full((1, 2, 2, 2), 3.0, np.float32)
    for of in ("scores", "features"):
        assert list(run(WATCHED, [a, b], difference(0.5, of=of)))[1][1].signal[1] == pytest.approx(1.0)
    assert list(run(WATCHED, [a, b], difference(0.5, of="pixels")))[1][1].signal[0] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (adaptive(0.25, watch=3), "Give at most 2"),
        (Schedule((difference(0.25), ALWAYS, ALWAYS)), "for stage 1 only the picture"),
        (Schedule((ALWAYS, difference(0.25, watch=2), ALWAYS)), "may watch the stages before it"),
        (lambda stages: 3, "returned 3, which is not a schedule"),
        (fixed_rate((1, 2)), "has 2 stages and the network 3"),
        (pipelined(4), "at most the number of stages"),
    ],
)
def test_schedules_that_do_not_fit_are_refused(schedule, message) -> None:
    with pytest.raises(UsageError, match=message):
        Session(NET, schedule)


def test_a_network_without_scores_is_told_to_watch_features() -> None:
    net = replace(NET, stages=tuple(replace(stage, scores=None) for stage in NET.stages))
    with pytest.raises(UsageError, match='of="features"'):
        Session(net, adaptive(0.25))
    assert [record.fired[2] for _, record in run(net, "012", Schedule((ALWAYS, ALWAYS, lambda tick: tick.t == 2)))] == [
        True,
        False,
        True,
    ]


@pytest.mark.parametrize("bad", [(1, 3, 2), (2, 1, 1), (2, 3, 6)])
def test_periods_that_are_not_nested_are_refused_unless_asked_for(bad) -> None:
    with pytest.raises(UsageError, match="not nested"):
        fixed_rate(bad)
    assert len(fixed_rate(bad, nested=False)(3)) == 3


def test_clocks_inside_clocks_may_be_plain_functions() -> None:
    net = replace(NET, stages=tuple(replace(stage, scores=None) for stage in NET.stages))
    clock = either(lambda tick, n=2: tick.t % n == 0, at_least_every(5))
    fired = [record.fired[2] for _, record in run(net, "01234", Schedule((ALWAYS, ALWAYS, clock)))]
    assert fired == [True, False, True, False, True]


def test_a_decision_may_be_any_truth_value() -> None:
    answers = [1, np.bool_(False), np.bool_(True), 0]
    schedule = Schedule((ALWAYS, ALWAYS, lambda tick: Decision(answers[tick.t - 1])))
    assert [record.fired[2] for _, record in run(NET, "01234", schedule)] == [True, True, False, True, False]


@pytest.mark.parametrize("bad", [Every, "alternating", 3, lambda a, b, c: True, alternating])
def test_what_is_no_clock_is_refused(bad) -> None:
    with pytest.raises(UsageError):
        Schedule((ALWAYS, bad))


def test_what_is_no_schedule_is_refused() -> None:
    with pytest.raises(UsageError, match="not a schedule"):
        Session(NET, 3)


def test_confidence_of_not_a_number_does_not_fire() -> None:
    nan = np.full((1, 2, 1, 1), np.nan, np.float32)
    for sense in ("below", "above"):
        assert fires(confidence(0.5, sense=sense), [nan, nan]) == [0]


# A carry that moves: the interface motion will use.
class Marked(Identity):
    """Motion is the number of frames; a moved value is marked with it."""

    estimates_motion = True

    def see(self, prepare, image, vectors):
        return image

    def observe(self, before, image):
        return [(before, image)]

    def compose(self, first, then):
        return (first or []) + then

    def move(self, value, motion):
        return f"{value}~{len(motion)}" if motion else value


def test_carry_moves_what_is_held_once_by_the_motion_composed_since() -> None:
    schedule = replace(skip_frame(3)(3), carry=Marked())
    outputs = [output for output, _ in run(NET, "0123", schedule)]
    assert outputs == ["A0+BA0+CBA0", "A0~1+BA0~1+CBA0~1", "A0~2+BA0~2+CBA0~2", "A3+BA3+CBA3"]


def test_carry_moves_a_delayed_value_by_the_frames_it_is_behind() -> None:
    schedule = replace(pipelined(3)(3), carry=Marked())
    outputs = [output for output, _ in run(NET, "0123", schedule)]
    assert outputs[3] == "A3+BA2~1+CBA1~2"


# Properties.
nested = st.lists(st.integers(1, 3), min_size=3, max_size=3).map(
    lambda m: fixed_rate((m[0], m[0] * m[1], m[0] * m[1] * m[2]))
)
schedules = st.one_of(
    nested,
    st.floats(0, 1).map(adaptive),
    st.tuples(st.floats(0, 1), st.floats(0, 1)).map(lambda t: adaptive(*t)),
    st.floats(0, 0.5).map(lambda t: difference(t, of="pixels")),
    st.floats(0, 1).map(confidence),
    st.tuples(st.floats(0, 1), st.integers(1, 4)).map(lambda t: either(adaptive(t[0]), at_least_every(t[1]))),
)


@given(schedules, st.integers(0, 2**32 - 1))
def test_whatever_fires_gives_the_oracles_value(schedule, seed) -> None:
    images = clip(6, seed=seed)
    net = numeric()
    made = schedule_for(schedule, 3)
    memory = None
    for image in images:
        _, memory = fill(net, made, image) if memory is None else step(net, made, memory, image)
        _, oracle = fill(net, frame_oracle(3), image)
        for kept, true, fired in zip(memory.stages, oracle.stages, memory.record.fired, strict=True):
            if fired:
                np.testing.assert_array_equal(kept.held.value, true.held.value)


@given(schedules, st.integers(0, 2**32 - 1))
def test_firing_is_nested_and_staleness_is_told(schedule, seed) -> None:
    for t, (_, record) in enumerate(run(numeric(), clip(6, seed=seed), schedule)):
        assert list(record.fired) == sorted(record.fired, reverse=True)
        assert [r == t for r, fired in zip(record.reflects, record.fired, strict=True) if fired] == [True] * sum(
            record.fired
        )


def test_a_clock_of_the_users_is_asked_whatever_it_calls_its_fields() -> None:
    class Mine:
        period = 3

        def __call__(self, tick, state):
            return Decision(tick.since == 2), state

    fired = [record.fired[1] for _, record in run(network(2), "01234", Mine())]
    assert fired == [True, False, True, False, True]
