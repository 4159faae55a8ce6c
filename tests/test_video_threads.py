"""Decoding ahead and encoding behind, in threads."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from clockseg.errors import VideoError
from clockseg.video import Background, open_clip, prefetch
from video_making import picture, write_video


def running(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(name)]


@pytest.fixture
def path(tmp_path):
    return write_video(tmp_path / "a.mp4", [picture(64, 48, k) for k in range(40)])


@pytest.mark.parametrize("depth", [1, 3, 100])
def test_prefetch_gives_the_same_frames(path, depth):
    plain, ahead = list(open_clip(path)), list(prefetch(open_clip(path), depth=depth))
    assert [frame.index for frame in ahead] == list(range(40))
    assert all(np.array_equal(a.image, b.image) and a.pts == b.pts for a, b in zip(plain, ahead, strict=True))
    assert all(frame.decode_seconds > 0 for frame in ahead)
    assert not running("clockseg-decode")


def test_prefetch_stops_when_the_consumer_does(path):
    frames = prefetch(open_clip(path), depth=2)
    next(frames)
    assert running("clockseg-decode")
    frames.close()
    assert not running("clockseg-decode")


def test_prefetch_stops_when_the_consumer_fails(path):
    with pytest.raises(KeyError), open_clip(path) as clip:  # noqa: PT012
        for _ in prefetch(clip):
            raise KeyError
    deadline = time.monotonic() + 5
    while running("clockseg-decode") and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not running("clockseg-decode")


def test_prefetch_never_holds_more_than_its_depth():
    made = []

    def items():
        for number in range(1, 100):
            made.append(number)
            yield number

    frames = prefetch(items(), depth=3)
    for taken in range(1, 20):
        assert next(frames) == taken
        time.sleep(0.005)
        assert len(made) - taken <= 3
    frames.close()


def test_prefetch_passes_errors_on_in_their_place(tmp_path, path):
    def items():
        yield 1
        raise KeyError("here")

    frames = prefetch(items())
    assert next(frames) == 1
    with pytest.raises(KeyError, match="here"):
        next(frames)
    (tmp_path / "b.gif").write_bytes(b"GIF89a\1\0\1\0\0\0\0;")
    with pytest.raises(VideoError):
        list(prefetch(open_clip(tmp_path / "b.gif")))
    assert not running("clockseg-decode")


def test_background_keeps_the_order_and_counts_its_seconds():
    seen = []

    def work(value, *, extra):
        time.sleep(0.002)
        seen.append((value, extra))

    with Background(work, depth=2) as background:
        for value in range(10):
            background.put(value, extra=-value)
    assert seen == [(value, -value) for value in range(10)]
    assert background.seconds >= 0.02
    assert not running("clockseg-encode")


def test_background_put_returns_at_once_while_there_is_room():
    hold = threading.Event()
    with Background(hold.wait, depth=4) as background:
        start = time.perf_counter()
        for _ in range(4):
            background.put(5)
        assert time.perf_counter() - start < 1
        hold.set()


def test_background_raises_at_the_next_put_and_at_close():
    seen = []

    def work(value):
        seen.append(value)
        raise KeyError(value)

    background = Background(work)
    background.put(1)
    while not background.seconds:
        time.sleep(0.001)
    with pytest.raises(KeyError):
        background.put(2)
    with pytest.raises(KeyError):
        background.close()
    assert seen == [1]
    assert not running("clockseg-encode")


def test_background_abort_drops_what_waits():
    hold, seen = threading.Event(), []

    def work(value):
        hold.wait(5)
        seen.append(value)

    with pytest.raises(ZeroDivisionError), Background(work) as background:  # noqa: PT012
        for value in range(5):
            background.put(value)
        threading.Timer(0.2, hold.set).start()  # the call in progress goes on when the rest has been dropped
        raise ZeroDivisionError
    assert len(seen) <= 1
    assert not running("clockseg-encode")
