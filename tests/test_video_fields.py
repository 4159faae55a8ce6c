"""Interlaced pictures: made whole, one for one."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import av
import numpy as np
import pytest

from clockseg.video import Span, open_clip
from clockseg.video.movie import deinterlaced
from video_making import picture, write_video

WIDTH, HEIGHT, FRAMES = 96, 64, 24
TEXTURE = np.random.default_rng(0).integers(60, 200, (HEIGHT // 2, WIDTH, 3), np.uint8)


def woven(number: int) -> np.ndarray:
    """A bar that moves between the fields, above; what doesn't move, with detail in every line, below."""
    image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    for field in (0, 1):
        at = (2 * number + field) * 4 % (WIDTH - 16)
        image[field : HEIGHT // 2 : 2, at : at + 12] = 220
    image[HEIGHT // 2 :] = TEXTURE
    return image


def combing(image: np.ndarray) -> float:
    """How much neighbouring lines differ more than lines two apart."""
    grey = image[: HEIGHT // 2].mean(2)
    return float(np.abs(np.diff(grey, axis=0)).mean() - np.abs(grey[2:] - grey[:-2]).mean())


def interlaced(path, **options: str):
    images = [woven(number) for number in range(FRAMES)]
    return write_video(path, images, **{"x264-params": "tff=1", "crf": "4", "g": "8", **options})


def raw(path) -> list[av.VideoFrame]:
    with av.open(str(path)) as container:
        return list(container.decode(video=0))


def test_no_combs_are_left_and_every_frame_is_there(tmp_path):
    path = interlaced(tmp_path / "i.mkv", bf="2")
    stored, frames = raw(path), list(open_clip(path))
    assert all(frame.interlaced_frame for frame in stored)
    assert [frame.pts for frame in frames] == [frame.pts for frame in stored]
    assert [frame.duration for frame in frames] == [frame.duration or None for frame in stored]
    assert min(combing(frame.to_ndarray(format="rgb24")) for frame in stored) > 15
    assert max(combing(frame.image) for frame in frames) < 5


def test_what_does_not_move_keeps_every_line(tmp_path):
    path = interlaced(tmp_path / "i.mkv", pix_fmt="yuv444p")
    for frame in list(open_clip(path))[2:-2]:
        error = np.abs(frame.image[HEIGHT // 2 + 4 :].astype(int) - TEXTURE[4:]).mean()
        assert error < 12  # lines drawn from their neighbours alone: 40


@pytest.mark.parametrize("start", [8, 11, 16])
def test_a_span_begins_with_what_a_whole_pass_gives(tmp_path, start):
    path = interlaced(tmp_path / "i.mkv", bf="2")
    whole = list(open_clip(path))
    part = list(open_clip(path, span=Span(Fraction(start, 25), Fraction(start + 6, 25))))
    assert len(part) == 6
    assert all(
        np.array_equal(one.image, other.image) for one, other in zip(part, whole[start : start + 6], strict=True)
    )


def frames_of(flags: Sequence[bool], size=(32, 32)) -> list[av.VideoFrame]:
    """Frames of an encoder that are flagged so."""
    found = []
    for number, flagged in enumerate(flags):
        encoder = av.CodecContext.create("libx264", "w")
        encoder.width, encoder.height, encoder.pix_fmt, encoder.time_base = *size, "yuv420p", Fraction(1, 25)
        encoder.options = {"x264-params": "tff=1", "tune": "zerolatency"} if flagged else {"tune": "zerolatency"}
        image = av.VideoFrame.from_ndarray(picture(*size, number), format="rgb24")
        decoder = av.CodecContext.create("h264", "r")
        packets = [*encoder.encode(image), *encoder.encode(None)]
        frames = [frame for packet in packets for frame in decoder.decode(packet)] + decoder.decode(None)
        frames[0].pts, frames[0].time_base = number, Fraction(1, 25)
        found.append(frames[0])
    return found


def test_pictures_that_are_not_interlaced_are_the_same_objects():
    frames = frames_of([False] * 3)
    assert all(one is other for one, other in zip(deinterlaced(iter(frames)), frames, strict=True))


def test_a_mixture_keeps_its_order_and_sizes():
    sizes = [(32, 32)] * 5 + [(48, 32)] * 4
    flags = [False, True, True, False, True, True, False, True, True]
    frames = [frame for flag, size in zip(flags, sizes, strict=True) for frame in frames_of([flag], size)]
    for number, frame in enumerate(frames):
        frame.pts = number
    out = list(deinterlaced(iter(frames)))
    assert [frame.pts for frame in out] == list(range(9))
    assert [(frame.width, frame.height) for frame in out] == sizes
    assert not any(frame.interlaced_frame for frame in out)


def test_pictures_too_small_for_the_filter_pass():
    (frame,) = frames_of([True], (8, 8))
    assert list(deinterlaced(iter([frame]))) == [frame]
