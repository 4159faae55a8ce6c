"""Cityscapes: a snippet around each labelled frame, and ids through a table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clockseg.datasets import official
from clockseg.datasets.official import CITYSCAPES, CITYSCAPES_LABELS
from clockseg.errors import DataError, UsageError
from dataset_trees import cityscapes, labels, save

IDS = {
    7: "road", 8: "sidewalk", 11: "building", 12: "wall", 13: "fence", 17: "pole", 19: "traffic light",
    20: "traffic sign", 21: "vegetation", 22: "terrain", 23: "sky", 24: "person", 25: "rider", 26: "car", 27: "truck",
    28: "bus", 31: "train", 32: "motorcycle", 33: "bicycle",
}  # fmt: skip


def train_ids(label_ids: np.ndarray) -> np.ndarray:
    """Return label ids of any integer type as train ids, by the layout's table."""
    return CITYSCAPES_LABELS.table[label_ids]


def test_trap_14_label_ids_go_through_a_table_and_minus_1_is_void() -> None:
    ids = np.arange(-1, 34)
    names = [CITYSCAPES.names[found] if found != 255 else None for found in train_ids(ids)]
    assert names == [IDS.get(number) for number in ids]
    assert train_ids(np.arange(34, 256)).tolist() == [255] * 222
    assert train_ids(ids.astype(np.uint8)).dtype == np.uint8


@pytest.mark.parametrize("kind", ["labelIds", "labelTrainIds"])
def test_labels_are_train_ids(tmp_path: Path, kind: str) -> None:
    clip = official.cityscapes(cityscapes(tmp_path, kind=kind))[0]
    found = clip.frame(19).labels
    stored = labels(32, 16, range(34) if kind == "labelIds" else [*range(19), 255])
    assert np.array_equal(found, train_ids(stored) if kind == "labelIds" else stored)


def test_label_ids_are_taken_where_both_are_there(tmp_path: Path) -> None:
    cityscapes(cityscapes(tmp_path), kind="labelTrainIds")
    clips = official.cityscapes(tmp_path)
    assert [clip.labels[19].name for clip in clips if clip.labels[19] is not None] == [
        "aachen_000000_000019_gtFine_labelIds.png",
        "bochum_000000_000313_gtFine_labelIds.png",
    ]


def test_the_labelled_frame_is_the_twentieth_of_thirty(tmp_path: Path) -> None:
    clips = official.cityscapes(cityscapes(tmp_path))
    assert [clip.name for clip in clips] == ["aachen_000000_000019", "bochum_000000_000313"]
    for clip in clips:
        assert [int(frame.image[0, 0, 0]) for frame in clip] == list(range(81, 111))
        assert clip.labelled_indices() == [19]
        assert clip.classes == CITYSCAPES


def test_the_papers_clips_end_with_the_labelled_frame(tmp_path: Path) -> None:
    for clip in official.cityscapes(cityscapes(tmp_path), before=9, after=0):
        assert (len(clip.images), clip.labelled_indices()) == (10, [9])
        assert clip.frame(9).image[0, 0, 0] == 100


def test_without_sequences_the_frames_alone(tmp_path: Path) -> None:
    cityscapes(tmp_path, sequences=False)
    assert [[frame.labels is not None for frame in clip] for clip in official.cityscapes(tmp_path)] == [[True], [True]]
    cityscapes(tmp_path)
    assert [len(clip.images) for clip in official.cityscapes(tmp_path)] == [30, 30]
    assert [len(clip.images) for clip in official.cityscapes(tmp_path, before=0, after=0)] == [1, 1]


def test_nineteen_classes() -> None:
    assert (len(CITYSCAPES.names), len(set(CITYSCAPES.palette))) == (19, 19)
    assert CITYSCAPES.palette[CITYSCAPES.names.index("car")] == (0, 0, 142)


@pytest.mark.parametrize("options", [{"before": 20}, {"after": 11}])
def test_wrong_options(tmp_path: Path, options: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="19 frames before the labelled one, 10 after"):
        official.cityscapes(tmp_path, **options)


def test_a_label_of_another_name(tmp_path: Path) -> None:
    save(tmp_path / "gtFine" / "val" / "ulm" / "ulm_first_gtFine_labelIds.png", np.zeros((4, 4), np.uint8))
    with pytest.raises(DataError, match="is not named CITY_SEQUENCE_FRAME_gtFine_labelIds"):
        official.cityscapes(tmp_path)
