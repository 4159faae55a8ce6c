"""Traps of the paper's reference code, in what is the same for every network: what the tests of one file alone don't show.

Each is named by its number in the list that the project keeps of them; others of the same number stand beside what they
test (``grep -r trap_ tests``).
"""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import networks
from clockseg import (
    Schedule,
    Session,
    UsageError,
    adaptive,
    alternating,
    confidence,
    difference,
    every,
    exponential,
    fixed_rate,
    frame_oracle,
    load,
    pipelined,
    run,
    skip_frame,
)
from clockseg.clocks import ALWAYS
from clockseg.clockwork.network import Stage, StagedNetwork
from clockseg.datasets import read_data
from clockseg.evaluation.evaluate import evaluate
from clockseg.evaluation.metrics import Confusion, confusion
from symbolic import frames_of, network
from toy_networks import CLASSES, toy, write_clip
from video_making import data_folder

NET = network()
NAMED = [frame_oracle, skip_frame(2), exponential, alternating, pipelined(2), pipelined(3), fixed_rate((1, 2, 2))]


def reflected(schedule, frames: str) -> list[str]:
    """The frame that each stage reflects, frame by frame."""
    return [frames_of(output) for output, _ in run(NET, frames, schedule)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_clip(tmp_path / "first", 9, labelled=9)
    write_clip(tmp_path / "second", 6, labelled=6, seed=1)
    return tmp_path


# The first frame.


@pytest.mark.parametrize("schedule", [*NAMED, adaptive(1.0), adaptive(2.0), Schedule((lambda tick: False,) * 3)])
def test_trap_1_the_first_frame_runs_everything_and_is_in_no_rate(schedule) -> None:
    session, image = Session(toy(), schedule), np.zeros((16, 24, 3), np.uint8)
    np.testing.assert_array_equal(session(image), toy()(image))
    assert session.record.fired == (True, True, True)
    assert session.tally.fires == (0, 0, 0)
    assert set(session.tally.fire_rate.values()) == {None}
    session(image)
    # Who counts it in, as the reference does, divides firings + clips by frames.
    assert session.tally.fires == tuple(map(int, session.record.fired))
    assert (session.tally.later, session.tally.clips, session.tally.frames) == (1, 1, 2)


def test_trap_1_a_threshold_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(UsageError, match="threshold is nan"):
        adaptive(float("nan"))


@pytest.mark.parametrize("clock", [adaptive, confidence, difference])
@pytest.mark.parametrize("threshold", [15, -0.1, float("inf")])
def test_a_threshold_that_is_no_share_is_refused(clock, threshold: float) -> None:
    """Per cent that were meant as a share would never fire."""
    with pytest.raises(UsageError, match=r"compared with a share, so give 0 to 1, such as 0\.25 for 25 %"):
        clock(threshold)


# Sizes.


def test_trap_2_sizes_whose_maps_coincide_are_different_sizes() -> None:
    """The reference's maps are as large for 420 as for 425 px, so that one can be fused with the other's."""

    def eighth(image: np.ndarray) -> np.ndarray:
        return image[None, None, ::8, ::8]

    net = StagedNetwork("eighth", (Stage("a", eighth), Stage("b", np.copy)))
    one, other = np.zeros((42, 42)), np.ones((47, 47))
    assert eighth(one).shape == eighth(other).shape
    records = [record for _, record in run(net, [one, one, other, other], adaptive(2.0))]
    assert [record.fill for record in records] == [True, False, True, False]
    assert records[3].reflects == (1, 0)


# Thresholds.


@settings(deadline=None)
@given(st.integers(1, 3000), st.data())
def test_trap_4_a_share_of_k_in_n_reaches_the_threshold_k_over_n(cells, data) -> None:
    changed = data.draw(st.integers(1, cells))
    before, now = np.zeros((2, 1, 2, 1, cells), np.float32)
    now[0, 1, 0, :changed] = 1
    net = StagedNetwork("watched", (Stage("a", np.asarray), Stage("b", np.asarray)))
    fired = [list(run(net, [before, now], adaptive(part / cells)))[1][1].fired[1] for part in (changed, changed + 1)]
    assert fired == [True, False]


# Pipelines.


def test_trap_6_the_deep_stage_never_sees_this_frame() -> None:
    for k in (2, 3):
        for t, state in enumerate(reflected(pipelined(k), "0123456789")[1:], start=1):
            assert int(state[-1]) < t


def test_trap_7_three_stages_start_up_with_what_the_first_frame_left() -> None:
    """Stage k shows frame max(0, t - k + 1); the reference's notebook has (2, 1, 1) at frame 2."""
    for t, state in enumerate(reflected(pipelined(3), "0123456")):
        assert state == "".join(str(max(0, t - behind)) for behind in range(3))


# Clips.


def test_trap_8_who_starts_later_sees_something_else() -> None:
    """Periods count from the clip's first frame, so scoring from frame 2 on needs frames 0 and 1 to have run."""
    assert reflected(exponential, "0123456")[3:] == ["320", "444", "544", "664"]
    assert reflected(exponential, "3456") == ["333", "433", "553", "653"]


@pytest.mark.parametrize("schedule", [skip_frame(2), exponential, pipelined(3), adaptive(0.2), every(4)])
def test_trap_8_nothing_is_held_over_from_one_clip_to_the_next(data, schedule) -> None:
    both = evaluate(toy(), {"it": schedule}, read_data(data), classes=CLASSES)[0]
    alone = [evaluate(toy(), {"it": schedule}, [clip], classes=CLASSES)[0] for clip in read_data(data)[::-1]]
    total = alone[0] + alone[1]
    assert (total.scores, total.agreement) == (both.scores, both.agreement)
    assert (total.tally.fires, total.tally.clips) == (both.tally.fires, 2)


# What equals what.

off_beat = Schedule((ALWAYS, ALWAYS, lambda tick: tick.t % 2 == 1))
"""Alternating in its other phase: the last stage fires at odd t."""


def counted(net, images, labels, schedule, classes: int) -> list[Confusion]:
    """A confusion a frame."""
    return [
        confusion(truth, output, classes) for truth, (output, _) in zip(labels, run(net, images, schedule), strict=True)
    ]


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=25)
def test_trap_9_alternating_is_the_pipeline_when_it_is_off_and_the_oracle_when_it_is_on(seed) -> None:
    images = np.random.default_rng(seed).integers(0, 256, (7, 5, 6, 3)).astype(np.uint8)
    oracle, pipe, even, odd = (
        [output for output, _ in run(toy(), images, schedule)]
        for schedule in (frame_oracle, pipelined(2), alternating, off_beat)
    )
    for t in range(1, 7):
        on, off = (even, odd) if t % 2 == 0 else (odd, even)
        np.testing.assert_array_equal(on[t], oracle[t])
        np.testing.assert_array_equal(off[t], pipe[t])


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=25)
def test_trap_9_oracle_and_pipeline_histograms_are_the_sum_of_alternatings_phases(seed) -> None:
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (7, 5, 6, 3)).astype(np.uint8)
    labels = rng.choice([0, 1, 2, 255], (7, 5, 6)).astype(np.uint8)
    oracle, pipe, even, odd = (
        counted(toy(), images, labels, schedule, 3) for schedule in (frame_oracle, pipelined(2), alternating, off_beat)
    )
    for t in range(1, 7):
        assert oracle[t] + pipe[t] == even[t] + odd[t]


@pytest.mark.slow
def test_trap_9_oracle_and_pipeline_histograms_are_the_sum_of_alternatings_phases_on_street() -> None:
    """Both sides hold the first frame twice, so it may stay in."""
    path = data_folder() / "camvid" / "val"
    if not path.is_dir():
        pytest.skip("needs the shared data folder (CLOCKSEG_DATA)")
    schedules = {"oracle": frame_oracle, "pipeline": pipelined(2), "even": alternating, "odd": off_beat}
    oracle, pipe, even, odd = evaluate(load("street"), schedules, read_data(path, limit=6))
    assert oracle.scores + pipe.scores == even.scores + odd.scores
    assert oracle.boundary + pipe.boundary == even.boundary + odd.boundary
    assert pipe.scores != oracle.scores


# Metrics.


def test_trap_11_frames_without_a_known_pixel_add_nothing(data) -> None:
    for file in (data / "first" / "labels").iterdir():
        cv2.imwrite(str(file), np.full((16, 24), 255, np.uint8))
    found = evaluate(toy(), {"it": alternating}, read_data(data), classes=CLASSES)[0]
    alone = evaluate(toy(), {"it": alternating}, [read_data(data)[1]], classes=CLASSES)[0]
    assert (found.scores, found.boundary) == (alone.scores, alone.boundary)
    nothing = evaluate(toy(), {"it": alternating}, [read_data(data)[0]], classes=CLASSES)[0].facts()
    assert nothing["mean_iu"] is nothing["mean_acc"] is nothing["boundary"] is None


def test_trap_16_skip_frame_is_scored_on_every_frame_with_what_it_shows(data) -> None:
    found = evaluate(toy(), {"it": skip_frame(2)}, read_data(data), classes=CLASSES)[0]
    assert found.scores.pixels == found.oracle.pixels
    by_hand = Confusion.none(3)
    for clip in read_data(data):
        frames = list(clip)
        for t, frame in enumerate(frames):
            by_hand += confusion(frame.labels, toy()(frames[t - t % 2].image), 3)
    assert found.scores == by_hand


# What is held.


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
@pytest.mark.parametrize("schedule", [exponential, pipelined(3), adaptive(0.1)])
def test_trap_18_streams_that_share_a_network_share_nothing_else(tmp_path, monkeypatch, engine, schedule) -> None:
    """Clocks, what they compare with, and what is held belong to the session; the engine's buffers are lent."""
    monkeypatch.setenv("CLOCKSEG_CACHE", str(tmp_path / "cache"))
    net = load(networks.write_tiny(tmp_path), engine=engine)
    one, other = np.random.default_rng(0).integers(0, 256, (2, 8, 32, 48, 3)).astype(np.uint8)
    alone = [list(run(net, images, schedule)) for images in (one, other)]
    sessions = [Session(net, schedule), Session(net, schedule)]
    for t in range(8):
        for session, images, wanted in zip(sessions, (one, other), alone, strict=True):
            np.testing.assert_array_equal(session(images[t]), wanted[t][0])
            assert session.record.fired == wanted[t][1].fired
