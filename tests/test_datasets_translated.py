"""Translated sequences: which window each frame shows, of the picture and of its labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clockseg.datasets import Clip, read_data, translate
from clockseg.datasets.layouts import FRAMES, window
from clockseg.errors import DataError, UsageError
from dataset_trees import save, scene, voc, write_list


def still(folder: Path, size: tuple[int, int], name: str = "still") -> Clip:
    """A picture whose red channel is its label map: whatever is cut from both must still agree."""
    picture = scene(*size) % 2
    image = save(folder / f"{name}.png", picture)
    label = save(folder / f"{name}-labels.png", picture[..., 0])
    return Clip(name, image, (image,), (label,))


@pytest.mark.parametrize(("shift", "length"), [(16, 420), (32, 340)])
def test_expected_9_500_pixels_leave_a_window_of(shift: int, length: int) -> None:
    wide, tall = np.zeros((375, 500, 3), np.uint8), np.zeros((500, 375), np.uint8)
    for index in range(FRAMES):
        assert window(wide, index, shift=shift).shape == (375, length, 3)
        assert window(tall, index, shift=shift).shape == (length, 375)


@pytest.mark.parametrize(("shift", "length"), [(16, 400), (32, 320)])
def test_camvid_stills_leave_a_window_of(shift: int, length: int) -> None:
    assert window(np.zeros((360, 480, 3), np.uint8), 0, shift=shift).shape == (360, length, 3)


def test_expected_9_736_pictures_give_4416_frames_of_which_2944_are_scored(tmp_path: Path) -> None:
    year = voc(tmp_path, [])
    trained, scored = [f"2008_{k:06}" for k in range(375)], [f"2009_{k:06}" for k in range(736)]
    lists = year / "ImageSets" / "Segmentation"
    write_list(lists / "val.txt", [*trained[:200], *scored, *trained[200:]])
    write_list(lists / "sbd-train.txt", trained)
    for name in scored:
        for file in (year / "JPEGImages" / f"{name}.jpg", year / "SegmentationClass" / f"{name}.png"):
            file.parent.mkdir(exist_ok=True)
            file.touch()
    sequences = read_data(tmp_path, layout="translated(of=pascal(split='seg11valid'))", shift=32)
    assert [clip.name for clip in sequences] == scored
    assert sum(len(clip.taken or ()) for clip in sequences) == 4416
    assert sum(clip.labelled for clip in sequences) == 2944


@given(width=st.integers(1, 40), height=st.integers(1, 40), shift=st.integers(0, 7), index=st.integers(0, FRAMES - 1))
def test_frame_k_shows_the_picture_from_k_times_shift_on(width: int, height: int, shift: int, index: int) -> None:
    picture = np.arange(height * width).reshape(height, width)
    length = max(height, width) - 5 * shift
    if length <= 0:
        with pytest.raises(DataError, match="longer side"):
            window(picture, index, shift=shift)
        return
    seen = window(picture, index, shift=shift)
    assert seen.shape == ((height, length) if width > height else (length, width))
    at = (0, index * shift) if width > height else (index * shift, 0)
    assert np.array_equal(seen, picture[at[0] : at[0] + seen.shape[0], at[1] : at[1] + seen.shape[1]])
    assert seen.flags.c_contiguous


@pytest.mark.parametrize("size", [(40, 30), (30, 40), (40, 40)])
def test_the_labels_are_cut_with_the_same_window(tmp_path: Path, size: tuple[int, int]) -> None:
    (sequence,) = translate([still(tmp_path, size)], shift=3)
    frames = list(sequence)[2:]
    assert len(frames) == 4
    for frame in frames:
        assert frame.labels is not None
        assert np.array_equal(frame.image[..., 0], frame.labels)
    assert not np.array_equal(frames[0].image, frames[1].image)


def test_only_frames_2_to_5_are_scored(tmp_path: Path) -> None:
    (sequence,) = translate([still(tmp_path, (40, 30))], shift=3)
    assert [frame.index for frame in sequence if frame.labels is not None] == [2, 3, 4, 5]
    assert [frame.index for frame in replace(sequence, every=2)] == [0, 2, 4]


def test_trap_17_a_square_picture_moves_vertically() -> None:
    picture = np.arange(30 * 30).reshape(30, 30)
    assert np.array_equal(window(picture, 3, shift=2), picture[6:26])


def test_trap_17_a_short_picture_is_refused_by_name(tmp_path: Path) -> None:
    (sequence,) = translate([still(tmp_path, (40, 30))], shift=8)
    with pytest.raises(DataError, match=r"still\.png is 40x30: 5 shifts of 8 px leave 0 px of its longer side"):
        next(iter(sequence))
    assert len(list(translate([still(tmp_path, (41, 30))], shift=8)[0])) == 6


def test_every_picture_of_clips_and_folders_becomes_a_sequence(tmp_path: Path) -> None:
    for number in range(5):
        save(tmp_path / "pictures" / f"{number}.png", scene(20, 10, number))
    sequences = read_data(tmp_path / "pictures", layout="translated(shift=2)")
    assert [clip.name for clip in sequences] == [f"pictures/{number}" for number in range(5)]
    assert {clip.labelled for clip in sequences} == {0}
    assert len(read_data(tmp_path / "pictures", layout="translated(shift=2, every=2)")) == 3


def test_of_clips_with_labels_the_labelled_pictures_are_taken(tmp_path: Path) -> None:
    for number in range(4):
        save(tmp_path / "a" / "images" / f"{number}.png", scene(20, 10, number))
    save(tmp_path / "a" / "labels" / "2.png", np.zeros((10, 20), np.uint8))
    (tmp_path / "classes.json").write_text('{"classes": ["one", "two"]}')
    assert [clip.name for clip in translate(read_data(tmp_path), shift=2)] == ["a/2"]


def test_what_is_no_still_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a\.mp4 is a video; translated sequences are made from pictures"):
        translate([Clip("a", Path("a.mp4"))])
    with pytest.raises(UsageError, match="is already translated"):
        translate(translate([still(tmp_path, (40, 30))]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shift": -1}, "shift is -1"),
        ({"shift": 1.5}, "shift is 1.5"),
    ],
)
def test_wrong_options(options: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        translate([], **options)
