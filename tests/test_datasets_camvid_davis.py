"""CamVid's folders of splits, and folders like those of DAVIS."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from clockseg.datasets import Clip, official, read_data
from clockseg.datasets.official import CAMVID, PASCAL
from clockseg.errors import UsageError
from dataset_trees import camvid, davis, labels
from video_making import data_folder


def label_maps(clip: Clip) -> list[np.ndarray]:
    return [frame.labels for frame in clip if frame.labels is not None]


def test_camvids_drives_are_clips_and_11_is_void(tmp_path: Path) -> None:
    clips = official.camvid(camvid(tmp_path))
    assert [(clip.name, clip.labelled) for clip in clips] == [("0016E5", 2), ("Seq05VD", 1)]
    found, stored = label_maps(clips[0])[1], labels(48, 36, range(12), 1)
    assert np.array_equal(found, np.where(stored == 11, 255, stored))
    assert [clip.name for clip in official.camvid(tmp_path, split="train")] == ["0001TP"]


def test_camvids_classes_are_those_of_the_shared_clips() -> None:
    file = data_folder() / "camvid" / "val" / "classes.json"
    if not file.is_file():
        pytest.skip("the shared CamVid clips are not here: set CLOCKSEG_DATA")
    shared = json.loads(file.read_text())
    assert list(CAMVID.names) == shared["classes"]
    assert [list(colour) for colour in CAMVID.palette] == shared["palette"]


@pytest.mark.parametrize("palette", [False, True], ids=["255", "objects"])
@pytest.mark.parametrize("resolution", ["480p", ""])
def test_whatever_davis_marks_is_one_class(tmp_path: Path, palette: bool, resolution: str) -> None:
    clips = official.davis(davis(tmp_path, resolution=resolution, palette=palette))
    assert [clip.name for clip in clips] == ["dog", "goat"]
    for number, found in enumerate(label_maps(clips[1])):
        assert np.array_equal(found, labels(32, 24, [0, 1, 2] if palette else [0, 255], number) > 0)
    assert clips[0].classes is not None
    assert clips[0].classes.names == ("background", "object")


def test_davis_lists_of_both_years(tmp_path: Path) -> None:
    davis(tmp_path)
    assert [clip.name for clip in official.davis(tmp_path, split="480p/val")] == ["goat"]
    assert [clip.name for clip in official.davis(tmp_path, split="2017/val")] == ["dog"]


def test_one_class_a_shot(tmp_path: Path) -> None:
    dog, goat = official.davis(davis(tmp_path), shots={"goat": "sheep", "dog": "dog"})
    assert dog.classes is not None
    assert (dog.classes.names, dog.classes == goat.classes) == (("background", "dog", "sheep"), True)
    assert set(np.unique(label_maps(dog)[0])) == {0, 1}
    assert set(np.unique(label_maps(goat)[0])) == {0, 2}
    table = dog.classes.lookup(PASCAL.names)
    assert [table[PASCAL.names.index(name)] for name in ("dog", "sheep", "person")] == [1, 2, 0]
    assert [clip.name for clip in official.davis(tmp_path, shots={"goat": "sheep"})] == ["goat"]


def test_a_shot_that_isnt_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no shot 'gaot' in .*480p\. Did you mean goat"):
        official.davis(davis(tmp_path), shots={"gaot": "sheep"})
    with pytest.raises(UsageError, match=r"shots is \('dog',\); give the class that each shot shows"):
        read_data(tmp_path, layout="davis(shots=['dog'])")


def test_masks_for_some_frames(tmp_path: Path) -> None:
    (davis(tmp_path) / "Annotations" / "480p" / "dog" / "00001.png").unlink()
    assert [clip.labelled for clip in official.davis(tmp_path)] == [2, 3]
