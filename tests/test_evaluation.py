"""Evaluation: what schedules are measured against, over which frames, and how sums add up."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from clockseg import (
    Schedule,
    adaptive,
    alternating,
    exponential,
    fixed_rate,
    frame_oracle,
    load,
    pipelined,
    skip_frame,
)
from clockseg.clocks.spec import parse_schedule
from clockseg.clockwork.network import Stage, StagedNetwork
from clockseg.clockwork.session import Session
from clockseg.datasets import read_data
from clockseg.errors import DataError, UsageError
from clockseg.evaluation.evaluate import Evaluation, evaluate
from clockseg.evaluation.metrics import Confusion, boundary_band, confusion
from clockseg.evaluation.tally import Progress
from toy_networks import CLASSES, toy, write_clip
from video_making import data_folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_clip(tmp_path / "first", 9, labelled=9)
    write_clip(tmp_path / "second", 6, labelled=2, seed=1)
    return tmp_path


def one(data: Path, schedule, **options) -> Evaluation:
    return evaluate(toy(), {"it": schedule}, read_data(data), classes=CLASSES, **options)[0]


@pytest.mark.parametrize(
    "schedule", [frame_oracle, fixed_rate((1, 1, 1)), adaptive(0)], ids=["oracle", "111", "adaptive0"]
)
def test_what_fires_always_agrees_to_the_bit(data, schedule):
    found = one(data, schedule)
    assert np.array_equal(found.agreement.counts, np.diag(np.diag(found.agreement.counts)))
    assert found.agreement.mean_iu == 1
    assert found.scores == found.oracle
    assert found.kept == 1
    assert found.tally.fire_rate == {"one": 1.0, "two": 1.0, "three": 1.0}
    assert found.agreement.pixels == 15 * 24 * 16


def test_scores_are_those_of_a_session_run_by_hand(data):
    found = one(data, alternating)
    scores, agreement, near = Confusion.none(3), Confusion.none(3), Confusion.none(3)
    for clip in read_data(data):
        session = Session(toy(), alternating)  # a fresh one: nothing is held over the border between clips
        for frame in clip:
            labels = session(frame.image)
            agreement += confusion(toy()(frame.image), labels, 3)
            if frame.labels is not None:
                scores += confusion(frame.labels, labels, 3)
                near += confusion(frame.labels, labels, 3, where=boundary_band(frame.labels, kind="classes"))
    assert (found.scores, found.agreement, found.boundary) == (scores, agreement, near)


def test_rates_leave_out_each_clips_first_frame(data):
    found = one(data, skip_frame(2))
    # 8 frames after the first of 9, 5 after the first of 6: t = 2, 4, 6, 8 and t = 2, 4 run.
    assert found.tally.later == 13
    assert found.tally.network_rate == 6 / 13
    assert one(data, exponential).tally.fire_rate == {"one": 1.0, "two": 6 / 13, "three": 3 / 13}


def test_every_subsamples_before_the_schedule(data):
    clips = read_data(data, every=2)
    found = evaluate(toy(), {"it": skip_frame(2)}, clips, classes=CLASSES)[0]
    assert found.tally.frames == 5 + 3
    assert found.tally.network_rate == 3 / 6


@pytest.fixture
def own_clock(monkeypatch):
    """Time that passes only where the toy network sleeps."""
    clock = SimpleNamespace(now=0.0)

    def sleep(seconds):
        clock.now += seconds

    fake = SimpleNamespace(perf_counter=lambda: clock.now, sleep=sleep)
    for module in ("clockseg.clockwork.lazy", "toy_networks"):
        monkeypatch.setattr(f"{module}.time", fake)


def test_skip_frame_takes_half_the_uncut_networks_time(tmp_path, own_clock):
    write_clip(tmp_path / "clip", 21)
    found = evaluate(toy(seconds=0.003), {"it": skip_frame(2)}, read_data(tmp_path), classes=CLASSES)[0]
    assert found.relative_time == pytest.approx(0.5)
    assert found.uncut.later == 20


def test_the_first_frames_seconds_do_not_count(tmp_path, own_clock):
    write_clip(tmp_path / "clip", 3)
    found = evaluate(toy(seconds=0.005), {"never again": skip_frame(100)}, read_data(tmp_path), classes=CLASSES)[0]
    assert found.tally.seconds == 0
    assert found.relative_time == 0


def test_the_order_given_is_kept_and_names_may_come_twice(data):
    pairs = [("b", skip_frame(2)), ("a", frame_oracle), ("b", skip_frame(3))]
    found = evaluate(toy(), pairs, read_data(data), classes=CLASSES)
    assert [each.schedule for each in found] == ["b", "a", "b"]
    assert found[0].tally.network_rate != found[2].tally.network_rate


def test_evaluations_of_clips_add_up_to_that_of_all(data):
    schedules = {"a": alternating, "p": pipelined(2)}
    first, second = read_data(data)
    apart = [evaluate(toy(), schedules, [clip], classes=CLASSES) for clip in (first, second)]
    for a, b, both in zip(*apart, evaluate(toy(), schedules, [first, second], classes=CLASSES), strict=True):
        total = a + b
        assert (total.scores, total.agreement, total.boundary) == (both.scores, both.agreement, both.boundary)
        assert (total.tally.fires, total.tally.frames) == (both.tally.fires, both.tally.frames)
        assert total.uncut.clips == 2
        assert total.tally.seconds == pytest.approx(a.tally.seconds + b.tally.seconds)


def test_evaluations_of_different_schedules_do_not_add(data):
    first, second = evaluate(toy(), {"a": alternating, "b": frame_oracle}, read_data(data), classes=CLASSES)
    with pytest.raises(UsageError, match="can't be added"):
        first + second


def test_without_labels_there_is_agreement_alone(tmp_path):
    write_clip(tmp_path / "clip", 3)
    facts = one(tmp_path, alternating).facts()
    assert facts["mean_iu"] is facts["fw_iu"] is facts["pixel_acc"] is facts["boundary"] is None
    assert facts["iu"] == dict.fromkeys(CLASSES)
    assert facts["agreement"]["mean_iu"] > 0


def test_a_clip_of_one_frame_has_no_rates(tmp_path):
    write_clip(tmp_path / "clip", 1, labelled=1)
    facts = one(tmp_path, alternating).facts()
    assert facts["fire_rate"] == {"one": None, "two": None, "three": None}
    assert facts["network_rate"] is facts["seconds_per_frame"] is facts["relative_time"] is None
    assert facts["agreement"]["pixel_acc"] == 1


def test_facts_are_plain_json_in_the_documented_order(data):
    facts = one(data, alternating).facts()
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    assert list(facts) == [
        "schedule", "carry", "mean_iu", "fw_iu", "pixel_acc", "mean_acc", "iu", "boundary", "agreement",
        "flicker", "uncut_flicker", "fire_rate", "network_rate", "seconds_per_frame", "relative_time",
        "multiply_adds_per_frame", "relative_multiply_adds",
    ]  # fmt: skip
    assert facts["carry"] == "identity"


def test_a_class_absent_from_truth_and_prediction_is_null(data):
    found = evaluate(toy(), {"it": frame_oracle}, [], classes=CLASSES)[0]
    counts = np.zeros((3, 3), int)
    counts[0, 0] = 4
    blank = Evaluation("it", "identity", CLASSES, Confusion(counts), Confusion.none(3), Confusion(counts), Confusion(counts),
                       found.tally, found.uncut)  # fmt: skip
    assert blank.facts()["iu"] == {"dark": 1.0, "middle": None, "light": None}


def test_foreground_band_where_class_0_is_background(data):
    (data / "classes.json").write_text(json.dumps({"classes": ["background", "b", "c"]}))
    found = evaluate(toy(), {"it": frame_oracle}, read_data(data), classes=("background", "b", "c"))[0]
    expected = Confusion.none(3)
    for clip in read_data(data):
        for frame in clip:
            if frame.labels is not None:
                near = boundary_band(frame.labels, kind="foreground")
                expected += confusion(frame.labels, toy()(frame.image), 3, where=near)
    assert found.boundary == expected


def test_other_classes_than_the_datas_are_refused(data):
    with pytest.raises(DataError, match=r"first has 3 classes \(dark, middle, light\), network 'toy' has 3 \(light,"):
        evaluate(toy(), {"it": frame_oracle}, read_data(data), classes=CLASSES[::-1])
    with pytest.raises(DataError, match=r"has 2 \(dark, middle\)"):
        evaluate(toy(), {"it": frame_oracle}, read_data(data), classes=CLASSES[:2])


def test_other_classes_do_not_matter_without_labels(data):
    shutil.rmtree(data / "first" / "labels")
    shutil.rmtree(data / "second" / "labels")
    found = evaluate(toy(), {"it": frame_oracle}, read_data(data), classes=("a", "b", "c"))[0]
    assert found.agreement.mean_iu == 1


def test_a_network_that_gives_no_label_maps_is_refused(data):
    depth = StagedNetwork("depth", (Stage("a", lambda image: image[..., 0] / 255),))
    with pytest.raises(UsageError, match=r"network 'depth' gives float64 \[16, 24\]"):
        evaluate(depth, {"it": frame_oracle}, read_data(data), classes=CLASSES)


def test_a_schedule_for_other_stages_is_refused_before_anything_runs():
    with pytest.raises(UsageError, match="has 1 stages and the network 3"):
        evaluate(toy(), {"it": Schedule((lambda tick: True,))}, [], classes=CLASSES)


def test_progress_tells_every_frame(data):
    told: list[Progress] = []
    one(data, alternating, progress=told.append)
    assert len(told) == 15
    assert told[8][:3] == ("first", 9, 9)
    assert told[-1][:3] == ("second", 6, 6)
    assert told[-1].tally.fire_rate == {"one": 1.0, "two": 1.0, "three": 2 / 5}


def test_on_the_bundled_network_what_fires_always_gives_the_same_labels_to_the_bit(tmp_path):
    write_clip(tmp_path / "clip", 5, size=(160, 120))
    net = load("street", size=160)
    schedules = {"oracle": frame_oracle, "111": fixed_rate((1, 1, 1)), "adaptive(0)": adaptive(0)}
    found = evaluate(net, schedules, read_data(tmp_path))
    assert found[0].agreement == found[1].agreement == found[2].agreement
    assert found[0].agreement.pixel_acc > 0.999
    sessions = [Session(net, schedule) for schedule in schedules.values()]
    for frame in read_data(tmp_path)[0]:
        first, *others = [session(frame.image) for session in sessions]
        assert all(np.array_equal(first, other) for other in others)


@pytest.mark.slow
def test_on_a_real_clip_the_oracle_is_the_oracle_however_it_is_said():
    path = data_folder() / "camvid" / "val"
    if not path.is_dir():
        pytest.skip("needs the shared data folder (CLOCKSEG_DATA)")
    net = load("street")
    names = ("fixed_rate((1, 1, 1))", "adaptive(0)", "adaptive(0, 0)", "frame_oracle")
    *others, oracle = (Session(net, parse_schedule(name)) for name in names)
    alternate, pipeline, uncut = (
        Session(net, alternating),
        Session(net, pipelined(2)),
        Session(net.uncut(), frame_oracle),
    )
    for frame in read_data(path, limit=12)[0]:
        wanted = oracle(frame.image)
        assert all(np.array_equal(other(frame.image), wanted) for other in others)
        assert np.mean(uncut(frame.image) != wanted) < 1e-4
        off, piped = alternate(frame.image), pipeline(frame.image)
        assert np.array_equal(off, piped) or not frame.index % 2
