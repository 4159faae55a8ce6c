"""Streams on a timer that stands still but for what it is told: what is shown at each deadline, exactly."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import symbolic
from clockseg import DataError, Session, Stage, StagedNetwork, UsageError, frame_oracle, pipelined, skip_frame
from clockseg.cli import evaluate as command
from clockseg.cli.main import main
from clockseg.datasets import Classes, Clip
from clockseg.evaluation.streaming import Stream, Timer, evaluate_streaming, stream
from clockseg.execution.pipeline import Runner, runner
from toy_networks import CLASSES, toy, write_clip
from virtual_time import VirtualTimer, with_durations


def played(schedule, seconds, frames: int, *, fps: float = 1, ahead: bool = False) -> Stream:
    """A symbolic network with stages A, B, C that take so many seconds, on frames "0", "1", .."""
    timer = VirtualTimer()
    net = with_durations(
        symbolic.network(), timer, {f"{stage}.body": s for stage, s in zip("ABC", seconds, strict=True)}
    )
    return stream(runner(net, schedule, ahead=ahead), [str(t) for t in range(frames)], fps, timer=timer)


def shown(found: Stream) -> list[int]:
    return [one.frame for one in found.at_deadlines()]


def reflected(found: Stream) -> list[str]:
    return [symbolic.frames_of(one.output) for one in found.at_deadlines()]


def test_a_network_that_keeps_up_shows_each_frame() -> None:
    found = played(frame_oracle, (0.25, 0.25, 0.25), 5)
    assert shown(found) == [1, 2, 3, 4]
    assert found.ages() == found.oldest_ages() == [1.0] * 4
    assert found.dropped == 0
    assert [(one.start, one.finish) for one in found.outputs] == [(0, 0), (1, 1.75), (2, 2.75), (3, 3.75), (4, 4.75)]


def test_an_output_that_is_finished_at_the_deadline_counts() -> None:
    assert shown(played(frame_oracle, (0.5, 0.25, 0.25), 4)) == [1, 2, 3]
    assert shown(played(frame_oracle, (0.5, 0.25, 0.375), 4)) == [0, 1, 2]


def test_a_slow_network_takes_the_newest_frame_and_drops_those_overtaken() -> None:
    found = played(frame_oracle, (1.0, 1.0, 0.5), 9)
    assert [(one.frame, one.finish) for one in found.outputs[1:]] == [(1, 3.5), (3, 6.0), (6, 8.5), (8, 11.0)]
    assert shown(found) == [0, 0, 1, 1, 3, 3, 3, 6]
    assert found.ages() == [2, 3, 3, 4, 3, 4, 5, 3]
    assert found.dropped == 4


def test_skip_frame_answers_at_once_with_what_is_old() -> None:
    found = played(skip_frame(2), (0.5, 0.5, 0.5), 6)
    assert shown(found) == [1, 1, 3, 3, 5]
    assert reflected(found) == ["000", "000", "222", "222", "444"]
    assert found.ages() == [2, 3, 2, 3, 2]


def test_a_schedule_counts_the_frames_it_sees() -> None:
    """Frames 3 and 6 are dropped, so frame 4 is the fourth seen, and off, and frame 5 on."""
    found = played(skip_frame(2), (1.0, 1.0, 0.5), 8)
    assert [one.frame for one in found.outputs] == [0, 1, 2, 4, 5, 7]
    assert [symbolic.frames_of(one.output) for one in found.outputs] == ["000", "000", "222", "222", "555", "555"]
    assert [(one.newest, one.oldest) for one in found.outputs] == [(0, 0), (0, 0), (2, 2), (2, 2), (5, 5), (5, 5)]


def test_a_pipeline_that_runs_ahead_meets_deadlines_that_it_would_miss() -> None:
    serial = played(pipelined(2), (0.5, 0.25, 0.5), 8)
    assert [(one.frame, one.finish) for one in serial.outputs[1:]] == [
        (1, 2.25), (2, 3.5), (3, 4.75), (4, 6.0), (6, 7.25), (7, 8.5)
    ]  # fmt: skip
    assert shown(serial) == [0, 1, 2, 3, 4, 4, 6]
    assert serial.ages() == [2, 2, 2, 2, 2, 3, 2]
    assert serial.oldest_ages() == [2, 3, 3, 3, 3, 4, 4]
    ahead = played(pipelined(2), (0.5, 0.25, 0.5), 8, ahead=True)
    assert [(one.frame, one.finish) for one in ahead.outputs[1:]] == [
        (1, 1.75), (2, 3.0), (3, 4.25), (4, 5.5), (6, 6.75), (7, 8.0)
    ]  # fmt: skip
    assert shown(ahead) == [1, 2, 2, 3, 4, 6, 7]
    assert [one.output for one in ahead.outputs] == [one.output for one in serial.outputs]


def test_ages_after_a_change_of_size_count_from_the_stream() -> None:
    """A refill counts frames from 0 again; what is shown still tells frames of the stream."""
    images = [np.zeros((2 + (t >= 3), 2)) for t in range(6)]
    net = StagedNetwork("two", (Stage("a", np.sum), Stage("b", np.sum)))
    timer = VirtualTimer()
    found = stream(Runner(Session(with_durations(net, timer, {"a.body": 0.5}), pipelined(2))), images, 1, timer=timer)
    assert [(one.newest, one.oldest) for one in found.outputs] == [(0, 0), (1, 0), (2, 1), (3, 3), (4, 3), (5, 4)]


def test_a_session_starts_anew() -> None:
    timer = VirtualTimer()
    runner = Runner(Session(with_durations(symbolic.network(), timer, {}), skip_frame(2)))
    for _ in range(2):
        found = stream(runner, "0123", 1, timer=timer)
        assert [one.output for one in found.outputs] == ["A0+BA0+CBA0", "A0+BA0+CBA0", "A2+BA2+CBA2", "A2+BA2+CBA2"]
        assert [one.start for one in found.outputs] == [0, 1, 2, 3]


@settings(max_examples=60, deadline=None)
@given(
    seconds=st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.75]), min_size=3, max_size=3),
    fps=st.sampled_from([0.5, 1.0, 3.0, 30.0]),
    frames=st.integers(2, 12),
    ahead=st.booleans(),
    schedule=st.sampled_from([frame_oracle, skip_frame(2), pipelined(2), pipelined(3)]),
)
def test_no_frame_before_it_came_no_output_before_it_was_finished_and_no_rest_while_there_is_work(
    seconds, fps, frames, ahead, schedule
) -> None:
    found = played(schedule, seconds, frames, fps=fps, ahead=ahead)
    order = [one.frame for one in found.outputs]
    assert order == sorted(set(order))
    assert found.dropped == frames - len(order)
    for before, one in zip(found.outputs, found.outputs[1:], strict=False):
        come = one.frame / fps
        assert one.start >= come - 1e-9
        assert one.frame == frames - 1 or one.start < (one.frame + 1) / fps + 1e-9  # and was the newest
        assert one.start >= before.finish
        if not ahead:
            assert one.start == pytest.approx(max(before.finish, (before.frame + 1) / fps))
    for t, one in enumerate(found.at_deadlines(), start=1):
        later = [other for other in found.outputs if other.finish <= (t + 1) / fps and other.frame <= t]
        assert one is later[-1]
        assert one.oldest <= one.newest <= one.frame <= t


@pytest.mark.parametrize("fps", [0, -1, float("nan"), float("inf")])
def test_fps_must_be_a_number_above_0(fps) -> None:
    with pytest.raises(UsageError, match="a number of FPS above 0"):
        stream(Runner(Session(symbolic.network(), frame_oracle)), "01", fps)


def test_the_wall_timer_waits_at_least_as_long_as_it_should() -> None:
    timer = Timer()
    until = timer.now() + 0.002
    timer.wait(until)
    assert timer.now() >= until
    timer.wait(until)


# Scores.

TWO = Classes(("dark", "light"), ((0, 0, 0), (255, 255, 255)))


def clip(frames: int, *, labelled=None, classes: Classes | None = TWO) -> Clip:
    """In frame t the first t of 8 pixels are light."""
    paths = tuple(Path(f"{t}.png") for t in range(frames))

    def light(path: Path) -> np.ndarray:
        return (np.arange(8) < int(path.stem)).astype(np.uint8)[None]

    labels = tuple(path if labelled is None or t in labelled else None for t, path in enumerate(paths))
    return Clip(
        "rising", Path("rising"), paths, labels, classes,
        read_image=lambda path: np.repeat(light(path)[..., None], 3, axis=2), read_labels=light,
    )  # fmt: skip


def one_stage(timer: VirtualTimer, seconds: float) -> StagedNetwork:
    """Exact labels after so many seconds."""
    return with_durations(
        StagedNetwork("exact", (Stage("a", lambda image: image[..., 0]),)), timer, {"a.body": seconds}
    )


def scored(seconds: float, *clips: Clip, fps: float = 1):
    timer = VirtualTimer()
    net = one_stage(timer, seconds)
    runners = [("frame_oracle", Runner(Session(net, frame_oracle))), ("skip", Runner(Session(net, skip_frame(2))))]
    return evaluate_streaming(net, runners, clips, fps=fps, classes=TWO.names, timer=timer)


def test_scores_are_of_what_was_shown() -> None:
    """At the deadlines of frames 1 to 5 the labels of frames 0, 1, 2, 2, 4 are shown."""
    full, skip = scored(1.5, clip(6))
    assert full.scores.counts.tolist() == full.agreement.counts.tolist() == [[25, 0], [6, 9]]
    assert full.oracle.counts.tolist() == [[25, 0], [0, 15]]
    assert full.kept == full.scores.mean_iu == (25 / 31 + 9 / 15) / 2
    assert (full.finished, full.dropped, full.on_time) == (4, 1, 0)
    assert full.facts()["age_ms"] == {"median": 2000, "p95": 3000}
    # Of frames 1, 1, 3, 3, 5, which show frames 0, 0, 2, 2, 4.
    assert skip.scores.counts.tolist() == [[25, 0], [7, 8]]
    assert (skip.finished, skip.dropped, skip.on_time) == (5, 0, 3)


def test_a_network_that_keeps_up_scores_as_if_it_took_no_time() -> None:
    full, _ = scored(1.0, clip(6))
    assert (full.kept, full.on_time, full.facts()["agreement"]) == (1.0, 5, {"mean_iu": 1.0, "pixel_acc": 1.0})


def test_frames_without_labels_count_for_agreement() -> None:
    full, _ = scored(1.5, clip(6, labelled={0, 3}))
    assert full.scores.counts.tolist() == [[5, 0], [1, 2]]
    assert full.agreement.counts.tolist() == [[25, 0], [6, 9]]
    none, _ = scored(1.5, clip(6, labelled=(), classes=None))
    assert (none.kept, none.facts()["mean_iu"]) == (None, None)
    assert none.agreement == full.agreement


def test_clips_add_up() -> None:
    a, b = scored(1.5, clip(6))[0], scored(1.5, clip(4))[0]
    both = scored(1.5, clip(6), clip(4))[0]
    assert both == a + b
    assert (both.finished, both.dropped, len(both.ages)) == (7, 1, 8)
    with pytest.raises(UsageError, match="can't be added"):
        a + replace(b, fps=2)


def test_clips_that_are_no_stream(monkeypatch) -> None:
    with pytest.raises(DataError, match="fewer than two frames; a stream needs two"):
        scored(1.0, clip(1))
    monkeypatch.setattr("clockseg.evaluation.streaming.MOST_BYTES", 60)
    with pytest.raises(DataError, match="holds in memory; take fewer frames, for example with --limit 1"):
        scored(1.0, clip(6))
    monkeypatch.undo()
    with pytest.raises(DataError, match="the frame size changes at frame 2"):
        scored(1.0, replace(clip(3, labelled=()), view=lambda array, index: array[:, : 8 - index // 2]))
    with pytest.raises(DataError, match=r"has 3 classes .*, network 'exact' has 2"):
        scored(1.0, replace(clip(3), classes=Classes(("a", "b", "c"), ((0, 0, 0),) * 3)))


# The command, in real time: what it prints, not what it takes.


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_clip(tmp_path / "data" / "a", 5, labelled=3)
    write_clip(tmp_path / "data" / "b", 3)
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def _toy_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(args):
        classes = CLASSES if args.network != "other" else CLASSES[::-1]
        said = SimpleNamespace(classes=classes, schedule="alternating", input=SimpleNamespace(width=8, height=6))
        return replace(toy(), engine="torch" if args.network == "torch" else "toy engine", sidecar=said)

    monkeypatch.setattr(command, "load_network", load)
    monkeypatch.setattr("clockseg.cli.loading.load_network", load)


def told(capsys, *args: object) -> dict:
    assert main(["evaluate", *map(str, args), "--json"]) == 0
    return json.loads(capsys.readouterr().out, parse_constant=pytest.fail)


@pytest.mark.parametrize(("options", "pipelines"), [([], "serial"), (["--ahead"], "ahead")])
def test_json(capsys, data, options, pipelines) -> None:
    schedules = ["--schedule", "pipelined(2)", "--schedule", "skip_frame(2)", "--baseline", "small", "--threads", 6]
    out = told(capsys, data, "--streaming", "500", *schedules, *options)
    assert list(out) == ["data", "network", "engine", "fps", "pipelines", "schedules"]
    assert (out["network"], out["fps"], out["pipelines"]) == ("toy", 500.0, pipelines)
    assert [one["schedule"] for one in out["schedules"]] == ["full", "pipelined(2)", "skip_frame(2)", "small"]
    for one in out["schedules"]:
        assert list(one) == ["schedule", "mean_iu", "kept", "agreement", "age_ms", "oldest_age_ms", "frames", "finished",
                             "dropped", "on_time"]  # fmt: skip
        assert one["frames"] == one["finished"] + one["dropped"] == 4 + 2
        assert 2 <= one["age_ms"]["median"] <= one["age_ms"]["p95"]
        assert 0 <= one["mean_iu"] <= 1


def test_a_table_for_people(capsys, data) -> None:
    assert main(["evaluate", str(data), "--streaming", "500", "--schedule", "skip_frame(2)", "--quiet"]) == 0
    out, err = capsys.readouterr()
    head, full, skip = out.splitlines()
    assert head.split()[:3] == ["schedule", "mIoU", "kept"]
    assert (full.split()[0], skip.split()[0]) == ("full", "skip_frame(2)")
    assert err == ""


def test_a_bad_clip_is_left_out(capsys, data) -> None:
    write_clip(data / "c", 1)
    assert main(["evaluate", str(data), "--streaming", "500", "--json", "--quiet"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["schedules"][0]["frames"] == 6
    assert "a stream needs two, of which the first is not scored. Clip c is left out." in err
    assert main(["evaluate", str(data / "c"), "--streaming", "500", "--json", "--quiet"]) == 1
    assert capsys.readouterr().out == ""


def test_baselines_without_streaming(capsys, data) -> None:
    schedules = ["--schedule", "pipelined(3)", "--schedule", "alternating", "--threads", 5]
    serial = told(capsys, data, *schedules)["schedules"]
    out = told(capsys, data, *schedules, "--baseline", "small", "--baseline", "small")["schedules"]
    assert [one["schedule"] for one in out] == ["pipelined(3)", "alternating", "small", "small"]
    for one, wanted in zip(out[:2], serial, strict=True):
        assert (one["mean_iu"], one["agreement"], one["fire_rate"]) == (
            wanted["mean_iu"], wanted["agreement"], wanted["fire_rate"])  # fmt: skip
    assert out[2]["agreement"]["pixel_acc"] == 1
    assert out[2]["fire_rate"] == {"whole": 1.0}
    assert main(["evaluate", str(data), "--schedule", "alternating", "--baseline", "small"]) == 0
    assert "- - - 100.0 %" in " ".join(capsys.readouterr().out.splitlines()[-1].split())  # it has none of these stages


@pytest.mark.parametrize("fps", ["0", "-5", "nan", "fast"])
def test_argparse_refuses_what_is_no_fps(fps, data) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", str(data), f"--streaming={fps}"])
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ahead"], "--ahead works only with --streaming"),
        (["--baseline", "other"], "network other has the classes light, middle, dark, network 'toy' has dark"),
        (["--baseline", "other", "--streaming", "500"], "network other has the classes"),
        (["--schedule", "pipelined(4)", "--streaming", "500"], "k is at most the number of stages"),
    ],
)
def test_wrong_usage_ends_with_2(capsys, data, options, message) -> None:
    assert main(["evaluate", str(data), *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
