"""NYU Depth V2: raw frames in time, walked around a labelled one; labels less 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clockseg.datasets import official
from clockseg.errors import DataError, UsageError
from clockseg.video.images import natural_key
from dataset_trees import labels, nyud, save, scene, write_list


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return nyud(tmp_path_factory.mktemp("nyud"))


def shown(path: Path, **options: int) -> list[list[int]]:
    """The number of each frame, which its pixels hold."""
    return [[int(frame.image[0, 0, 0]) for frame in clip] for clip in official.nyud(path, **options)]


def test_raw_frames_are_in_order_of_time_and_not_of_name(data: Path) -> None:
    frames = sorted((data / "raw" / "kitchen_0004").iterdir())
    assert official.nyud(data, skip=1, before=4, after=4)[0].images != tuple(
        sorted(frames, key=lambda frame: natural_key(frame.name))[36:45]
    )
    assert shown(data, skip=1, before=4, after=4)[0] == list(range(36, 45))


def test_backwards_or_both_ways_as_far_as_the_scene_goes(data: Path) -> None:
    assert shown(data) == [[20, 30, 40], [5]]
    assert shown(data, before=10) == [[0, 10, 20, 30, 40], [5]]
    assert shown(data, skip=2, before=1, after=2) == [[38, 40, 42, 44], [3, 5, 7, 9]]


def test_the_labelled_frame_is_the_one_of_the_list(data: Path) -> None:
    clips = official.nyud(data, skip=2, before=1, after=2)
    assert [clip.name for clip in clips] == ["5001", "5007"]
    for clip, number in zip(clips, (40, 5), strict=True):
        (frame,) = (frame for frame in clip if frame.labels is not None)
        assert frame.image[0, 0, 0] == number
        assert (frame.image.shape, clip.labelled) == ((425, 560, 3), 1)


def test_raw_frames_are_cut_to_rows_44_to_469_and_columns_40_to_600(tmp_path: Path) -> None:
    picture = scene(640, 480)
    found = official.read_nyud_frame(save(tmp_path / "r-1-1.ppm", picture))
    assert np.array_equal(found, picture[44:469, 40:600])
    with pytest.raises(DataError, match=r"is 560x425; raw frames are 640x480"):
        official.read_nyud_frame(save(tmp_path / "cut.ppm", found))


def test_trap_14_void_wraps_to_255_and_the_rest_is_one_less(tmp_path: Path) -> None:
    found = official.NYUD_LABELS(save(tmp_path / "label.png", np.arange(41, dtype=np.uint8)[None]))
    assert found.dtype == np.uint8
    assert found[0].tolist() == [255, *range(40)]


def test_forty_classes_and_void(data: Path) -> None:
    clip = official.nyud(data)[0]
    assert clip.classes is not None
    assert (len(set(clip.classes.names)), clip.classes.names[0], clip.classes.names[39]) == (40, "wall", "other prop")
    (frame,) = (frame for frame in clip if frame.labels is not None)
    wanted = labels(560, 425, range(41)).astype(int) - 1
    assert np.array_equal(frame.labels, np.where(wanted < 0, 255, wanted))


def test_an_id_beyond_40_is_refused(tmp_path: Path) -> None:
    data = nyud(tmp_path, frames=41)
    save(data / "labels" / "5001.png", labels(560, 425, [0, 41]))
    with pytest.raises(DataError, match="holds 40; there are 40 classes"):
        list(official.nyud(data)[0])


@pytest.mark.parametrize("options", [{"skip": 0}, {"before": -1}, {"after": -1}])
def test_wrong_options(data: Path, options: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="must be a whole number of at least"):
        official.nyud(data, **options)


def test_lists_and_names_that_are_something_else(tmp_path: Path) -> None:
    write_list(tmp_path / "test.txt", ["5001"])
    with pytest.raises(DataError, match=r"'5001' is not NAME SCENE/r-TIMESTAMP-NUMBER\.ppm"):
        official.nyud(tmp_path)
    save(tmp_path / "labels" / "5001.png", labels(4, 4, [0]))
    write_list(tmp_path / "test.txt", ["5001 a/frame.jpg"])
    save(tmp_path / "raw" / "a" / "frame.jpg", scene(4, 4))
    with pytest.raises(DataError, match=r"frame\.jpg is missing: the raw frame of 5001"):
        official.nyud(tmp_path)
    write_list(tmp_path / "test.txt", ["5001 a/frame.ppm"])
    save(tmp_path / "raw" / "a" / "frame.ppm", scene(4, 4))
    with pytest.raises(DataError, match=r"frame\.ppm is not named r-TIMESTAMP-NUMBER\.ppm"):
        official.nyud(tmp_path)
