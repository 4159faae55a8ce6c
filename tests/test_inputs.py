"""The inputs of ``segment``: which files of folders, patterns and lists are taken, and under which names."""

from __future__ import annotations

import json
import os
import socket
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from clockseg import read_summary
from clockseg.cli.main import main
from clockseg.files import from_printable
from clockseg.segmenting.inputs import inputs
from clockseg.segmenting.results import folder_name
from clockseg.video import boundaries, open_clip
from networks import write_tiny
from video_making import picture, write_video


@pytest.fixture
def network(tmp_path: Path) -> Path:
    folder = tmp_path / "network"
    folder.mkdir()
    return write_tiny(folder)


@pytest.fixture
def video(tmp_path: Path) -> Path:
    return write_video(tmp_path / "v.mp4", [picture(32, 16, seed=seed) for seed in range(3)])


def segment(network: Path, *args: object) -> int:
    options = ["--quiet", "--threads", "1", "--network", str(network), "--write", "labels,overlay"]
    return main(["segment", *options, *map(str, args)])


def made(*files: Path) -> None:
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


def names(*given: object, told: list[str] | None = None) -> list[str]:
    found = inputs([str(one) for one in given], warn=lambda text: None if told is None else told.append(text))
    return [Path(one.source).name for one in found]


@pytest.mark.parametrize("out", ["in/results", "in", "in/cam/out"])
@pytest.mark.parametrize("given", ["in", "in/**/*.m*"])
def test_results_inside_the_input_folder_are_not_segmented_again(network, video, tmp_path, monkeypatch, out, given):
    monkeypatch.chdir(tmp_path)
    made(tmp_path / "in" / "cam" / "notes.txt")
    (tmp_path / "in" / "v.mp4").write_bytes(video.read_bytes())
    for _ in range(2):
        assert segment(network, given, "--out", out, "--resume") == 0
    assert len(list(tmp_path.glob("in/**/summary.json"))) == 1


def test_nor_is_a_result_that_a_killed_run_left(tmp_path):
    made(tmp_path / "v.mp4", tmp_path / "r" / "overlay.mp4", tmp_path / "r" / ".part" / "job.json")
    assert names(tmp_path) == ["v.mp4"]


def test_files_of_those_names_that_are_no_result_are_taken(tmp_path):
    made(tmp_path / "overlay.mp4", tmp_path / "png" / "labels.mkv")
    (tmp_path / "summary.json").write_text("[1]")
    assert names(tmp_path) == ["overlay.mp4", "labels.mkv"]


def test_linked_folders_are_followed_but_not_in_circles(tmp_path):
    made(tmp_path / "real" / "b.mp4", tmp_path / "in" / "a.mp4")
    (tmp_path / "in" / "cam2").symlink_to("../real")
    (tmp_path / "in" / "all").symlink_to("..")
    (tmp_path / "real" / "back").symlink_to("../in")
    assert [str(one.folder) for one in inputs([tmp_path / "in"])] == ["a", "cam2/b"]


def test_a_file_that_is_given_twice_is_segmented_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made(Path("d/a.mp4"))
    Path("link.mp4").symlink_to("d/a.mp4")
    told: list[str] = []
    assert names("d/a.mp4", "./d/a.mp4", tmp_path / "d/a.mp4", "d", "d/../d/*.mp4", told=told) == ["a.mp4"]
    assert not told
    assert names("d", "link.mp4", told=told) == ["a.mp4"]
    assert told == ["link.mp4 is the same file as d/a.mp4, so it is segmented once."]


@pytest.mark.parametrize(
    ("files", "taken", "message"),
    [
        (["m.gif", "1.png", "2.avif"], ["m.gif"], "media files left out: 2, such as 1.png. "),
        (["1.png", "b.HEIC"], ["IN"], "media files left out: 1, such as b.HEIC. "),
        (["1.png", "more/2.png"], ["IN"], "media files left out: 1, such as more/2.png. "),
        (["v.mp4", *(f"{n}.jpg" for n in range(5))], ["v.mp4"], "media files left out: 5, such as 0.jpg. "),
        (["v.mp4", "notes.txt", "v.srt", ".1.png"], ["v.mp4"], None),
        (["1.png", "2.tga", "3.jp2", "notes.txt"], ["IN"], None),
    ],
)
def test_media_that_are_left_out_are_named(tmp_path, files, taken, message):
    made(*(tmp_path / "IN" / file for file in files))
    told: list[str] = []
    assert names(tmp_path / "IN", told=told) == taken
    assert len(told) == (message is not None)
    assert message is None or message in told[0]


def test_a_folder_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    made(tmp_path / "v.mp4", tmp_path / "closed" / "w.mp4")
    scandir = os.scandir

    def refusing(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    told: list[str] = []
    assert names(tmp_path, told=told) == ["v.mp4"]
    assert "closed: this folder is left out, because it cannot be read (Permission denied)" in told[0]


@pytest.mark.parametrize("kind", ["pipe", "socket", "link"])
def test_what_is_no_file_does_not_stop_the_others(network, video, tmp_path, capsys, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "in"
    folder.mkdir()
    video.rename(folder / "b.mp4")
    odd = folder / "a.mp4"
    if kind == "pipe":
        os.mkfifo(odd)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind("in/a.mp4")
    else:
        odd.symlink_to("nowhere")
    assert segment(network, folder, "--out", tmp_path / "out") == 1
    words = "no such file" if kind == "link" else "which can be read only once"
    assert words in capsys.readouterr().err
    assert read_summary(tmp_path / "out" / "b")["frames"] == 3


def test_nor_among_pictures(network, tmp_path, capsys):
    from clockseg.video import write_png

    folder = tmp_path / "in"
    folder.mkdir()
    write_png(np.zeros((16, 16), np.uint8), folder / "a.png")
    os.mkfifo(folder / "b.png")
    (folder / "c.png").symlink_to("nowhere")
    with open_clip(folder) as clip:
        assert [frame.index for frame in clip] == [0]
        assert clip.problems == ("b.png could not be decoded", "c.png could not be decoded")


@pytest.mark.parametrize("name", ["日" * 80, "é" * 127, "a" + "😀" * 50, "x" * 200, "e\u0301" * 60])
def test_long_names_are_cut_between_characters(name):
    cut = folder_name(name)
    assert name.startswith(cut)
    assert 150 < len(cut.encode()) <= 160


def test_a_name_that_is_not_utf_8(network, video, tmp_path):
    """Its result has a name of UTF-8, all JSON is free of lone surrogates, and a later run knows it again."""
    folder = tmp_path / "in"
    folder.mkdir()
    odd = folder / os.fsdecode(b"caf\xe9.mp4")
    try:
        video.rename(odd)
    except OSError:
        pytest.skip("this file system takes no such name")
    out = tmp_path / "out"
    assert segment(network, folder, "--out", out) == 0
    (result,) = out.glob("*/summary.json")
    assert result.parent.name == "caf_"
    lines = (out / "manifest.jsonl").read_text().splitlines()
    written = [json.loads(lines[-1])["input"], json.loads(result.read_text())["source"]]
    assert [from_printable(text) for text in written] == [str(odd)] * 2
    assert all(text.isprintable() and text.encode() for text in written)
    before = result.stat().st_mtime_ns
    assert segment(network, folder, "--out", out, "--resume") == 0
    assert result.stat().st_mtime_ns == before


def sparse(path: Path, seconds: list[float]) -> Path:
    """Write a video of key frames at these times."""
    with av.open(str(path), "w", format="mpegts") as output:
        stream = output.add_stream("mpeg2video", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 25)
        stream.gop_size, stream.max_b_frames = 1, 0
        for number, time in enumerate(seconds):
            frame = av.VideoFrame.from_ndarray(picture(64, 48, seed=number), format="rgb24")
            frame.pts, frame.time_base = round(time * 25), Fraction(1, 25)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return path


@pytest.mark.parametrize(
    ("start", "end", "frames"), [("0", None, 20), ("10", None, 20), ("62.1", "400", 17), ("100", None, 10)]
)
def test_a_start_before_the_first_frame_or_in_a_gap_is_no_loss(network, tmp_path, start, end, frames):
    path = sparse(tmp_path / "late.ts", [at + step / 5 for at in (61.4, 300.4) for step in range(10)])
    options = ["--start", start] + ([] if end is None else ["--end", end])
    with av.open(str(path)) as container:
        offset = float(container.streams.video[0].start_time * container.streams.video[0].time_base) - 61.4
    assert abs(offset) < 2
    assert segment(network, path, "--out", tmp_path / "out", *options) == 0
    summary = read_summary(tmp_path / "out" / "late")
    assert summary["problems"] == []
    assert abs(summary["frames"] - frames) <= 5 * abs(offset) + 1


def test_a_start_after_the_last_frame_is_told(network, tmp_path, capsys):
    path = sparse(tmp_path / "v.ts", [61.4, 61.6, 125.0])
    assert segment(network, path, "--out", tmp_path / "out", "--start", "500") == 1
    assert "no frame in it from 500 s" in capsys.readouterr().err


def test_the_first_piece_begins_where_the_video_does(tmp_path):
    path = sparse(tmp_path / "v.ts", [61.4 + step for step in range(70)])
    assert len(boundaries(path, start=Fraction(0))) == len(boundaries(path)) == 1


def test_an_input_that_is_no_video_is_told_before_the_network_is_read(tmp_path, capsys):
    made(tmp_path / "broken.onnx")
    (tmp_path / "a.txt").write_text("no video")
    assert segment(tmp_path / "broken.onnx", tmp_path / "a.txt", "--out", tmp_path / "out") == 1
    assert "a.txt: not a video" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
