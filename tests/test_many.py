"""Many videos: inputs, pieces, jobs, the manifest, and going on where a run stopped."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from fractions import Fraction
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from clockseg import Session, UsageError, alternating, load, read_labels, read_summary, read_trace, segment
from clockseg.cli.main import main
from clockseg.cli.segment import moment
from clockseg.evaluation.tally import Progress, Tally
from clockseg.segmenting.figures import Figures, PieceResult, elapsed
from clockseg.segmenting.inputs import Input, inputs
from clockseg.segmenting.manifest import Entry, manifest, read, read_line
from clockseg.segmenting.results import ResultFolder
from clockseg.segmenting.segmentation import ClipRun
from clockseg.segmenting.work import Piece, Planned
from clockseg.segmenting.workers import Pool, Process, WorkerLost
from clockseg.video import boundaries, open_clip
from long_videos import FRAMES, different, long_videos
from networks import write_tiny
from video_making import picture, stream_times, write_video

SCHEDULES = ("adaptive(0.05)", "carried(skip_frame(7), interpolate(flow))")
"""One that answers at once and one that answers late; the interval of 7 does not divide the length of a piece."""


@pytest.fixture(scope="module")
def videos(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    long_videos(folder, 3)
    return folder


@pytest.fixture(scope="module")
def network(tmp_path_factory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("network"))


@pytest.fixture
def net(network):
    return load(network, engine="openvino", threads=1)


def options(network: Path, out: Path, *more: str) -> list[str]:
    given = ["--quiet", "--engine", "openvino", "--schedule", "adaptive(0.05)", "--network", str(network)]
    return [*given, "--out", str(out), *more]


def run(*args: object) -> int:
    return main(["segment", *map(str, args)])


# What an input may be.
def test_a_folder_stands_for_the_videos_in_it_and_their_places_are_kept(tmp_path) -> None:
    for name in (
        "b10.mp4",
        "b9.MKV",
        "cam/a.mp4",
        "cam/a.avi",
        ".hidden.mp4",
        ".cache/x.mp4",
        "notes.txt",
        "thumb.jpg",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = inputs([tmp_path])
    assert [str(one.folder) for one in found] == ["b9", "b10", "cam/a", "cam/a-2"]
    assert [Path(one.source).name for one in found] == ["b9.MKV", "b10.mp4", "a.avi", "a.mp4"]


def test_a_pattern_a_list_and_what_is_named_twice(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("c/1.mp4", "c/2.mp4", "odd [1].mp4"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    Path("list").write_bytes(b"# mine\n\nc/2.mp4\r\nodd [1].mp4\n")
    assert [one.source for one in inputs(["**/*.mp4", "@list", "odd [1].mp4"])] == ["c/1.mp4", "c/2.mp4", "odd [1].mp4"]
    with pytest.raises(UsageError, match="no input matches"):
        inputs(["*.mov"])
    with pytest.raises(UsageError, match="cannot be read"):
        inputs(["@none"])
    Path("list").write_text("# nothing\n")
    with pytest.raises(UsageError, match="no path in it"):
        inputs(["@list"])


@pytest.mark.parametrize(
    "name", ["...mp4", ".part.mp4", "png.mp4", "a\nb.mp4", "a\\b.mp4", "é" * 120 + ".mp4", " .mp4"]
)
def test_no_name_leads_out_of_the_output_folder_or_hides_in_it(name) -> None:
    [one] = inputs([name])
    assert len(one.folder.parts) == 1
    assert one.folder.name not in ("", ".", "..", "png")
    assert not one.folder.name.startswith(".")
    assert len(os.fsencode(one.folder.name)) <= 160
    assert "\n" not in one.folder.name


@pytest.mark.slow
@pytest.mark.parametrize("text", ["1:99", "-1", "x", "1:2:3:4", "", "1e9"])
def test_what_is_no_time_is_refused(text, network, videos, tmp_path) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(videos, "--start", text, *options(network, tmp_path))
    assert moment("1:02:03.5") == Fraction(7447, 2)


# Pieces.
@pytest.mark.slow
def test_a_long_video_is_cut_at_key_frames_a_minute_apart(videos) -> None:
    assert [[round(at) for at in boundaries(path)] for path in sorted(videos.iterdir())] == [
        [60, 120],
        [66, 132],
        [60, 120],
    ]
    first = sorted(videos.iterdir())[0]
    assert [float(at) for at in boundaries(first, start=Fraction(30), end=Fraction(121))] == [100]


def test_a_short_video_and_one_whose_times_go_back_are_one_piece(tmp_path) -> None:
    short = write_video(tmp_path / "short.mp4", [picture(32, 24, k) for k in range(9)])
    assert boundaries(short) == ()
    assert boundaries(tmp_path / "missing.mp4") == ()
    (tmp_path / "raw.h264").write_bytes(b"\0\0\1\x67 no video")
    assert boundaries(tmp_path / "raw.h264") == ()


def test_each_piece_is_a_session_of_its_own(net, videos, tmp_path) -> None:
    path = videos / "video0.mp4"
    done = segment(path, tmp_path / "out", net, alternating)
    expected = []
    for frame in open_clip(path):
        if frame.index % 60 == 0:
            session = Session(net, alternating)
        expected.append(session(frame.image))
    found = list(read_labels(done.folder))
    assert len(found) == len(expected) == FRAMES
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    trace, summary = read_trace(done.folder), read_summary(done.folder)
    assert [line["frame"] for line in trace] == list(range(FRAMES))
    assert [line["frame"] for line in trace if line["fill"]] == summary["starts"] == [0, 60, 120]
    assert summary["fire_rate"]["deep"] == sum(line["fired"][2] for line in trace if not line["fill"]) / (FRAMES - 3)
    assert summary["source"] == str(path)
    for name in ("labels.mkv", "overlay.mp4"):
        assert stream_times(done.folder / name) == pytest.approx(stream_times(path), abs=1e-3)


def test_pictures_are_numbered_through(net, videos, tmp_path) -> None:
    done = segment(videos / "video0.mp4", tmp_path / "out", net, alternating, write=["png", "trace"], every=7)
    names = sorted(path.stem for path in (done.folder / "png").iterdir())
    trace = [line["frame"] for line in read_trace(done.folder)]
    assert names == [f"{frame:06d}" for frame in trace]
    assert trace[:10] == [0, 7, 14, 21, 28, 35, 42, 49, 56, 60]


@pytest.mark.slow
def test_a_limit_ends_in_whatever_piece_it_falls(net, videos, tmp_path) -> None:
    done = segment(videos / "video0.mp4", tmp_path / "out", net, alternating, limit=70)
    whole = segment(videos / "video0.mp4", tmp_path / "whole", net, alternating)
    assert done.summary["frames"] == 70
    pairs = zip(read_labels(done.folder), islice(read_labels(whole.folder), 70), strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)


def test_a_part_of_a_video_begins_at_its_start(net, videos, tmp_path) -> None:
    path = videos / "video0.mp4"
    done = segment(path, tmp_path / "out", net, alternating, start_seconds=30, end_seconds=125)
    assert [line["pts_seconds"] for line in read_trace(done.folder)] == list(range(30, 125))
    assert done.summary["starts"] == [0, 70]
    assert stream_times(done.folder / "labels.mkv")[0] == 30
    assert stream_times(done.folder / "overlay.mp4") == list(range(95))
    with pytest.raises(UsageError, match="is empty"):
        segment(path, tmp_path / "no", net, alternating, start_seconds=30, end_seconds=30)


# Jobs.
@pytest.mark.slow
def test_two_jobs_give_the_bytes_of_one(network, videos, tmp_path) -> None:
    assert run(videos, *options(network, tmp_path / "one")) == 0
    assert run(videos, *options(network, tmp_path / "two", "--jobs", "2")) == 0
    assert not different(tmp_path / "one", tmp_path / "two")
    assert len(list((tmp_path / "two").glob("*/overlay.mp4"))) == 3
    assert {entry.state for entry in read(tmp_path / "two").values()} == {"done"}


@pytest.mark.slow
def test_a_video_that_fails_does_not_stop_the_others(network, videos, tmp_path, capsys) -> None:
    (tmp_path / "bad.mp4").write_bytes(b"no video")
    out = tmp_path / "out"
    given = [network, out, "--jobs", "2"]
    assert run(tmp_path / "bad.mp4", videos / "video0.mp4", *options(*given)) == 1
    assert "bad.mp4" in capsys.readouterr().err
    states = {Path(entry.input).name: (entry.state, entry.frames) for entry in dict(read(out)).values()}
    assert states == {"bad.mp4": ("failed", None), "video0.mp4": ("done", FRAMES)}
    # Mended, it is made up for, and nothing else is done again.
    (tmp_path / "bad.mp4").write_bytes((videos / "video2.avi").read_bytes())
    before = (out / "video0" / "labels.mkv").stat().st_mtime_ns
    assert run(tmp_path / "bad.mp4", videos / "video0.mp4", *options(*given, "--resume")) == 0
    assert (out / "video0" / "labels.mkv").stat().st_mtime_ns == before
    assert read_summary(out / "bad")["frames"] == FRAMES


def _die(work: object, on_progress: object, *, times: int, folder: Path) -> str:
    """End the process, the first times that it is called."""
    before = len(list(folder.iterdir()))
    if before < times:
        (folder / str(before)).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return f"alive after {before}"


def _nothing() -> None:
    return None


@pytest.fixture
def pool():
    workers = Pool(partial(Process, _nothing), 1)
    yield workers
    workers.close()


def test_a_worker_that_dies_is_replaced_and_its_step_tried_three_times(pool, tmp_path) -> None:
    (tmp_path / "two").mkdir()
    (tmp_path / "more").mkdir()
    twice = pool.submit(partial(_die, times=2, folder=tmp_path / "two"), print)
    more = pool.submit(partial(_die, times=4, folder=tmp_path / "more"), print)
    assert twice.result() == "alive after 2"
    with pytest.raises(WorkerLost, match="SIGKILL"):
        more.result()
    assert pool.submit(partial(_die, times=3, folder=tmp_path / "more"), print).result() == "alive after 3"


@pytest.fixture
def children():
    """The processes started since: those of tests before may still be ending."""
    before = multiprocessing.active_children()
    return lambda: [child for child in multiprocessing.active_children() if child not in before]


def test_closing_the_pool_ends_a_step_that_is_running(children, pool) -> None:
    step = pool.submit(_sleep, print)
    pool.close()
    assert isinstance(step.exception(), WorkerLost)
    assert not children()


def _sleep(work: object, on_progress: object) -> None:
    time.sleep(60)


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_ctrl_c_does_not_reach_a_worker_that_is_starting(children, pool, tmp_path) -> None:
    """It goes to all processes of a terminal; a worker that is importing would end with a traceback."""
    [child] = children()
    os.kill(child.pid, signal.SIGINT)
    assert pool.submit(partial(_die, times=0, folder=tmp_path), print).result() == "alive after 0"
    assert children() == [child]


def test_the_seconds_of_pieces_that_run_at_once_count_once() -> None:
    """Otherwise a run with two jobs, or one that is resumed with them, would have half of its frames per second."""
    figures = Figures(Tally(("a",)))
    spans = [(0, 10), (2, 8), (5, 14), (100, 101), (101, 103)]
    results = [PieceResult(figures, wall_seconds=end - start, ended_at=end) for start, end in spans]
    assert elapsed(results) == elapsed(reversed(results)) == 14 + 3
    assert elapsed([]) == 0


# Going on.
@pytest.mark.slow
def test_an_interrupted_run_keeps_the_pieces_that_are_whole(network, videos, tmp_path, monkeypatch, capsys) -> None:
    video, out = videos / "video0.mp4", tmp_path / "out"
    assert run(video, *options(network, tmp_path / "undisturbed")) == 0

    def stop(self, source: str, progress: Progress) -> None:
        if progress.done == 90 and (out / "video0" / ".part" / "000000").exists():
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("clockseg.cli.terminal.Watch.update", stop)
        assert run(video, *options(network, out)) == 130
    assert "--resume" in capsys.readouterr().err
    [entry] = read(out).values()
    assert (entry.state, entry.pieces, entry.whole) == ("waiting", 3, 1)
    assert [path.name for path in (out / "video0").iterdir()] == [".part"]
    kept = (out / "video0" / ".part" / "000000" / "labels.mkv").stat().st_ino
    assert run(video, *options(network, out)) == 2
    assert "--resume" in capsys.readouterr().err
    ran = []
    with monkeypatch.context() as patched:
        patched.setattr("clockseg.cli.terminal.Watch.update", lambda self, source, now: ran.append(now))
        assert run(video, *options(network, out, "--resume")) == 0
    assert len(ran) == FRAMES - 60
    assert kept
    assert not different(tmp_path / "undisturbed", out)
    assert sorted(path.name for path in (out / "video0").iterdir()) == sorted(
        ["labels.mkv", "overlay.mp4", "summary.json", "trace.jsonl"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_killed_at_any_moment_and_resumed_nothing_is_lost(network, videos, tmp_path, schedule) -> None:
    assert run(videos, *options(network, tmp_path / "undisturbed", "--schedule", schedule)) == 0
    command = [
        sys.executable,
        "-m",
        "clockseg",
        "segment",
        str(videos),
        *options(network, tmp_path / "out", "--schedule", schedule, "--jobs", "2", "--resume"),
    ]
    process = subprocess.Popen(command)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("out/*/.part/000000")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert main(command[3:]) == 0
    assert not different(tmp_path / "undisturbed", tmp_path / "out")


def test_without_resume_what_is_done_is_refused_and_stays_known(network, videos, tmp_path, capsys) -> None:
    given = [videos / "video0.mp4", videos / "video2.avi", *options(network, tmp_path, "--limit", "9")]
    assert run(*given) == 0
    known = dict(read(tmp_path))
    assert [(entry.state, entry.pieces, entry.whole) for entry in known.values()] == [("done", 1, 1)] * 2
    assert run(*given) == 1
    assert capsys.readouterr().err.count("--resume to keep what is complete") == 2
    assert dict(read(tmp_path)) == known
    before = [path.stat().st_mtime_ns for path in sorted(tmp_path.glob("*/labels.mkv"))]
    assert run(*given, "--resume") == 0
    assert [path.stat().st_mtime_ns for path in sorted(tmp_path.glob("*/labels.mkv"))] == before


def test_progress_is_of_the_whole_clip_whichever_piece_tells(tmp_path) -> None:
    pieces = (Piece(0, None, Fraction(60)), Piece(1, Fraction(60), None))
    planned = Planned(tmp_path, ResultFolder(tmp_path), pieces, expected=90)
    clip = ClipRun(Input("clip.mp4", Path("clip")), tmp_path, planned=planned, waiting=list(pieces))
    steps = clip.next_step(), clip.next_step()

    def tally(frames: int) -> Tally:
        return Tally(("one",), frames=frames)

    told: list[Progress] = []
    watched = [clip.watched(step, told.append) for step in steps]
    for number, frames in ((0, 20), (1, 3), (0, 40), (1, 30)):
        watched[number](Progress("clip", frames, 50, tally(frames)))
    assert [now.done for now in told] == [20, 23, 43, 70]
    clip.settle(steps[0], PieceResult(Figures(tally(42))))
    watched[1](Progress("clip", 31, 50, tally(31)))
    assert told[-1][1:] == (73, 90, tally(73))


def test_an_input_that_is_another_now_is_done_again(network, videos, tmp_path) -> None:
    video = tmp_path / "video.mp4"
    video.write_bytes((videos / "video0.mp4").read_bytes())
    assert run(video, *options(network, tmp_path / "out", "--limit", "9")) == 0
    before = (tmp_path / "out" / "video" / "labels.mkv").read_bytes()
    video.write_bytes((videos / "video1.mkv").read_bytes())
    assert run(video, *options(network, tmp_path / "out", "--limit", "9", "--resume")) == 0
    assert (tmp_path / "out" / "video" / "labels.mkv").read_bytes() != before


@pytest.mark.slow
def test_a_run_of_another_setting_is_not_gone_on_with(network, videos, tmp_path, capsys) -> None:
    video = videos / "video2.avi"
    assert run(video, *options(network, tmp_path)) == 0
    assert run(video, *options(network, tmp_path, "--resume", "--every", "2")) == 2
    assert "every 1 there, 2 now" in capsys.readouterr().err
    assert run(video, *options(network, tmp_path, "--resume")) == 0
    assert run(video, *options(network, tmp_path, "--overwrite", "--every", "2")) == 0
    assert read_summary(tmp_path / "video2")["frames"] == FRAMES // 2


# The manifest.
def test_a_line_that_was_cut_off_and_one_that_leads_elsewhere_do_not_count(tmp_path) -> None:
    with manifest(tmp_path) as known:
        known.put(Entry("/a.mp4", "a"))
        known.put(Entry("/a.mp4", "a", "done", frames=2))
    path = tmp_path / "manifest.jsonl"
    assert len(path.read_text().splitlines()) == 1
    path.write_text(path.read_text() + Entry("/b.mp4", "../b").line() + '\n{"input": "/c.mp4", "fol')
    assert [(entry.input, entry.state) for entry in read(tmp_path).values()] == [("/a.mp4", "done")]
    assert read_line(json.dumps([1])) is None
    assert read_line('{"input": 3, "folder": "a"}') is None


def test_two_runs_do_not_write_into_one_folder(tmp_path) -> None:
    with manifest(tmp_path), pytest.raises(UsageError, match="another run"), manifest(tmp_path):
        pass


def test_a_forked_process_does_not_keep_the_folder_locked(tmp_path: Path) -> None:
    end = multiprocessing.get_context("fork").Event()
    with manifest(tmp_path):
        child = multiprocessing.get_context("fork").Process(target=end.wait)
        child.start()
    try:
        with manifest(tmp_path):
            assert child.is_alive()
    finally:
        end.set()
        child.join()


def test_a_folder_is_locked_while_a_run_writes_there(tmp_path: Path) -> None:
    with manifest(tmp_path), pytest.raises(UsageError, match="another run is writing there"), manifest(tmp_path):
        pass
