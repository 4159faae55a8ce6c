"""``segment``: what it leaves, what it leaves alone, and what it says of bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from clockseg import (
    Schedule,
    Session,
    StagedNetwork,
    UsageError,
    VideoError,
    alternating,
    frame_oracle,
    load,
    read_labels,
    read_summary,
    read_trace,
    segment,
    skip_frame,
)
from clockseg.cli.main import main
from clockseg.clocks import ALWAYS, Decision
from clockseg.clockwork.network import same
from clockseg.clockwork.trace import Record, Seconds
from clockseg.evaluation.cost import priced
from clockseg.evaluation.tally import Progress, Tally
from clockseg.segmenting.figures import Figures, confidence_of, doubt
from clockseg.video import open_clip
from clockseg.video.drawing import STRIPS
from networks import TINY, write_tiny
from video_making import picture, stream_times, write_video

SECONDS = ["decode", "stages", "clock", "motion", "fuse", "finish", "encode"]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("network"))


@pytest.fixture(scope="module")
def net(network: Path) -> StagedNetwork:
    return load(network, threads=1)


@pytest.fixture
def video(tmp_path: Path) -> Path:
    return write_video(tmp_path / "drive.mp4", [picture(64, 48, seed) for seed in range(7)])


def run(*args: object) -> int:
    return main(["segment", "--quiet", "--threads", "1", *map(str, args)])


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_labels_are_the_sessions_frame_by_frame(net, video, tmp_path) -> None:
    done = segment(video, tmp_path / "out", net, alternating)
    session = Session(net, alternating)
    expected = [session(frame.image) for frame in open_clip(video)]
    found = list(read_labels(done.folder))
    assert len(found) == 7
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_folder_holds_whole_files_only(net, video, tmp_path) -> None:
    done = segment(video, tmp_path / "out", net, alternating, write=("labels", "overlay", "trace", "png"))
    assert files(done.folder) == ["labels.mkv", "overlay.mp4", "png", "summary.json", "trace.jsonl"]
    assert files(done.folder / "png") == [f"{k:06d}.png" for k in range(7)]
    for png, labels in zip(sorted((done.folder / "png").iterdir()), read_labels(done.folder), strict=True):
        np.testing.assert_array_equal(cv2.imread(str(png), cv2.IMREAD_UNCHANGED), labels)
    assert stream_times(done.folder / "overlay.mp4") == pytest.approx(stream_times(video), abs=1e-4)


def test_the_trace_says_what_ran_and_what_it_cost(net, video, tmp_path) -> None:
    trace = read_trace(segment(video, tmp_path / "out", net, alternating).folder)
    assert [line["frame"] for line in trace] == list(range(7))
    assert [line["fired"] for line in trace] == [[True, True, k % 2 == 0] for k in range(7)]
    assert [line["fill"] for line in trace] == [True] + [False] * 6
    for line in trace:
        said = ["fill", "fired", "signal", "carried", "seconds"]
        assert list(line) == ["frame", "pts", "time_base", "pts_seconds", "size", *said]
        assert list(line["seconds"]) == SECONDS
        assert line["size"] == [64, 48]
        assert line["seconds"]["encode"] > 0 < line["seconds"]["decode"]
        assert [spent > 0 for spent in line["seconds"]["stages"]] == line["fired"]


def test_the_summary_adds_it_up(net, video, tmp_path) -> None:
    summary = read_summary(segment(video, tmp_path / "out", net, skip_frame(2), name="skip_frame(2)").folder)
    assert {k: summary[k] for k in ("input", "frames", "network_rate", "network", "schedule", "carry", "problems")} == {
        "input": "drive",
        "frames": 7,
        "network_rate": 0.5,
        "network": "tiny",
        "schedule": "skip_frame(2)",
        "carry": "identity",
        "problems": [],
    }
    assert summary["fire_rate"] == {"low": 0.5, "mid": 0.5, "deep": 0.5}
    assert summary["relative_time_estimate"] > 0
    assert summary["relative_multiply_adds"] == round(4 / 7, 4)
    assert summary["multiply_adds_per_frame"] == round(priced(net).full * 4 / 7)
    assert summary["fps"] == pytest.approx(7 / summary["wall_seconds"], rel=0.01)
    assert summary["engine"] == net.engine
    assert summary["machine"]["cores"] >= 1
    assert summary["versions"]["clockseg"]


def test_multiply_adds_of_a_short_run_count_its_first_frame(net, video, tmp_path) -> None:
    summary = read_summary(segment(video, tmp_path / "out", net, skip_frame(6), limit=3).folder)
    assert summary["network_rate"] == 0
    assert summary["relative_multiply_adds"] == round(1 / 3, 4)


def test_every_and_limit_keep_the_inputs_frame_numbers_and_times(net, video, tmp_path) -> None:
    done = segment(video, tmp_path / "out", net, alternating, every=2, limit=3)
    assert [line["frame"] for line in read_trace(done.folder)] == [0, 2, 4]
    assert stream_times(done.folder / "labels.mkv") == pytest.approx([0, 0.08, 0.16])
    assert len(list(read_labels(done.folder))) == 3
    assert done.problems == ()


def test_progress_is_told(net, video, tmp_path) -> None:
    told: list[Progress] = []
    segment(video, tmp_path / "out", net, frame_oracle, progress=told.append)
    assert [(p.done, p.expected) for p in told] == [(k, 7) for k in range(1, 8)]


def test_a_result_is_not_overwritten_unless_asked(net, video, tmp_path) -> None:
    segment(video, tmp_path / "out", net, frame_oracle, write=("labels", "png"))
    before = (tmp_path / "out" / "labels.mkv").read_bytes()
    with pytest.raises(UsageError, match="--overwrite"):
        segment(video, tmp_path / "out", net, frame_oracle, limit=2)
    assert (tmp_path / "out" / "labels.mkv").read_bytes() == before
    segment(video, tmp_path / "out", net, frame_oracle, write=("trace",), limit=2, overwrite=True)
    assert files(tmp_path / "out") == ["summary.json", "trace.jsonl"]


def test_a_failure_leaves_the_old_result_and_nothing_half_written(net, video, tmp_path) -> None:
    segment(video, tmp_path / "out", net, frame_oracle)
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}

    def stop(progress: Progress) -> None:
        if progress.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        segment(video, tmp_path / "out", net, frame_oracle, overwrite=True, progress=stop)
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    with pytest.raises(KeyboardInterrupt):
        segment(video, tmp_path / "new" / "drive", net, frame_oracle, write=("labels", "png", "trace"), progress=stop)
    assert not (tmp_path / "new").exists()


def test_a_failure_at_the_very_end_keeps_the_old_result_whole(net, video, tmp_path, monkeypatch) -> None:
    segment(video, tmp_path / "out", net, frame_oracle)
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}

    def full(self, **options) -> None:
        raise VideoError("no space left on device")

    monkeypatch.setattr("clockseg.video.OverlayWriter.close", full)
    for folder, left in (("out", before), ("new", None)):
        with pytest.raises(VideoError, match="no space"):
            segment(video, tmp_path / folder, net, frame_oracle, overwrite=True)
        path = tmp_path / folder
        assert ({p.name: p.read_bytes() for p in path.iterdir()} if path.exists() else None) == left


def test_a_result_never_goes_over_its_input(net, video, tmp_path) -> None:
    inside = tmp_path / "res" / "overlay.mp4"
    inside.parent.mkdir()
    inside.write_bytes(video.read_bytes())
    for source, folder in ((inside, inside.parent), (inside.parent, inside.parent)):
        with pytest.raises((UsageError, VideoError)):
            segment(source, folder, net, frame_oracle, overwrite=True)
    pictures = tmp_path / "clip" / "png"
    pictures.mkdir(parents=True)
    cv2.imwrite(str(pictures / "0.png"), picture(16, 16))
    with pytest.raises(UsageError, match="over its input"):
        segment(pictures, tmp_path / "clip", net, frame_oracle, overwrite=True)
    assert inside.read_bytes() == video.read_bytes()
    assert files(pictures) == ["0.png"]


def test_a_signal_that_is_no_number_is_null_in_the_trace(net, video, tmp_path) -> None:
    nan = Schedule((lambda tick: Decision(True, float("nan")), ALWAYS, lambda tick: Decision(True, np.float32(0.5))))
    trace = read_trace(segment(video, tmp_path / "out", net, nan).folder)
    assert [line["signal"] for line in trace[1:]] == [[None, None, 0.5]] * 6


@pytest.mark.parametrize("options", [{"every": 0}, {"limit": 0}, {"limit": -1}])
def test_every_and_limit_are_whole_numbers(net, video, tmp_path, options) -> None:
    with pytest.raises(UsageError, match="whole number"):
        segment(video, tmp_path / "out", net, frame_oracle, **options)


def test_a_broken_picture_leaves_a_gap_in_the_numbers(net, tmp_path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    for k in (0, 2):
        cv2.imwrite(str(folder / f"{k}.png"), picture(32, 24, k))
    (folder / "1.png").write_text("no picture")
    (folder / "thumbs.png").mkdir()
    done = segment(folder, tmp_path / "out", net, frame_oracle, write=("trace", "png"))
    assert [line["frame"] for line in read_trace(done.folder)] == [0, 2]
    assert files(done.folder / "png") == ["0.png", "2.png"]
    assert done.problems == ("1.png could not be decoded",)


def test_a_truncated_video_is_written_as_far_as_it_goes(net, tmp_path, network, capsys) -> None:
    whole = write_video(tmp_path / "whole.mkv", [picture(64, 48, seed) for seed in range(40)])
    cut = tmp_path / "cut.mkv"
    cut.write_bytes(whole.read_bytes()[: int(whole.stat().st_size * 0.6)])
    assert run(cut, "--out", tmp_path / "out", "--network", network) == 1
    assert "warning" in capsys.readouterr().err
    frames = len(list(read_labels(tmp_path / "out" / "cut")))
    assert 0 < frames < 40
    assert read_summary(tmp_path / "out" / "cut")["frames"] == frames
    assert read_summary(tmp_path / "out" / "cut")["problems"]


def test_frames_that_change_their_size(net, tmp_path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    sizes = [(64, 48), (64, 48), (40, 60), (1, 1)]
    for k, (width, height) in enumerate(sizes):
        cv2.imwrite(str(folder / f"{k}.png"), picture(width, height, k))
    done = segment(folder, tmp_path / "out", net, alternating, write=("labels", "overlay", "trace", "png"))
    trace = read_trace(done.folder)
    assert [tuple(line["size"]) for line in trace] == sizes
    assert [line["fill"] for line in trace] == [True, False, True, True]
    assert {labels.shape for labels in read_labels(done.folder)} == {(48, 64)}
    pngs = [cv2.imread(str(path), cv2.IMREAD_UNCHANGED).shape for path in sorted((done.folder / "png").iterdir())]
    assert [(w, h) for h, w in pngs] == sizes


# The command.
@pytest.mark.parametrize(("frames", "told"), [(20, False), (21, True)])
def test_time_is_estimated_from_enough_frames_only(network, tmp_path, capsys, frames: int, told: bool) -> None:
    clips = [
        write_video(tmp_path / name, [picture(64, 48, seed) for seed in range(frames)]) for name in ("a.avi", "b.avi")
    ]
    command = ["segment", *map(str, clips), "--network", str(network), "--threads", "1", "--engine", "openvino"]
    assert main([*command, "--schedule", "skip_frame(2)", "--out", str(tmp_path / "out")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("(estimated)" in line for line in lines) == told
    [header] = [number for number, line in enumerate(lines) if line.startswith("video")]
    assert all((line.count("%") == 2) == told for line in lines[header + 1 : -1])


def test_inputs_that_do_not_exist_leave_nothing_behind(network, tmp_path, capsys) -> None:
    assert run(tmp_path / "missing.mp4", "--out", tmp_path / "out", "--network", network) == 1
    assert "missing.mp4: no such file or folder" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_one_bad_input_does_not_stop_the_others(network, video, tmp_path, capsys) -> None:
    empty = tmp_path / "empty.mp4"
    empty.touch()
    code = run(empty, tmp_path / "missing.mp4", video, "--out", tmp_path / "out", "--network", network)
    assert code == 1
    told = capsys.readouterr().err
    assert "empty" in told
    assert "no such file" in told
    assert files(tmp_path / "out") == ["drive", "manifest.jsonl"]


def test_a_second_input_of_the_same_stem_gets_a_folder_of_its_own(network, video, tmp_path) -> None:
    other = tmp_path / "b"
    other.mkdir()
    again = other / "drive.mp4"
    again.write_bytes(video.read_bytes())
    assert run(video, again, "--out", tmp_path / "out", "--network", network) == 0
    assert files(tmp_path / "out") == ["drive", "drive-2", "manifest.jsonl"]


def test_a_name_that_starts_with_a_dash(network, video, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("-dash.mp4").write_bytes(video.read_bytes())
    assert run("--out", "out", "--network", network, "--", "-dash.mp4") == 0
    assert files(tmp_path / "out" / "-dash") == ["labels.mkv", "overlay.mp4", "summary.json", "trace.jsonl"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--schedule", "alternatin"], "Did you mean alternating"),
        (["--schedule", ""], "1 to 2000 characters"),
        (["--schedule", "fixed_rate((1, 2))"], "has 2 stages and the network 3"),
        (["--schedule", "adaptive(0.25, watch=3)"], "Give at most 2"),
        (["--carry", "warp9"], "carry"),
        (["--write", "labels,video"], "'video'"),
        (["--network", "streets"], "street"),
    ],
)
def test_wrong_options_are_usage_errors(network, video, tmp_path, capsys, options, message) -> None:
    assert run(video, "--out", tmp_path / "out", "--network", network, *options) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("options", [["--size", "0"], ["--every", "0"], ["--limit", "-1"], ["--engine", "tensorrt"]])
def test_wrong_options_are_told_by_argparse(network, video, tmp_path, options) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(video, "--out", tmp_path / "out", "--network", network, *options)
    assert stopped.value.code == 2


def test_an_existing_result_is_a_usage_error(network, video, tmp_path, capsys) -> None:
    assert run(video, "--out", tmp_path / "out", "--network", network) == 0
    assert run(video, "--out", tmp_path / "out", "--network", network) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert run(video, "--out", tmp_path / "out", "--network", network, "--overwrite") == 0


def test_an_output_folder_that_is_a_file(network, video, tmp_path, capsys) -> None:
    (tmp_path / "file").touch()
    assert run(video, "--out", tmp_path / "file", "--network", network) == 2
    assert "is a file; give a folder" in capsys.readouterr().err


def test_options_are_known_by_their_whole_names_alone(network, video, tmp_path, capsys) -> None:
    with pytest.raises(SystemExit):
        run(video, "--out", tmp_path / "out", "--network", network, "--overwr")
    assert "--overwr" in capsys.readouterr().err


def test_an_output_folder_that_can_not_be_made(network, video, tmp_path, capsys) -> None:
    (tmp_path / "file").touch()
    assert run(video, "--out", tmp_path / "file" / "out", "--network", network) == 1
    assert "can't be created" in capsys.readouterr().err


def test_a_network_of_too_many_classes(tmp_path, video, capsys) -> None:
    from dataclasses import replace

    many = replace(TINY, name="many", classes=tuple(f"c{k}" for k in range(256)), palette=())
    network = tmp_path / "many.onnx"
    network.write_bytes(write_tiny(tmp_path, classes=256).read_bytes())
    said = json.loads((tmp_path / "tiny.json").read_text()) | {"name": "many", "classes": list(many.classes)}
    said.pop("palette")
    network.with_suffix(".json").write_text(json.dumps(said))
    assert run(video, "--out", tmp_path / "out", "--network", network) == 1
    assert "255" in capsys.readouterr().err


def test_a_png_of_a_video_is_a_video_error(tmp_path, net) -> None:
    (tmp_path / "text.mp4").write_text("no video")
    with pytest.raises(VideoError):
        segment(tmp_path / "text.mp4", tmp_path / "out", net, frame_oracle)
    assert not (tmp_path / "out").exists()


def test_the_command_starts_in_a_blink_and_loads_nothing_heavy() -> None:
    code = (
        "import sys; from clockseg.cli.main import main\n"
        "try: main(['segment', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'cv2', 'av', 'onnx', 'openvino', 'torch', 'rich'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr
    assert "--schedule" in done.stdout


def test_only_chosen_classes_are_written(tmp_path: Path, video: Path, net: StagedNetwork) -> None:
    everything = segment(video, tmp_path / "all", net, frame_oracle)
    names = everything.summary["classes"]
    done = segment(video, tmp_path / "some", net, frame_oracle, classes=[names[0]])
    assert done.summary["only_classes"] == [names[0]]
    for labels, kept in zip(read_labels(everything.folder), read_labels(done.folder), strict=True):
        assert np.array_equal(kept, np.where(labels == 0, 0, 255))


def test_a_class_that_the_network_lacks_is_told(tmp_path: Path, video: Path, net: StagedNetwork) -> None:
    with pytest.raises(UsageError, match=r"has no class 'unicorn'\. Known: "):
        segment(video, tmp_path / "out", net, frame_oracle, classes=["unicorn"])
    assert not (tmp_path / "out").exists()


def test_rows_by_stage_are_higher_than_one_bar(tmp_path: Path, video: Path, net: StagedNetwork) -> None:
    heights = []
    for strip in STRIPS:
        segment(video, tmp_path / strip, net, frame_oracle, strip=strip, write=["overlay"])
        with open_clip(tmp_path / strip / "overlay.mp4") as clip:
            heights.append(clip.size[1])
    assert heights[0] < heights[1]
    with pytest.raises(UsageError, match="strip is 'rows'; it is one of activity, stages"):
        segment(video, tmp_path / "out", net, frame_oracle, strip="rows")


def test_a_network_out_of_its_depth_is_told(tmp_path: Path, video: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sure").mkdir()
    path = write_tiny(tmp_path / "sure")
    said = json.loads(path.with_suffix(".json").read_text())
    quiet = ("--network", path, "--schedule", "carried(skip_frame(2), interpolate(flow))", "--write", "trace")
    assert run(video, "--out", tmp_path / "before", *quiet) == 0
    assert read_summary(tmp_path / "before" / "drive")["confidence"] is None
    assert "unreliable" not in capsys.readouterr().err
    path.with_suffix(".json").write_text(json.dumps(said | {"confidence": 1.0}))
    assert run(video, "--out", tmp_path / "out", *quiet) == 0
    summary = read_summary(tmp_path / "out" / "drive")
    assert 1 / len(said["classes"]) <= summary["confidence"] < 0.8
    (text,) = summary["warnings"]
    assert text.startswith("the labels are probably unreliable: mean confidence 0.")
    assert text in capsys.readouterr().err


def test_a_warning_is_given_for_a_confidence_far_below_the_network_s_own() -> None:
    told = (
        "the labels are probably unreliable: mean confidence 0.41, compared with 0.86 on video like the training data"
    )
    assert doubt(0.41, 0.86) == told
    assert (doubt(0.8, 0.86), doubt(0.9, 0.95), doubt(None, 0.9), doubt(0.1, None)) == (None,) * 4


def test_times_are_relative_to_the_first_frame_where_all_stages_never_fire_again() -> None:
    figures = Figures(Tally(("a", "b")))
    figures = figures.add(Record(True, (True, True), (None, None), (0, 0), Seconds((2.0, 1.0), fuse=0.5)), first=True)
    figures = figures.add(
        Record(False, (True, False), (None, None), (1, 0), Seconds((1.5, 0.0), fuse=0.25)), first=False
    )
    assert figures.summary(1.0)["relative_time_estimate"] == 0.5
    assert (figures + figures).tally.frames == 4


def test_confidence_is_the_mean_of_the_largest_probability(net: StagedNetwork) -> None:
    image = picture(64, 48)
    fused = replace(net, finish=net.fused, restore=same)(image)
    scores = next(iter(fused.values()))
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    assert confidence_of(fused) == pytest.approx(float(shares.max(axis=1).mean()), abs=1e-5)
