"""Live runs: real sources through small networks, and the command."""

from __future__ import annotations

import http.server
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from clockseg import (
    NetworkError,
    UsageError,
    carried,
    frame_oracle,
    load,
    parse_schedule,
    read_labels,
    read_summary,
    read_trace,
    skip_frame,
)
from clockseg.carry import Flow, Interpolate, parse_carry
from clockseg.cli.live import table
from clockseg.clockwork.schedule import schedule_for
from clockseg.live import Until, live
from clockseg.live.channel import Channel
from clockseg.live.feed import Feed
from clockseg.live.run import LiveResult
from clockseg.live.sources import Arrived, source
from clockseg.video import Frame
from networks import write_tiny
from signalling import as_in_a_terminal
from toy_networks import toy
from video_making import picture, write_video


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half a second of video, 30 frames at 60 a second."""
    folder = tmp_path_factory.mktemp("live")
    images = [np.roll(picture(64, 48), 3 * index, axis=1) for index in range(30)]
    return write_video(folder / "drive.mp4", images, fps=60, bf="0", g="10")


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seconds of video."""
    images = [np.roll(picture(64, 48), 3 * index, axis=1) for index in range(75)]
    return write_video(tmp_path_factory.mktemp("slow") / "slow.mp4", images, fps=25, bf="0", g="10")


def sent(video: Path, format: str = "mpegts") -> bytes:
    """What a producer sends of a video."""
    made = video.with_suffix(f".{format}")
    if not made.exists():
        with av.open(str(video)) as given, av.open(str(made), "w", format=format) as output:
            stream = output.add_stream_from_template(given.streams.video[0])
            for packet in given.demux(given.streams.video[0]):
                if packet.dts is not None:
                    packet.stream = stream
                    output.mux_one(packet)
    return made.read_bytes()


class TestChannel:
    """One source's way through the network, in virtual time."""

    @staticmethod
    def channel(now: list[float], schedule: str = "skip_frame(2)", lookahead: int = 0) -> Channel:
        changed, net = threading.Condition(), toy()
        return Channel(
            source("rtsp://cam/1"),
            Feed(lambda pause, ready: pytest.fail("not to be opened"), "latest", latency_seconds=0.1, changed=changed),
            net,
            lambda channel: schedule_for(parse_schedule(schedule), len(net)),
            began=0.0,
            lookahead=lookahead,
            now=lambda: now[0],
        )

    @staticmethod
    def at(index: int, seconds: float, connection: int = 0, width: int = 6) -> Arrived:
        return Arrived(Frame(index, np.full((4, width, 3), 40, np.uint8)), seconds, connection)

    def step(self, channel: Channel, now: list[float], one: Arrived) -> Any:
        channel.feed.put(one)
        now[0] = one.seconds + 0.02
        [shown] = channel.step()
        return shown

    def test_what_waits_for_the_compiler_is_no_latency_and_no_drop(self) -> None:
        now = [0.0]
        channel = self.channel(now)
        for index in range(4):
            channel.feed.put(self.at(index, index / 30))
        now[0] = 2.0
        [shown] = channel.step()
        assert (shown.frame.index, shown.latency_seconds, shown.dropped) == (3, None, 0)
        assert (channel.dropped, channel.skipped, len(channel.latencies)) == (0, 3, 0)
        later = self.step(channel, now, self.at(4, 2.0))
        assert (later.latency_seconds, later.dropped) == (pytest.approx(0.02), 0)

    def test_a_new_connection_and_a_gap_refill(self) -> None:
        now = [0.0]
        channel = self.channel(now)
        times = [(0, 0.0, 0), (1, 0.03, 0), (0, 0.06, 1), (1, 0.09, 1), (2, 5.0, 1)]
        fills = [self.step(channel, now, self.at(*one)).record.fill for one in times]
        assert fills == [True, False, True, False, True]
        assert channel.gaps == 2
        assert channel.figures.tally.frames == 5

    def test_frames_that_were_dropped_are_no_gap(self) -> None:
        now = [0.0]
        channel = self.channel(now)
        fills = [self.step(channel, now, self.at(index, index / 30)).record.fill for index in (0, 1, 150)]
        assert (fills, channel.gaps) == ([True, False, False], 0)

    def test_another_size_refills_and_its_compiling_does_not_count(self) -> None:
        now = [0.0]
        channel = self.channel(now)
        widths = [(0, 6), (1, 6), (2, 8), (3, 8)]
        shown = [self.step(channel, now, self.at(index, index / 30, 0, width)) for index, width in widths]
        assert [one.record.fill for one in shown] == [True, False, True, False]
        assert [one.latency_seconds is None for one in shown] == [True, False, True, False]

    def test_frames_that_wait_for_a_key_frame_come_before_those_of_another_size_or_after_a_gap(self) -> None:
        now = [0.0]
        channel = self.channel(now, "carried(skip_frame(8), interpolate(flow))", lookahead=8)
        frames = [(0, 0.0, 6), (1, 0.03, 6), (2, 0.06, 8), (3, 0.09, 8), (4, 5.0, 8), (5, 5.03, 6)]
        shown = []
        for index, seconds, width in frames:
            channel.feed.put(self.at(index, seconds, 0, width))
            now[0] = seconds + 0.02
            shown += channel.step()
        shown += channel.end()
        assert [one.frame.index for one in shown] == [0, 1, 2, 3, 4, 5]
        assert [one.output.shape[1] for one in shown] == [6, 6, 8, 8, 8, 6]
        assert channel.figures.tally.frames == 6

    def test_the_rate_is_that_of_frames_that_come_dropped_ones_too(self) -> None:
        now = [0.0]
        channel = self.channel(now)
        for index in range(0, 300, 3):
            self.step(channel, now, self.at(index, index / 50))
        assert channel.fps == pytest.approx(50, rel=0.01)

    def test_times_are_those_of_the_run(self) -> None:
        now = [0.0]
        shown = self.step(self.channel(now), now, self.at(0, 1.25))
        assert shown.frame.pts_seconds == 1.25


class TestLive:
    """``live`` on files."""

    def test_a_frame_that_can_not_be_run_ends_its_source_alone(self, drive: Path, tmp_path: Path) -> None:
        small = write_video(tmp_path / "small.mp4", [picture(16, 16)] * 10, codec="mpeg4")

        def prepare(image: Any) -> Any:
            if image.shape[1] < 32:
                raise NetworkError("too small")
            return toy().prepare(image)

        found = live(replace(toy(), prepare=prepare), [str(small), str(drive)], frame_oracle, drop="all")
        assert [str(one.error) for one in found] == ["too small", "None"]
        assert [one.summary["frames"] for one in found] == [0, 30]

    def test_a_file_is_played_at_its_own_speed(self, drive: Path) -> None:
        begun = time.perf_counter()
        [one] = live(toy(), [str(drive)], frame_oracle)
        assert time.perf_counter() - begun > 29 / 60
        assert one.error is None
        told = one.summary["live"]
        assert one.summary["frames"] + told["dropped"] == told["arrived"] == 30
        assert told["skipped_at_start"] == 0

    def test_all_runs_every_frame_and_labels_are_those_of_the_session(self, drive: Path, tmp_path: Path) -> None:
        net = load(write_tiny(tmp_path))
        seen: list[Any] = []
        [one] = live(
            net,
            [str(drive)],
            frame_oracle,
            drop="all",
            out=tmp_path / "out",
            write=["labels", "overlay"],
            on_frame=lambda number, channel, shown: seen.append((shown.frame.image, shown.output)),
        )
        assert one.folder == tmp_path / "out" / "drive"
        labels = list(read_labels(one.folder))
        assert len(labels) == len(seen) == 30
        assert all(np.array_equal(found, net(image)) for found, (image, _) in zip(labels, seen))
        assert (one.folder / "overlay.mp4").exists()
        assert [line["frame"] for line in read_trace(one.folder)] == list(range(30))
        assert read_summary(one.folder)["live"]["dropped"] == 0
        assert not list(one.folder.glob(".*"))

    def test_on_time_is_the_default(self, drive: Path, tmp_path: Path) -> None:
        [one] = live(load(write_tiny(tmp_path)), [str(drive)], drop="all")
        assert (one.summary["schedule"], one.summary["carry"]) == ("on time", "warp(flow)")
        assert one.summary["frames"] == 30

    def test_several_sources_and_a_bad_one(self, drive: Path, tmp_path: Path) -> None:
        told: list[tuple[str, str]] = []
        found = live(
            toy(),
            [str(drive), str(tmp_path / "none.mp4"), str(drive)],
            frame_oracle,
            out=tmp_path / "out",
            on_message=lambda one, sentence: told.append((one.name, sentence)),
        )
        assert [one.error is None for one in found] == [True, False, True]
        assert str(found[1].error).startswith(
            f"{tmp_path / 'none.mp4'}: no such file. Give a video file, - for a pipe, a camera"
        )
        assert [one.folder and one.folder.name for one in found] == ["drive", None, "drive-2"]
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["drive", "drive-2"]

    def test_ends(self, drive: Path) -> None:
        [one] = live(toy(), [str(drive)], frame_oracle, drop="all", until=Until(frames=3))
        assert one.summary["frames"] == 3
        [one] = live(toy(), [str(drive)], frame_oracle, until=Until(seconds=0.1))
        assert one.summary["frames"] < 30
        [one] = live(toy(), [str(drive)], frame_oracle, until=Until(stop=lambda: True))
        assert one.summary["frames"] == 0

    def test_seconds_count_from_the_first_frame(self, drive: Path) -> None:
        net = toy()

        def prepare(image: Any) -> Any:
            if not prepared:
                time.sleep(0.5)
            prepared.append(image)
            return net.prepare(image)

        prepared: list[Any] = []
        slow = replace(net, prepare=prepare)
        [one] = live(slow, [str(drive)], frame_oracle, drop="all", until=Until(seconds=0.3))
        assert 1 < one.summary["frames"] < 30

    def test_an_error_of_the_network_leaves_no_half_files(self, drive: Path, tmp_path: Path) -> None:
        def fail(number: int, channel: Channel, shown: Any) -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            live(toy(), [str(drive)], frame_oracle, out=tmp_path / "out", on_frame=fail)
        assert not (tmp_path / "out").exists()

    def test_a_result_that_is_there_is_kept(self, drive: Path, tmp_path: Path) -> None:
        (tmp_path / "out" / "drive").mkdir(parents=True)
        (tmp_path / "out" / "drive" / "summary.json").write_text("{}")
        with pytest.raises(UsageError, match=r"give another --out, or --overwrite to replace it\.$"):
            live(toy(), [str(drive)], frame_oracle, out=tmp_path / "out")

    def test_a_lookahead_makes_frames_from_both_sides(self, drive: Path) -> None:
        shown: list[Any] = []
        schedule = carried(skip_frame(4), Interpolate(Flow()))
        [one] = live(
            toy(),
            [str(drive)],
            schedule,
            lookahead=4,
            drop="all",
            until=Until(frames=10),
            on_frame=lambda number, channel, one: shown.append(one),
        )
        assert one.summary["frames"] == 10
        assert one.summary["carry"] == "interpolate(flow)"
        assert [each.frame.index for each in shown] == list(range(10))
        assert {each.record.propagated for each in shown} == {"", "interpolated"}

    def test_without_a_lookahead_interpolate_is_warp_and_told_once(self, drive: Path) -> None:
        told: list[str] = []
        schedule = carried(skip_frame(4), Interpolate(Flow()))
        [one] = live(
            toy(), [str(drive)], schedule, until=Until(frames=3), on_message=lambda one, sentence: told.append(sentence)
        )
        assert one.summary["carry"] == "warp(flow)"
        assert [sentence for sentence in told if "lookahead" in sentence] == told[:1]

    @pytest.mark.parametrize("scheme", ["http", "rtsp", "tcp"])
    def test_a_silent_host_is_given_up_at_once(self, monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
        monkeypatch.setattr("clockseg.live.sources.SILENCE_SECONDS", 0.5)
        told: list[str] = []
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = f"{scheme}://127.0.0.1:{server.getsockname()[1]}/live.ts"
            [one] = live(toy(), [address], on_message=lambda one, sentence: told.append(sentence))
        assert (str(one.error), told) == ("no answer within 0.5 s", [])

    def test_refused(self, drive: Path, tmp_path: Path) -> None:
        for sources, options, match in (
            ([], {}, "no source. Give a video file"),
            (["-", "-"], {}, "one standard input"),
            ([str(drive)], {"latency_seconds": -1.0}, "latency"),
            ([str(drive)], {"carry": parse_carry("warp(codec)")}, "estimator flow"),
            ([str(drive)], {"lookahead": 3}, "interpolate"),
            ([str(drive)], {"write": ["labels"]}, "without a folder"),
            ([str(drive)], {"out": tmp_path, "write": ["gif"]}, "there are"),
        ):
            with pytest.raises(UsageError, match=match):
                live(toy(), sources, frame_oracle, **options)


def test_a_stream_that_dies_and_returns(drive: Path) -> None:
    """A server that sends the video to whoever connects, and hangs up: twice."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for _ in range(2):
                reader = server.accept()[0]
                with reader:
                    reader.sendall(sent(drive))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        sentences: list[str] = []
        [one] = live(
            toy(),
            [f"tcp://127.0.0.1:{server.getsockname()[1]}"],
            frame_oracle,
            drop="all",
            until=Until(frames=60, seconds=20),
            on_message=lambda one, sentence: sentences.append(sentence),
        )
        thread.join(5.0)
    assert one.summary["frames"] == 60
    assert (one.summary["live"]["reconnects"], one.summary["live"]["gaps"]) == (1, 1)
    assert "trying again in" in sentences[0]
    assert sentences[1] == "it is back"


def command(*arguments: object, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "clockseg", "live", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=as_in_a_terminal,
        **options,
    )


def test_frames_skipped_at_the_start_have_a_column_where_there_are_some() -> None:
    def lived(skipped: int) -> LiveResult:
        times = dict.fromkeys(("median", "p99", "most"), 20.0)
        told = {"dropped": 4, "skipped_at_start": skipped, "latency_ms": times, "reconnects": 0}
        return LiveResult(source("-"), {"frames": 9, "fps": 30.0, "network_rate": 1.0, "live": told})

    head, none, some = table([lived(0), lived(21)]).splitlines()
    assert "dropped  skipped at start  latency" in head
    assert [line.split("%")[1].split()[:2] for line in (none, some)] == [["4", "0"], ["4", "21"]]
    assert "skipped" not in table([lived(0)])
    assert table([lived(0)]).split("%")[-1].split()[:2] == ["4", "20.0"]


class TestCommand:
    """``clockseg live``, as a process."""

    @pytest.mark.parametrize("format", ["mpegts", "nut", "matroska"])
    def test_a_pipe(self, drive: Path, tmp_path: Path, format: str) -> None:
        process = command(
            *("-", "--network", write_tiny(tmp_path), "--drop", "all", "--engine", "openvino"),
            *("--out", tmp_path / "out", "--write", "labels"),
            stdin=subprocess.PIPE,
        )
        out, errors = process.communicate(sent(drive, format), timeout=60)
        assert process.returncode == 0, errors
        assert len(list(read_labels(tmp_path / "out" / "pipe"))) == 30
        assert b"standard input" in out

    def test_a_file_through_a_pipe_that_states_its_duration_is_played_like_a_file(
        self, slow: Path, tmp_path: Path
    ) -> None:
        process = command(
            *("-", "--network", write_tiny(tmp_path), "--engine", "openvino", "--latency", "1000"),
            *("--out", tmp_path / "out"),
            stdin=subprocess.PIPE,
        )
        _, errors = process.communicate(sent(slow, "matroska"), timeout=120)
        assert process.returncode == 0, errors
        summary = read_summary(tmp_path / "out" / "pipe")
        assert (summary["live"]["arrived"], summary["live"]["skipped_at_start"]) == (75, 0)
        assert summary["frames"] + summary["live"]["dropped"] == 75
        assert summary["frames"] > 20

    def test_a_pipe_that_is_cut_short_is_a_failure(self, slow: Path, tmp_path: Path) -> None:
        process = command(
            *("-", "--network", write_tiny(tmp_path), "--engine", "openvino", "--drop", "all"), stdin=subprocess.PIPE
        )
        whole = sent(slow, "matroska")
        out, errors = process.communicate(whole[: len(whole) // 2], timeout=60)
        assert (process.returncode, errors.decode().count("warning: standard input: ")) == (1, 1), errors
        assert b"standard input" in out

    @pytest.mark.parametrize(
        ("sources", "fed", "said"),
        [
            (["-"], b"", "standard input: no video can be read from it ("),
            (["-"], b"no video" * 99, "standard input: no video can be read from it ("),
            (["/dev/video63"], b"", "/dev/video63: the camera can't be opened (No such file or directory). Cameras on"),
            (["rtsp://no-such-host.invalid/1"], b"", "rtsp://no-such-host.invalid/1: unknown host ("),
            (["HTTP://no-such-host.invalid/1"], b"", "http://no-such-host.invalid/1: unknown host ("),
            (["RTSP://127.0.0.1:1/1"], b"", "rtsp://127.0.0.1:1/1: it can't be opened (Connection refused)"),
        ],
    )
    def test_what_is_not_there_is_told_in_one_line_at_once(
        self, tmp_path: Path, sources: list[str], fed: bytes, said: str
    ) -> None:
        process = command(*sources, "--network", write_tiny(tmp_path), "--engine", "openvino", stdin=subprocess.PIPE)
        out, errors = process.communicate(fed, timeout=60)
        assert (process.returncode, out) == (1, b"")
        [line] = errors.decode().splitlines()
        assert line.startswith(f"clockseg: error: {said}")

    def test_a_server_that_refuses_is_not_asked_again(self, tmp_path: Path) -> None:
        with http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            url = f"http://127.0.0.1:{server.server_port}/no/such/live.m3u8"
            process = command(url, "--network", write_tiny(tmp_path), "--engine", "openvino")
            _, errors = process.communicate(timeout=60)
            server.shutdown()
        assert process.returncode == 1
        assert b"the server refuses it (Server returned 404 Not Found)" in errors
        assert b"trying again" not in errors

    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
    def test_a_signal_is_an_end_like_any_other(
        self, drive: Path, tmp_path: Path, number: signal.Signals, code: int
    ) -> None:
        process = command(
            *("-", "--network", write_tiny(tmp_path), "--engine", "openvino", "--out", tmp_path / "out"),
            *("--drop", "all", "--write", "labels"),
            stdin=subprocess.PIPE,
        )
        assert process.stdin is not None
        process.stdin.write(sent(drive))
        process.stdin.flush()
        trace = tmp_path / "out" / "pipe" / ".part" / "live"
        deadline = time.monotonic() + 30
        while not trace.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(number)
        # The pipe stays open: nothing but the signal ends it.
        assert process.wait(30) == code
        out, errors = process.stdout.read(), process.stderr.read()
        process.stdin.close()
        process.stdout.close()
        process.stderr.close()
        assert b"latency" in out, errors
        folder = tmp_path / "out" / "pipe"
        assert len(list(read_labels(folder))) == len(read_trace(folder)) == read_summary(folder)["frames"] > 0
        assert json.loads((folder / "summary.json").read_text())["live"]["drop"] == "all"

    def test_a_source_that_can_not_be_opened(self, tmp_path: Path) -> None:
        process = command("tcp://user:hunter2@127.0.0.1:1", "--network", write_tiny(tmp_path), "--reconnect", "0")
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 1
        assert b"Connection refused" in errors
        assert b"hunter2" not in errors
