"""Times, durations and shapes of what is written, and the order of times that a container lacks."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction

import av
import numpy as np
import pytest

from clockseg.video import LabelWriter, OverlayWriter, ValueWriter, open_clip, read_labels, read_values
from clockseg.video.output import Timestamps
from video_making import picture, stream_times, write_video

TIMES = (0.0, 0.04, 0.2, 1.0)


def given(times, *, fps=25):
    """What Timestamps makes of (time, duration) pairs, in ms."""
    stamps = Timestamps(Fraction(1, 1000), fps=Fraction(fps))
    return [stamps.next(*pair) for pair in times], stamps.last_duration


def test_a_frame_without_a_time_comes_where_the_one_before_ends():
    assert given([(None, None), (None, None)]) == ([0, 40], 40)
    assert given([(None, 0.1), (None, 0.5), (None, None)]) == ([0, 100, 600], 40)
    assert given([(2.0, 0.1), (None, 0.25)]) == ([2000, 2100], 250)


def test_a_time_that_is_not_later_comes_a_unit_after_the_one_before():
    times = [(0.5, None), (0.54, None), (0.54, None), (None, None), (0.62, None)]
    assert given(times)[0] == [500, 540, 541, 580, 620]


def test_times_before_0_are_moved_to_0():
    assert given([(-0.5, None), (-0.1, None), (0.7, None)])[0] == [0, 400, 1200]


def test_times_that_jump_back_go_on():
    assert given([(5.0, None), (5.04, None), (0.0, None), (0.04, None)])[0] == [5000, 5040, 5080, 5120]


@pytest.mark.parametrize("writer", [OverlayWriter, LabelWriter, ValueWriter])
@pytest.mark.parametrize("first", [0.0, 3.7, -0.5])
def test_the_last_frame_lasts_as_long_as_it_says(tmp_path, writer, first):
    path = tmp_path / ("o.mp4" if writer is OverlayWriter else "o.mkv")
    image = {OverlayWriter: picture(64, 48), LabelWriter: np.zeros((48, 64), np.uint8)}
    with writer(path, fps=25) as out:
        for time in TIMES:
            out.append(image.get(writer, np.zeros((48, 64), np.float32)), first + time, duration_seconds=2.5)
    times = stream_times(path)
    assert times == pytest.approx([max(first, 0) + time for time in TIMES], abs=1e-3)
    with av.open(str(path)) as container:
        *_, last = (packet for packet in container.demux(video=0) if packet.size)
        assert float((last.pts + last.duration) * last.time_base) == pytest.approx(times[-1] + 2.5, abs=1e-3)


def test_the_size_can_be_set_before_the_first_picture(tmp_path):
    with OverlayWriter(tmp_path / "o.mp4", size=(61, 47)) as writer:
        writer.append(picture(128, 96))
    assert open_clip(tmp_path / "o.mp4").size == (62, 48)
    with LabelWriter(tmp_path / "l.mkv", size=(6, 4)) as writer:
        writer.append(np.full((2, 3), 7, np.uint8))
        writer.append(np.full((4, 6), 8, np.uint8))
    assert [labels.shape for labels in read_labels(tmp_path / "l.mkv")] == [(4, 6)] * 2
    with ValueWriter(tmp_path / "v.mkv", size=(6, 4)) as writer:
        writer.append(np.full((2, 2, 3), 0.5, np.float32))
    assert [values.shape for values in read_values(tmp_path / "v.mkv")] == [(2, 4, 6)]


def test_the_same_pictures_give_the_same_bytes(tmp_path):
    def written(name):
        with OverlayWriter(tmp_path / name) as writer:
            for seed in range(30):
                writer.append(picture(320, 240, seed))
        return (tmp_path / name).read_bytes()

    assert written("a.mp4") == written("b.mp4")


WRITE = """
import sys
from video_making import picture
from clockseg.video import LabelWriter, OverlayWriter
with OverlayWriter(sys.argv[1] + ".mp4") as overlay, LabelWriter(sys.argv[1] + ".mkv") as labels:
    for seed in range(30):
        overlay.append(picture(320, 240, seed))
        labels.append(picture(320, 240, seed)[..., 0])
"""


def test_the_bytes_do_not_depend_on_what_memory_held_before(tmp_path):
    # glibc then fills memory with a byte of its own; elsewhere this is the test above.
    for byte in (1, 85):
        environment = os.environ | {"MALLOC_PERTURB_": str(byte), "PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run([sys.executable, "-c", WRITE, str(tmp_path / str(byte))], env=environment, check=True)
    for ending in ("mp4", "mkv"):
        assert (tmp_path / f"1.{ending}").read_bytes() == (tmp_path / f"85.{ending}").read_bytes()


@pytest.mark.parametrize("aspect", [Fraction(1), Fraction(4, 3), Fraction(16, 15)])
def test_pixels_are_as_wide_in_the_overlay(tmp_path, aspect):
    path = write_video(tmp_path / "a.mkv", [picture(64, 48)] * 3, aspect=aspect)
    (frame, *_) = open_clip(path)
    assert (frame.pixel_aspect, frame.size) == (aspect, (64, 48))
    with OverlayWriter(tmp_path / "o.mp4") as writer:
        writer.append(frame.image, pixel_aspect=frame.pixel_aspect)
    with av.open(str(tmp_path / "o.mp4")) as container:
        assert (container.streams.video[0].sample_aspect_ratio or 1) == aspect


def test_pixels_are_turned_with_the_picture(tmp_path):
    path = write_video(tmp_path / "a.mp4", [picture(64, 48)] * 3, aspect=Fraction(4, 3), rotation=90)
    assert open_clip(path).pixel_aspect == Fraction(3, 4)


def test_h264_with_b_frames_in_avi_is_in_order(tmp_path):
    path = write_video(
        tmp_path / "a.avi", [picture(64, 48, k) for k in range(30)], base=Fraction(1, 25), bf="3", g="10"
    )
    with av.open(str(path)) as container:
        stored = [frame.pts for frame in container.decode(video=0)]
    assert stored != sorted(stored)
    assert [frame.pts for frame in open_clip(path)] == sorted(stored)


def test_a_raw_stream_is_as_fast_as_it_says(tmp_path):
    path = write_video(
        tmp_path / "a.h264", [picture(64, 48)] * 10, fps=50, container_format="h264", base=Fraction(1, 50)
    )
    clip = open_clip(path)
    frames = list(clip)
    assert clip.fps == 50
    assert [(frame.pts, frame.duration_seconds) for frame in frames] == [(None, 0.02)] * 10
