"""Label maps to disk and back."""

from __future__ import annotations

import itertools
from fractions import Fraction

import av
import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clockseg.errors import UsageError, VideoError
from clockseg.video import LabelWriter, ValueWriter, read_labels, read_values, write_png
from clockseg.video.output import Timestamps
from video_making import picture, stream_times, write_video


def every_value(height: int, width: int, shift: int = 0) -> np.ndarray:
    return ((np.arange(height * width) + shift) % 256).astype(np.uint8).reshape(height, width)


@pytest.mark.parametrize(
    ("height", "width"),
    [(16, 16), (1, 1), (1, 900), (900, 1), (2, 2), (3, 641), (641, 15), (21, 33), (241, 321), (240, 320)],
)
def test_every_value_comes_back(tmp_path, height, width):
    maps = [every_value(height, width, shift) for shift in (0, 7, 255)]
    with LabelWriter(tmp_path / "labels.mkv", fps=25) as writer:
        for index, labels in enumerate(maps):
            writer.append(labels, index / 25)
    got = list(read_labels(tmp_path / "labels.mkv"))
    assert all(np.array_equal(a, b) for a, b in zip(maps, got, strict=True))
    assert [path.name for path in tmp_path.iterdir()] == ["labels.mkv"]


@pytest.mark.parametrize(("height", "width"), [(1, 900), (900, 1), (3, 641), (2, 2)])
def test_numbers_of_narrow_pictures_come_back(tmp_path, height, width):
    values = np.linspace(-1, 1, height * width).astype(np.float16).reshape(height, width)
    with ValueWriter(tmp_path / "values.mkv") as writer:
        writer.append(values.astype(np.float32))
    assert np.array_equal(next(read_values(tmp_path / "values.mkv")), values)


def test_labels_of_earlier_versions_are_read(tmp_path):
    maps = [every_value(30, 41, shift) for shift in (0, 9)]
    with av.open(tmp_path / "labels.mkv", "w") as output:
        stream = output.add_stream("ffv1", rate=25, options={"level": "3", "g": "1", "slicecrc": "1", "coder": "rice"})
        stream.height, stream.width = maps[0].shape
        stream.pix_fmt = "gray"
        for labels in (*maps, None):
            frame = None if labels is None else av.VideoFrame.from_ndarray(labels, format="gray")
            output.mux(stream.encode(frame))
    assert all(np.array_equal(a, b) for a, b in zip(maps, read_labels(tmp_path / "labels.mkv"), strict=True))


def test_any_player_shows_the_ids_as_grey_values(tmp_path):
    labels = every_value(54, 97)
    with LabelWriter(tmp_path / "labels.mkv") as writer:
        writer.append(labels)
    _, shown = cv2.VideoCapture(str(tmp_path / "labels.mkv")).read()
    assert all(np.array_equal(shown[..., channel], labels) for channel in range(3))


def test_most_damaged_frames_are_an_error(tmp_path):
    path = tmp_path / "labels.mkv"
    rng = np.random.default_rng(0)
    with LabelWriter(path) as writer:
        for _ in range(8):
            writer.append(rng.integers(0, 8, (120, 160), dtype=np.uint8))
    with av.open(path) as written:
        middles = [packet.pos + packet.size // 2 for packet in written.demux(video=0) if packet.size]
    data = path.read_bytes()
    noticed = 0
    for middle in middles:
        path.write_bytes(data[:middle] + bytes(255 - byte for byte in data[middle : middle + 8]) + data[middle + 8 :])
        try:
            list(read_labels(path))
        except VideoError:
            noticed += 1
    # H.264 has no checksums, so that now and then a damaged frame decodes.
    assert noticed > len(middles) / 2


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 70), st.integers(1, 70), st.integers(0, 2**32 - 1))
def test_noise_comes_back(tmp_path_factory, height, width, seed):
    path = tmp_path_factory.mktemp("noise") / "labels.mkv"
    labels = np.random.default_rng(seed).integers(0, 256, (height, width), dtype=np.uint8)
    with LabelWriter(path) as writer:
        writer.append(labels)
    assert np.array_equal(next(read_labels(path)), labels)


def test_variable_times_are_kept_to_the_microsecond(tmp_path):
    times = [0.0, 0.04, 0.0501, 0.2, 1.0, 1.000004, 3.5]
    with LabelWriter(tmp_path / "l.mkv", fps=30) as writer:
        for time in times:
            writer.append(every_value(4, 4), time)
    assert stream_times(tmp_path / "l.mkv") == times


def test_times_that_start_late_stay_late(tmp_path):
    with LabelWriter(tmp_path / "l.mkv") as writer:
        for time in (5.0, 5.04):
            writer.append(every_value(4, 4), time)
    assert stream_times(tmp_path / "l.mkv") == [5, 5.04]


def test_missing_times_follow_at_the_frame_rate(tmp_path):
    with LabelWriter(tmp_path / "l.mkv", fps=Fraction(30000, 1001)) as writer:
        for _ in range(31):
            writer.append(every_value(4, 4))
    assert stream_times(tmp_path / "l.mkv")[30] == pytest.approx(1.001, abs=1e-3)
    with av.open(str(tmp_path / "l.mkv")) as container:
        assert container.duration / 1e6 == pytest.approx(31 * 1001 / 30000, abs=2e-3)


def test_times_that_jump_back_go_on():
    times = Timestamps(Fraction(1, 1000), fps=Fraction(10))
    assert [times.next(t) for t in (50.0, 50.1, 0.0, 0.1, 0.2)] == [50000, 50100, 50200, 50300, 50400]


@given(st.lists(st.one_of(st.none(), st.floats(-1e4, 1e4)), max_size=30))
def test_times_always_rise(seconds):
    times = Timestamps(Fraction(1, 1000), fps=None)
    units = [times.next(t) for t in seconds]
    assert all(a < b for a, b in itertools.pairwise(units))


def test_another_size_is_brought_to_the_first(tmp_path):
    with LabelWriter(tmp_path / "l.mkv") as writer:
        writer.append(np.zeros((4, 6), np.uint8))
        writer.append(np.kron(np.array([[1, 2], [3, 200]], np.uint8), np.ones((8, 9), np.uint8)))
    _, second = read_labels(tmp_path / "l.mkv")
    assert second.tolist() == [[1, 1, 1, 2, 2, 2]] * 2 + [[3, 3, 3, 200, 200, 200]] * 2


def test_numbers_of_another_size_are_interpolated(tmp_path):
    with ValueWriter(tmp_path / "v.mkv") as writer:
        writer.append(np.zeros((1, 4), np.float32))
        writer.append(np.array([[0.0, 1.0]], np.float32))
    _, second = read_values(tmp_path / "v.mkv")
    assert second.tolist() == [[0.0, 0.25, 0.75, 1.0]]


def test_the_same_labels_give_the_same_bytes(tmp_path):
    for name in "ab":
        with LabelWriter(tmp_path / name) as writer:
            for shift in range(5):
                writer.append(every_value(48, 64, shift))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_an_exception_leaves_nothing_behind(tmp_path):
    with pytest.raises(KeyError), LabelWriter(tmp_path / "l.mkv") as writer:  # noqa: PT012
        writer.append(every_value(4, 4))
        assert [path.name for path in tmp_path.iterdir()] == [".l.mkv.part"]
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_abort_keeps_an_older_file(tmp_path):
    (tmp_path / "l.mkv").write_text("older")
    writer = LabelWriter(tmp_path / "l.mkv")
    writer.append(every_value(4, 4))
    writer.abort()
    assert (tmp_path / "l.mkv").read_text() == "older"
    assert len(list(tmp_path.iterdir())) == 1


def test_no_frames_no_file(tmp_path):
    LabelWriter(tmp_path / "l.mkv").close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in ("file", "missing"):
        with pytest.raises(VideoError, match=r"cannot be written .* Give a folder"):
            LabelWriter(tmp_path / folder / "l.mkv")
        with pytest.raises(VideoError, match=r"cannot be written .* Give a folder"):
            write_png(every_value(4, 4), tmp_path / folder / "l.png")


def test_a_folder_that_goes_away(tmp_path):
    (tmp_path / "out").mkdir()
    writer = LabelWriter(tmp_path / "out" / "l.mkv")
    writer.append(every_value(4, 4))
    (tmp_path / "out" / ".l.mkv.part").unlink()
    (tmp_path / "out").rmdir()
    with pytest.raises(VideoError, match="cannot be written"):
        writer.close()


@pytest.mark.parametrize(
    "labels", [np.zeros((4, 4), np.int64), np.zeros((4, 4, 3), np.uint8), np.zeros((0, 4), np.uint8)]
)
def test_what_is_no_label_map_is_refused(tmp_path, labels):
    with pytest.raises(UsageError, match="Give uint8"), LabelWriter(tmp_path / "l.mkv") as writer:
        writer.append(labels)


def test_what_is_no_label_video_is_refused(tmp_path):
    path = write_video(tmp_path / "a.mp4", [picture(64, 48)])
    with pytest.raises(VideoError, match="not a label video"):
        next(read_labels(path))
    with pytest.raises(VideoError, match="cannot be read"):
        next(read_labels(tmp_path / "missing.mkv"))


def test_a_label_video_cut_short_is_told(tmp_path):
    path = tmp_path / "l.mkv"
    rng = np.random.default_rng(0)
    with LabelWriter(path, fps=10) as writer:
        for _ in range(30):
            writer.append(rng.integers(0, 256, (32, 32), dtype=np.uint8))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(VideoError, match="the file ends at"):
        list(read_labels(path))


def test_png(tmp_path):
    write_png(every_value(21, 33), tmp_path / "ü.png")
    data = np.frombuffer((tmp_path / "ü.png").read_bytes(), np.uint8)
    assert np.array_equal(cv2.imdecode(data, cv2.IMREAD_UNCHANGED), every_value(21, 33))
    assert len(list(tmp_path.iterdir())) == 1


def test_a_close_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(self, frame):
        raise OSError("no space left on device")

    writer = LabelWriter(tmp_path / "labels.mkv", fps=25)
    writer.append(np.zeros((16, 16), np.uint8))
    monkeypatch.setattr("clockseg.video.output.FrameWriter._mux", full)
    with pytest.raises(OSError, match="no space"), writer:
        pass
    assert list(tmp_path.iterdir()) == []
