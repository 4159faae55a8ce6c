"""Tuning: the threshold that gives a fire rate, against sessions and against trying all; and the command."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import networks
from clockseg import (
    DataError,
    Session,
    UsageError,
    adaptive,
    alternating,
    at_least_every,
    confidence,
    difference,
    either,
)
from clockseg.cli.main import main
from clockseg.clocks import paced
from clockseg.clockwork.network import Stage, StagedNetwork
from clockseg.execution.recording import needs, record, replay
from clockseg.planning.schedule_file import read_schedule_file
from clockseg.planning.tuning import NEVER, default_clock, tried, tune
from video_making import picture, write_video

NET = StagedNetwork("watched", (Stage("a", np.asarray), Stage("b", np.asarray)))
CELLS = 40


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What engines keep on disk goes to the tests' own folder."""
    monkeypatch.setenv("CLOCKSEG_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def maps(frames: int, seed: int, *, motion: float = 3) -> list[np.ndarray]:
    """Label maps of 40 cells, of which some take another label at each frame."""
    rng = np.random.default_rng(seed)
    now, found = rng.integers(0, 5, CELLS).astype(np.uint8), []
    for _ in range(frames):
        now = now.copy()
        now[rng.integers(0, CELLS, rng.poisson(motion))] = rng.integers(0, 5)
        found.append(now)
    return found


def fire_rate(clips: list[list[np.ndarray]], schedule) -> float:
    """By sessions."""
    fired = later = 0
    for images in clips:
        session = Session(NET, schedule)
        for image in images:
            session(image)
        fired, later = fired + session.tally.fires[-1], later + session.tally.later
    return fired / later


seeds = st.integers(0, 2**32 - 1)


@settings(deadline=None, max_examples=20)
@given(seeds, st.floats(0, 1), st.sampled_from([2, 16]))
def test_every_point_is_what_a_session_would_do_all_over_its_piece(seed, asked, points) -> None:
    clips = [maps(12, seed), maps(7, seed + 1, motion=8)]
    recordings = [record(NET, images) for images in clips]
    tuned = tune(recordings, adaptive, asked, points=points)
    for point in tuned.curve:
        assert point.low < point.threshold <= point.high
        inside = {point.threshold, min(point.high, NEVER), max(0.0, math.nextafter(point.low, math.inf))}
        assert {fire_rate(clips, adaptive(threshold)) for threshold in inside} == {point.fire_rate}
    assert tuned.point in tuned.curve
    assert [point.threshold for point in tuned.curve] == sorted({point.threshold for point in tuned.curve})


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(seeds, st.sampled_from([0.2, 0.37, 0.5, 0.8]))
def test_no_threshold_at_all_comes_closer(seed, asked) -> None:
    clips = [maps(14, seed)]
    tuned = tune([record(NET, images) for images in clips], adaptive, asked)
    every_rate = [fire_rate(clips, adaptive(cells / CELLS)) for cells in range(CELLS + 1)]
    assert abs(tuned.point.fire_rate - asked) == min(abs(rate - asked) for rate in every_rate)


@settings(deadline=None, max_examples=15)
@given(seeds, st.floats(0.1, 0.9))
def test_differences_have_pieces_too(seed, asked) -> None:
    rng = np.random.default_rng(seed)
    clip = [rng.random((1, 2, 2, 3)).astype(np.float32) for _ in range(10)]
    recording = record(NET, clip, keep=needs(NET, [difference(0.1, of="features")]))
    point = tune([recording], lambda threshold: difference(threshold, of="features"), asked).point
    assert fire_rate([clip], difference(point.threshold, of="features")) == point.fire_rate


def test_confidence_rises_with_its_threshold() -> None:
    rng = np.random.default_rng(0)
    clip = [(rng.random((1, 3, 2, 3)) * scale).astype(np.float32) for scale in np.linspace(0, 9, 41)]
    recording = record(NET, clip, keep=needs(NET, [confidence(0.1)]))
    point = tune([recording], confidence, 0.25).point
    assert point.fire_rate == 0.25
    assert fire_rate([clip], confidence(point.threshold)) == 0.25


def test_all_frames_and_none() -> None:
    recording = record(NET, maps(20, 0))
    always, never = tune([recording], adaptive, 1.0).point, tune([recording], adaptive, 0.0).point
    assert (always.threshold, always.fire_rate) == (0.0, 1.0)
    assert never.fire_rate == 0


def test_a_still_video_has_two_rates() -> None:
    tuned = tune([record(NET, maps(1, 0) * 9)], adaptive, 0.6)
    assert [point.fire_rate for point in tuned.curve] == [1.0, 0.0]
    assert (tuned.point.threshold, tuned.point.fire_rate) == (0.0, 1.0)


def test_a_cap_bounds_what_can_be_reached() -> None:
    recording = record(NET, maps(41, 0))
    tuned = tune([recording], lambda threshold: either(adaptive(threshold), at_least_every(4)), 0.1)
    assert tuned.point.fire_rate == 0.25
    assert min(point.fire_rate for point in tuned.curve) == 0.25


def test_thresholds_are_short_numbers() -> None:
    for asked in (0.2, 0.5, 0.8):
        point = tune([record(NET, maps(60, 1))], adaptive, asked).point
        assert len(repr(point.threshold)) <= 6


def test_what_a_trial_tells() -> None:
    """Ten places; one changes at each frame: held for 1 and 2 frames after a firing, .9 and .8 of them agree."""
    now, images = np.zeros(10, np.uint8), []
    for t in range(7):
        now = now.copy()
        now[t] = 1
        images.append(now)
    recording = record(NET, images)
    trial = tried([recording], adaptive(0.3))
    assert trial.fire_rate == 2 / 6
    assert trial.held_agreement == pytest.approx((4 * 0.85 + 2) / 6)
    full = sum(recording.frames[t].seconds.network for t in range(1, 7))
    spent = full - sum(recording.frames[t].seconds.stages[1] for t in (1, 2, 4, 5))
    assert trial.relative_time_estimate == pytest.approx(spent / full)
    assert tried([recording, recording], adaptive(0.3)).tally.frames == 14
    assert tried([recording, recording], adaptive(0.3)).held_agreement == pytest.approx(trial.held_agreement)


def test_a_refill_in_mid_stream_is_what_later_frames_reflect() -> None:
    sizes = [np.zeros(4, np.uint8), np.zeros(6, np.uint8), np.uint8([1, 0, 0, 0, 0, 0])]
    trial = tried([record(NET, sizes)], adaptive(0.9))
    assert trial.tally.fires == (2, 1)
    assert trial.held_agreement == pytest.approx((1 + 5 / 6) / 2)


def test_agreement_is_unknown_where_the_last_stage_has_no_scores() -> None:
    net = StagedNetwork("no scores", (NET.stages[0], Stage("b", np.asarray, scores=None)))
    trial = tried([record(net, maps(5, 0))], adaptive(0.1))
    assert trial.held_agreement is None
    assert (trial + trial).held_agreement is None


def test_clips_of_one_frame_are_no_help() -> None:
    single = record(NET, maps(1, 0))
    with pytest.raises(DataError, match="no clip has two frames"):
        tune([single], adaptive, 0.5)
    assert tune([single, record(NET, maps(30, 0)), record(NET, [])], adaptive, 0.5).point.trial.tally.clips == 2
    assert math.isnan(tried([single], adaptive(0.1)).fire_rate)


def test_wrong_arguments() -> None:
    with pytest.raises(UsageError, match="from 0 to 1"):
        tune([record(NET, maps(3, 0))], adaptive, 50)
    with pytest.raises(UsageError, match="at least one"):
        tried([], adaptive(0.1))
    for without in (at_least_every(8), alternating(2), either(adaptive(0.1), at_least_every(8))):
        with pytest.raises(UsageError, match="function of the threshold"):
            tune([record(NET, maps(3, 0))], without, 0.5)
    with pytest.raises(UsageError, match="wasn't recorded"):
        tried([record(NET, maps(3, 0))], difference(0.1, of="features"))


@pytest.mark.slow
def test_a_paced_schedule_holds_its_rate_on_other_blocks() -> None:
    """Blocks in turn of little and of much motion: the fixed threshold of the still ones fires on nearly all of the others."""
    blocks = [record(NET, maps(40, block, motion=(2, 9)[block % 2])) for block in range(12)]
    still, moving = blocks[::2], blocks[1::2]
    fixed = tune(still, adaptive, 0.5).point.threshold
    assert tried(moving, adaptive(fixed)).fire_rate > 0.9
    near = (fixed / 2, 2 * fixed)
    start = tune(still, lambda threshold: paced(adaptive(threshold), 0.5), 0.5, points=2, between=near).point
    assert near[0] <= start.threshold <= near[1]
    assert abs(start.fire_rate - 0.5) < 0.01
    assert tried(moving, paced(adaptive(start.threshold), 0.5)).fire_rate < 0.7


def test_pieces_of_a_paced_schedule_are_exact() -> None:
    recording = record(NET, maps(60, 3))
    for point in tune([recording], lambda threshold: paced(adaptive(threshold), 0.4), 0.4).curve:
        ends = {min(point.high, NEVER), point.threshold}
        fired = {tuple(one.fired for one in replay(recording, paced(adaptive(end), 0.4))) for end in ends}
        assert len(fired) == 1


# The command.
@pytest.fixture
def video(tmp_path: Path) -> Path:
    """Thirty frames in which a bright bar moves now and then."""
    return write_video(tmp_path / "moves.mp4", [frame(t * (t % 3 > 0)) for t in range(30)])


def frame(at: int) -> np.ndarray:
    image = picture(48, 32)
    image[:, at : at + 12] = 255 - image[:, at : at + 12]
    return image


@pytest.fixture
def network(tmp_path: Path) -> Path:
    return networks.write_tiny(tmp_path)


def tuned(capsys: pytest.CaptureFixture[str], *args: object, code: int = 0) -> dict:
    assert main(["tune", *map(str, args), "--json", "--quiet"]) == code
    return json.loads(capsys.readouterr().out, parse_constant=pytest.fail)


def test_the_command_writes_a_file_that_evaluate_takes(capsys, video, network, tmp_path) -> None:
    out = tmp_path / "s.toml"
    common = ["--network", network, "--engine", "onnxruntime", "--size", "40x40"]
    found = tuned(capsys, video, "--fire-rate", 0.5, "--out", out, *common)
    assert list(found)[:8] == [
        "network", "engine", "asked", "schedule", "threshold", "fire_rate", "held_agreement", "relative_time_estimate",
    ]  # fmt: skip
    file = read_schedule_file(out)
    assert found["schedule"] == file.schedule == f"paced(adaptive({found['threshold']!r}), 0.5)"
    assert (file.network, file.stages, file.tuned["frames"]) == ("tiny", ("low", "mid", "deep"), 30)
    assert (file.tuned["every"], file.tuned["precision"], file.tuned["size"]) == (1, "f32", [40, 40])
    assert found["clips"] == [{"clip": str(video), "frames": 30, "fire_rate": found["fire_rate"]}]
    assert main(["evaluate", str(video), "--schedule", str(out), "--json", "--quiet", *map(str, common)]) == 0
    [evaluated] = json.loads(capsys.readouterr().out)["schedules"]
    assert evaluated["schedule"] == file.schedule
    assert evaluated["fire_rate"]["deep"] == found["fire_rate"]


def test_the_fixed_threshold_clocks_and_several_videos(capsys, video, network, tmp_path) -> None:
    other = write_video(tmp_path / "still.mp4", [frame(3)] * 8)
    common = ["--fire-rate", 0.4, "--keep", "threshold", "--network", network, "--engine", "onnxruntime"]
    found = tuned(capsys, video, other, *common, "--clock", 'difference({}, of="scores", watch=1)', "--cap", 5)
    assert found["schedule"] == (f'either(difference({found["threshold"]!r}, of="scores", watch=1), at_least_every(5))')
    assert found["fixed"]["schedule"] == found["schedule"]
    assert [clip["frames"] for clip in found["clips"]] == [30, 8]
    assert {point["threshold"] for point in found["curve"]} >= {found["threshold"]}
    total = sum(clip["fire_rate"] * (clip["frames"] - 1) for clip in found["clips"])
    assert found["fire_rate"] == pytest.approx(total / 36)


def test_the_table(capsys, video, network) -> None:
    args = ["tune", str(video), str(video), "--fire-rate", "0.5", "--network", str(network), "--quiet"]
    assert main(args) == 0
    out, err = capsys.readouterr()
    curve, clips, said = out.rstrip("\n").split("\n\n")
    assert curve.splitlines()[0].split("  ")[0] == "threshold"
    assert curve.splitlines()[1].split() == ["0", "100.0", "%", "100.0", "%", "1.000"]
    assert len(clips.splitlines()) == 3
    assert said.splitlines()[0].startswith("adaptive(")
    assert said.splitlines()[1].startswith("paced(adaptive(")
    assert "(asked: 50.0 %; counted at the last stage, " in said
    assert err == ""


def test_a_clock_under_a_carry_is_paced_and_capped_inside_of_it(capsys, video, network) -> None:
    clock = "carried(motion_residual({}), warp(flow))"
    found = tuned(capsys, video, "--fire-rate", 0.4, "--network", network, "--clock", clock, "--cap", 9)
    assert found["schedule"].startswith("carried(either(paced(motion_residual(")
    assert found["schedule"].endswith(", 0.4), at_least_every(9)), warp(flow))")


def test_the_default_clock_watches_a_map_that_the_network_has() -> None:
    scores, features = Stage("a", np.asarray), Stage("a", np.asarray, scores=None)
    assert default_clock(StagedNetwork("two", (scores, Stage("b", np.asarray)))) == "adaptive({})"
    assert default_clock(StagedNetwork("two", (features, Stage("b", np.asarray)))) == 'difference({}, of="features")'
    assert default_clock(StagedNetwork("one", (scores,))) == 'difference({}, of="pixels")'


def test_the_command_it_prints_names_the_network(capsys, video, network, tmp_path) -> None:
    """Another network is the default of ``segment``."""
    file = tmp_path / "tuned.toml"
    args = ["tune", str(video), "--fire-rate", "0.5", "--network", str(network), "--quiet", "--out", str(file)]
    assert main(args) == 0
    assert f"clockseg segment VIDEO --network {network} --schedule {file} --out DIR" in capsys.readouterr().out


def test_what_cannot_be_reached_is_told(capsys, network, tmp_path) -> None:
    still = write_video(tmp_path / "still.mp4", [frame(3)] * 8)
    assert main(["tune", str(still), "--fire-rate", "0.9", "--network", str(network), "--json", "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["schedule"] == "adaptive(0.0)"  # which no pace can move
    assert "can't be reached" in err


def test_a_bad_video_does_not_stop_the_others(capsys, video, network, tmp_path) -> None:
    (tmp_path / "bad.mp4").write_bytes(b"no video")
    args = ["tune", str(tmp_path / "bad.mp4"), str(video), "--fire-rate", "0.5", "--network", str(network), "--quiet"]
    assert main([*args, "--json"]) == 1
    out, err = capsys.readouterr()
    assert len(json.loads(out)["clips"]) == 1
    assert "bad.mp4" in err
    assert main(["tune", str(tmp_path / "none.mp4"), "--fire-rate", "0.5"]) == 1


def test_a_video_of_one_frame_is_no_help(capsys, network, tmp_path) -> None:
    one = write_video(tmp_path / "one.mp4", [frame(3)])
    assert main(["tune", str(one), "--fire-rate", "0.5", "--network", str(network), "--quiet"]) == 1
    assert "no clip has two frames" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--clock", "alternating"], "has no {} for its threshold"),
        (["--clock", "adaptive(0.25)"], "has no {} for its threshold"),
        (["--clock", "no_such({})"], "no_such"),
        (["--clock", "adaptive({}"], "was never closed"),
        (["--clock", "difference({}, off='pixels')"], "unexpected keyword argument 'off'"),
        (["--clock", "confidence({})"], "confidence(0.5) can't be paced"),
        (["--clock", "either(adaptive({}), at_least_every(8))"], "Use either and both around paced(..)"),
        (["--clock", "adaptive({}, watch=3)"], "Give at most 2"),
    ],
)
def test_wrong_usage_ends_with_2(capsys, video, network, options, message) -> None:
    assert main(["tune", str(video), "--fire-rate", "0.5", "--network", str(network), "--quiet", *options]) == 2
    assert message in capsys.readouterr().err


def test_a_file_that_is_there_is_kept(capsys, video, network, tmp_path) -> None:
    out = tmp_path / "s.toml"
    out.write_text("mine")
    args = ["tune", str(video), "--fire-rate", "0.5", "--network", str(network), "--quiet", "--out", str(out)]
    assert main(args) == 2
    assert out.read_text() == "mine"
    assert main([*args, "--overwrite"]) == 0
    assert read_schedule_file(out).schedule.startswith("paced")


@pytest.mark.parametrize("share", ["50", "-0.1", "half", "nan"])
def test_argparse_refuses_what_is_no_share(share) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["tune", "x.mp4", "--fire-rate", share])
    assert ended.value.code == 2
