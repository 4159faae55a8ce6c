"""Live: who waits, who is given up, when the network fires, and when a source is tried again; all in virtual time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clockseg import UsageError, VideoError
from clockseg.clocks import Decision, Tick, Watch
from clockseg.live import OnTime, Room, source
from clockseg.live.channel import Delays
from clockseg.live.feed import Feed, backoff
from clockseg.live.sources import SCHEMES, Arrived, Connection, paced, parsed_options
from clockseg.video import Frame


def arrived(index: int, seconds: float = 0.0, pts: int | None = None) -> Arrived:
    return Arrived(
        Frame(index, np.zeros((2, 2, 3), np.uint8), pts, None if pts is None else Fraction(1, 1000)), seconds
    )


def line(drop: Any = "latest", latency: float = 0.1, connect: Any = None, **given: Any) -> Feed:
    return Feed(connect, drop, latency_seconds=latency, changed=threading.Condition(), **given)


class TestWaiting:
    """Frames that wait."""

    def test_frames_that_can_be_in_time_are_run_in_order(self) -> None:
        waiting = line()
        for index in range(3):
            waiting.put(arrived(index, index / 30))
        assert [waiting.take(0.09).frame.index for _ in range(3)] == [0, 1, 2]
        assert waiting.take(0.1) is None
        assert waiting.dropped == 0

    def test_a_late_frame_is_given_up_for_the_newest(self) -> None:
        waiting = line()
        for index in range(4):
            waiting.put(arrived(index, index / 30))
        assert waiting.take(0.15).frame.index == 3
        assert waiting.dropped == 3

    def test_a_late_frame_is_run_where_there_is_no_newer_one(self) -> None:
        waiting = line()
        waiting.put(arrived(0))
        assert waiting.take(9.0).frame.index == 0
        assert waiting.dropped == 0

    def test_without_latency_it_is_always_the_newest(self) -> None:
        waiting = line(latency=0.0)
        for index in range(3):
            waiting.put(arrived(index))
        assert waiting.take(0.0).frame.index == 2
        assert waiting.dropped == 2

    def test_memory_is_bounded(self) -> None:
        waiting = line(latency=60.0)
        for index in range(1000):
            waiting.put(arrived(index))
        assert len(waiting) == 64
        assert waiting.dropped == 1000 - 64

    def test_all_makes_the_decoder_wait_and_drops_nothing(self) -> None:
        waiting, put = line("all"), []

        def decode() -> None:
            for index in range(20):
                waiting.put(arrived(index))
                put.append(index)

        thread = threading.Thread(target=decode)
        thread.start()
        taken = []
        while len(taken) < 20:
            assert len(waiting) <= 8
            if (one := waiting.take(1e9)) is not None:
                taken.append(one.frame.index)
        thread.join()
        assert taken == list(range(20))
        assert waiting.dropped == 0

    def test_a_full_line_lets_go_of_a_decoder_that_is_stopped(self) -> None:
        waiting = line("all")
        waiting.stop()
        for index in range(9):
            waiting.put(arrived(index))
        assert len(waiting) == 9

    def test_unknown_policy(self) -> None:
        with pytest.raises(UsageError, match="latest or all"):
            line("oldest")


@dataclass(frozen=True)
class Same:
    """A signal that is always the same, so that firings are a matter of time alone."""

    def __call__(self, tick: Tick, state: Any) -> tuple[Decision, Any]:
        return Decision(False, 0.5 + 0.01 * (tick.t * 7919 % 101)), None

    def watches(self, stage: int) -> frozenset[Watch]:
        return frozenset()


def played(fired: float, held: float = 0.004, *, fps: float = 30.0, latency: float = 0.1, frames: int = 1500) -> Any:
    """A stream on a machine on which frames take so long: share of frames that fired, frames dropped, latencies."""
    waiting, now, coming, index = line(latency=latency), 0.0, 0, 0
    since, took, state, fires, ages = 1, 0.0, None, 0, Delays()
    room = [Room(fps / 0.8, latency, latency)]
    clock = OnTime(lambda: room[0], Same())
    while coming < frames:
        while coming < frames and coming / fps <= now:
            waiting.put(arrived(coming, coming / fps))
            coming += 1
        one = waiting.take(now)
        if one is None:
            now = coming / fps
            continue
        index += 1
        room[0] = Room(fps / 0.8, latency - (now - one.seconds), latency)
        decision, state = clock(Tick(index, 1, None, None, None, None, since, fires, last_seconds=took), state)
        took = fired if decision.fire else held
        since, fires = (1, fires + 1) if decision.fire else (since + 1, fires)
        now += took
        ages.add(now - one.seconds)
    return fires / index, waiting.dropped, ages


class TestOnTime:
    """The clock that goes by what there is time for."""

    def test_a_fast_machine_fires_always(self) -> None:
        rate, dropped, ages = played(0.015)
        assert rate > 0.97
        assert dropped == 0
        assert ages.quantile(1.0) < 0.02

    def test_a_slow_machine_fires_less_before_frames_are_dropped(self) -> None:
        found = [played(fired) for fired in (0.02, 0.03, 0.045, 0.06, 0.08, 0.095)]
        rates = [rate for rate, _, _ in found]
        assert [dropped for _, dropped, _ in found] == [0] * len(found)
        assert all(slower < faster for faster, slower in pairwise(rates))
        assert rates[-1] < 0.3
        assert max(ages.quantile(1.0) for *_, ages in found) <= 0.2

    def test_as_many_firings_as_there_is_time_for(self) -> None:
        rate, _, _ = played(0.06)
        assert rate == pytest.approx((0.8 / 30 - 0.004) / (0.06 - 0.004), rel=0.06)

    def test_a_firing_that_takes_longer_than_the_latency_still_comes(self) -> None:
        rate, dropped, _ = played(0.3)
        assert 0 < rate < 0.1
        assert dropped > 0

    def test_a_frame_that_waited_is_not_the_next_to_fire(self) -> None:
        clock, state = OnTime(lambda: Room(1.0, 0.01, 0.1), Same()), None
        fired = []
        for t in range(1, 20):
            since = 1 if t < 3 or fired[-1] else 2
            decision, state = clock(Tick(t, 1, None, None, None, None, since, 0, last_seconds=0.05), state)
            fired.append(decision.fire)
        # What a firing takes is not known at first.
        assert not any(fired[2:])


class TestFeed:
    """Connections that come and go."""

    @staticmethod
    def feed(*connections: Any, tries: int = 3) -> tuple[Feed, list[str]]:
        """A feed whose connections are in turn errors to raise, or (frames, whether it is over then)."""
        left, told = list(connections), []

        @contextmanager
        def connect(pause: Any, ready: Any) -> Iterator[Connection]:
            one = left.pop(0)
            if isinstance(one, Exception):
                raise one
            frames, over = one
            yield Connection(Fraction(25), iter(frames), lambda: over, lambda: "the line broke")

        feed = line("latest", 60.0, connect, tries=tries, wait=lambda tries: 0.001, on_message=told.append)
        feed.start()
        feed.join(5.0)
        return feed, told

    def test_it_comes_back_and_says_so(self) -> None:
        three = [arrived(index) for index in range(3)]
        feed, told = self.feed((three, False), VideoError("refused"), (three, True))
        assert (feed.state, feed.reconnects, feed.arrived, feed.fps) == ("ended", 1, 6, 25.0)
        assert [feed.take(0.0).connection for _ in range(6)] == [0, 0, 0, 1, 1, 1]
        assert told[0].startswith("the line broke; trying again in")
        assert told[1].startswith("refused; trying again in")
        assert told[2] == "it is back"

    def test_it_is_given_up_after_so_many_tries_in_a_row(self) -> None:
        one = ([arrived(0)], False)
        gone = [VideoError("refused")] * 3
        feed, told = self.feed(one, *gone[:2], one, *gone)
        assert feed.state == "failed"
        assert str(feed.error) == "refused; given up (reconnect: 3)"
        assert len([text for text in told if "trying again" in text]) == 6

    def test_a_source_is_tried_again_only_if_it_has_worked(self) -> None:
        feed, told = self.feed(VideoError("no answer"))
        assert (feed.state, str(feed.error), told) == ("failed", "no answer", [])
        feed, told = self.feed(([], False))
        assert (feed.state, str(feed.error), told) == ("failed", "the line broke", [])
        feed, told = self.feed(([arrived(0)], False), VideoError("no answer"), ([arrived(0)], True))
        assert (feed.state, feed.reconnects) == ("ended", 1)
        assert told[1].startswith("no answer; trying again in")

    def test_no_tries(self) -> None:
        feed, _ = self.feed(([arrived(0)], False), tries=0)
        assert feed.state == "failed"

    def test_a_fault_in_the_thread_is_not_lost(self) -> None:
        feed, _ = self.feed(ZeroDivisionError("ours"))
        assert isinstance(feed.error, ZeroDivisionError)


@given(st.integers(0, 10_000))
def test_waits_are_never_longer_than_half_a_minute_and_never_nothing(tries: int) -> None:
    assert 0.37 <= backoff(tries) <= 30.0


class TestDelays:
    """Quantiles in bounded memory."""

    @settings(max_examples=50)
    @given(st.lists(st.floats(2e-4, 1000), min_size=1, max_size=200), st.floats(0.01, 1))
    def test_against_numpy(self, seconds: list[float], share: float) -> None:
        delays = Delays()
        for one in seconds:
            delays.add(one)
        exact = float(np.quantile(seconds, share, method="inverted_cdf"))
        assert delays.quantile(share) == pytest.approx(exact, rel=0.006)


class TestPaced:
    """A file at its own speed."""

    @staticmethod
    def due(times: list[int | None]) -> list[float]:
        waits: list[float] = []

        def pause(seconds: float) -> bool:
            waits.append(seconds)
            return False

        frames = (arrived(index, 5.0, pts) for index, pts in enumerate(times))
        return [round(one.seconds, 3) for one in paced(frames, pause, period=0.5, now=lambda: 5.0)]

    def test_by_its_times(self) -> None:
        assert self.due([100, 140, 240]) == [5.0, 5.04, 5.14]

    def test_jumps_and_missing_times(self) -> None:
        assert self.due([0, 90_000, 90_040, 10, None, None]) == [5.0, 5.5, 5.54, 6.04, 6.54, 7.04]

    def test_stops(self) -> None:
        frames = paced(iter([arrived(0), arrived(1), arrived(2)]), lambda seconds: True)
        assert [one.frame.index for one in frames] == [0]

    def test_time_begins_when_the_first_frame_was_run(self) -> None:
        now = [0.0]

        def compiled() -> None:
            now[0] = 2.0

        frames = (arrived(index, now[0], 40 * index) for index in range(3))
        played = paced(frames, lambda seconds: False, compiled, now=lambda: now[0])
        assert [round(one.seconds, 3) for one in played] == [0.0, 2.04, 2.08]


class TestSource:
    """What may be opened."""

    @pytest.mark.parametrize("url", ["file:///etc/passwd", "concat://a", "ftp://host/a", "data://text"])
    def test_other_schemes_are_refused(self, url: str) -> None:
        with pytest.raises(UsageError, match="rtsp"):
            source(url)

    def test_no_stream_may_lead_to_files(self) -> None:
        for protocols in SCHEMES.values():
            assert not {"file", "pipe", "concat", "subfile", "data", "fd", "unix"} & set(protocols.split(","))

    @pytest.mark.parametrize("url", ["RTSP://cam/1", "Rtsp://cam/1", "HTTPS://cam/live.m3u8"])
    def test_schemes_in_capitals(self, url: str) -> None:
        scheme = url.partition(":")[0].lower()
        assert (source(url).kind, source(url).given) == ("url", url.replace(url.partition(":")[0], scheme))
        assert source(url).protocols == SCHEMES[scheme]

    @pytest.mark.parametrize("url", ["http:///live.m3u8", "rtsp://", "rtmp://:1935/app"])
    def test_urls_without_a_host(self, url: str) -> None:
        with pytest.raises(UsageError, match="names no host"):
            source(url)
        assert source("udp://:9000").kind == "url"

    def test_secrets_are_not_shown(self) -> None:
        one = source("rtsp://admin:hunter2@10.0.0.7:8554/cam?key=abc")
        assert one.name == "rtsp://10.0.0.7:8554/cam"
        assert "hunter2" not in one.stem + one.name

    @pytest.mark.parametrize(
        "name", ["../../x", "..", "...mp4", ".mp4", "rtsp://h/../../etc", "rtsp://h/%2e%2e/", "rtsp://[::1]:1/a b"]
    )
    def test_folder_names_are_plain(self, name: str) -> None:
        assert "/" not in source(name).stem
        assert not source(name).stem.startswith(".")

    @given(st.text(max_size=60), st.sampled_from(["", "rtsp://", "http://", "/dev/", "tcp://["]))
    def test_any_text_is_a_source_or_refused(self, text: str, start: str) -> None:
        try:
            one = source(start + text)
        except UsageError:
            return
        assert one.protocols
        assert "/" not in one.stem
        assert not one.stem.startswith(".")
        assert one.stem

    def test_options(self) -> None:
        with pytest.raises(UsageError, match="can't be set"):
            parsed_options(["protocol_whitelist=file"])
        with pytest.raises(UsageError, match="NAME=VALUE"):
            parsed_options(["fast"])
