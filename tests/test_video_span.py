"""Parts of a video, and one of several streams."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import cv2
import numpy as np
import pytest

from clockseg.errors import UsageError, VideoError
from clockseg.video import Span, open_clip
from video_making import picture, write_video

FRAMES = 50
CONTAINERS = {
    "b.mp4": ("libx264", {"g": "12", "bf": "3"}),
    "open.mkv": ("libx264", {"g": "12", "bf": "3", "x264-params": "open-gop=1"}),
    "b.ts": ("libx264", {"g": "12", "bf": "3"}),
    "refresh.mp4": ("libx264", {"x264-params": "intra-refresh=1:keyint=12"}),
    "h265.mp4": ("libx265", {"x265-params": "log-level=none:keyint=12"}),
    "p.avi": ("mpeg4", {"g": "12", "bf": "2"}),
    "disorder.avi": ("libx264", {"g": "12", "bf": "2"}),
    "v.webm": ("libvpx", {"g": "12"}),
    "f.flv": ("libx264", {"g": "12"}),
    "all.mkv": ("ffv1", {}),
    "raw.h264": ("libx264", {"g": "12"}),
}
SPANS = [(0, None), (0, 30), (12, 24), (24, 36), (17, 41), (49, None), (1, 2), (None, 13)]


def noisy(number: int) -> np.ndarray:
    noise = np.random.default_rng(number).integers(0, 40, (64, 96, 3), np.uint8)
    return picture(96, 64, number) // 2 + noise


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("spans")


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_span_gives_what_a_whole_pass_gives(folder, name):
    codec, options = CONTAINERS[name]
    kind = "h264" if name.endswith(".h264") else None
    path = write_video(folder / name, map(noisy, range(FRAMES)), codec=codec, container_format=kind, **options)
    whole = list(open_clip(path))
    assert len(whole) == FRAMES
    times = [seconds_of(frame) for frame in whole]
    assert times == sorted(times)
    for first, last in SPANS:
        span = Span(first and times[first], last and times[last])
        expected = [frame for frame, time in zip(whole, times, strict=True) if span.holds(time)]
        clip = open_clip(path, span=span)
        part = list(clip)
        assert [frame.index for frame in part] == list(range(len(expected)))
        assert [frame.pts for frame in part] == [frame.pts for frame in expected]
        pairs = zip(part, expected, strict=True)
        assert all(np.array_equal(one.image, other.image) for one, other in pairs), (first, last)
        assert clip.problems == ()


def seconds_of(frame) -> Fraction:
    return Fraction(frame.index, 25) if frame.pts is None else frame.pts * frame.time_base


def test_spans_that_meet_part_a_video(tmp_path):
    path = write_video(tmp_path / "v.mkv", map(noisy, range(FRAMES)), g="7", bf="3")
    edges = [None, Fraction("0.3"), Fraction("0.301"), Fraction("0.9"), Fraction("1.8"), None]
    spans = [Span(*pair) for pair in pairwise(edges)]
    parts = [
        len(list(open_clip(path, span=span))) for span in spans if span != Span(Fraction("0.3"), Fraction("0.301"))
    ]
    assert sum(parts) == FRAMES
    with pytest.raises(VideoError, match=r"no frame in it from 0.3 s to 0.301 s"):
        list(open_clip(path, span=spans[1]))


def test_what_a_clip_knows_of_its_span(tmp_path):
    path = write_video(tmp_path / "v.mp4", map(noisy, range(FRAMES)))
    clip = open_clip(path, span=Span(Fraction(1, 2), Fraction(3, 2)))
    assert (clip.frames_hint, clip.duration_seconds) == (25, pytest.approx(1.0))
    assert open_clip(path, span=Span(Fraction(1))).duration_seconds == pytest.approx(1.0)
    assert open_clip(path, span=Span(end=Fraction(99))).frames_hint == FRAMES


def test_the_part_that_is_not_asked_for_may_be_damaged(tmp_path):
    path = write_video(tmp_path / "v.ts", map(noisy, range(FRAMES)), g="10")
    data = bytearray(path.read_bytes())
    for at in np.random.default_rng(0).integers(2000, len(data) // 3, 60):
        data[at] ^= 0x55
    path.write_bytes(data)
    whole, part = open_clip(path), open_clip(path, span=Span(Fraction(7, 5), Fraction(3)))
    assert list(whole)
    assert list(part)
    assert whole.problems
    assert part.problems == ()


def test_an_empty_span():
    with pytest.raises(UsageError, match=r"the span from 2 s to 1 s is empty. Give an end after its start"):
        Span(Fraction(2), Fraction(1))


def test_images_have_no_times(tmp_path):
    cv2.imwrite(str(tmp_path / "a.png"), picture(8, 8))
    for path in (tmp_path, tmp_path / "a.png"):
        with pytest.raises(UsageError, match="images have no times"):
            open_clip(path, span=Span(Fraction(1)))
        assert len(list(open_clip(path, span=Span()))) == 1


def test_times_that_go_back(tmp_path):
    path = write_video(tmp_path / "v.ts", map(noisy, range(FRAMES)), g="10")
    path.write_bytes(path.read_bytes() * 2)
    first = next(iter(open_clip(path)))
    start = first.pts * first.time_base
    assert len(list(open_clip(path))) == 2 * FRAMES
    assert len(list(open_clip(path, span=Span(start, start + 1)))) == 25
