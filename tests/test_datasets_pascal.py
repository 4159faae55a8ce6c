"""PASCAL VOC: palette indices are ids, lists are clips, seg11valid is made of two of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from clockseg.datasets import official, read_labels_png
from clockseg.datasets.labels import read_index_png
from clockseg.datasets.official import PASCAL
from clockseg.errors import DataError
from dataset_trees import labels, save, voc, write_list

IDS = ["2009_000003", "2007_000033", "2008_000001"]


def test_a_clip_of_one_labelled_frame_an_id_in_the_order_of_the_list(tmp_path: Path) -> None:
    clips = official.pascal(voc(tmp_path, IDS))
    assert [clip.name for clip in clips] == IDS
    for seed, clip in enumerate(clips):
        (frame,) = clip
        assert frame.image.shape == (36, 50, 3)
        assert np.array_equal(frame.labels, labels(50, 36, [0, 1, 20, 255], seed))
        assert clip.classes is not None
        assert (len(clip.classes.names), clip.classes.names[15], clip.classes.ignore) == (21, "person", 255)


@pytest.mark.parametrize("place", ["", "VOCdevkit", "VOCdevkit/VOC2011"])
def test_the_devkit_is_found_from_above(tmp_path: Path, place: str) -> None:
    voc(tmp_path, IDS)
    assert len(official.pascal(tmp_path / place)) == 3


@pytest.mark.parametrize("colour", [False, True], ids=["grey", "palette"])
def test_the_palette_is_the_data_sets_own(tmp_path: Path, colour: bool) -> None:
    file = save(tmp_path / "label.png", labels(9, 7, range(21)), palette=colour)
    if colour:
        stored = np.asarray(Image.open(file).getpalette()).reshape(-1, 3)[:21]
        assert stored.tolist() == [list(each) for each in PASCAL.palette]
    assert np.array_equal(read_index_png(file), labels(9, 7, range(21)))


def test_the_first_colours_as_the_devkit_shows_them() -> None:
    assert PASCAL.palette[:3] == ((0, 0, 0), (128, 0, 0), (0, 128, 0))
    assert PASCAL.palette[15] == (192, 128, 128)
    assert PASCAL.palette[20] == (0, 64, 128)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_indices_of_fewer_bits(tmp_path: Path, bits: int) -> None:
    ids = labels(13, 6, range(2**bits if bits < 8 else 256))
    save(tmp_path / "label.png", ids, palette=True, bits=bits)
    assert np.array_equal(read_index_png(tmp_path / "label.png"), ids)


def test_elsewhere_a_palette_is_not_taken_for_ids(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds a palette"):
        read_labels_png(save(tmp_path / "label.png", labels(9, 7, [0, 1]), palette=True))


def test_colours_are_no_indices_and_a_cut_file_is_no_label(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds colours"):
        read_index_png(save(tmp_path / "rgb.png", np.zeros((4, 4, 3), np.uint8)))
    file = save(tmp_path / "label.png", labels(90, 70, range(21)), palette=True)
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(DataError, match="cut off or damaged"):
        read_index_png(file)


def test_seg11valid_is_val_of_2011_without_what_sbd_trains_on(tmp_path: Path) -> None:
    lists = voc(tmp_path, IDS) / "ImageSets" / "Segmentation"
    write_list(lists / "sbd-train.txt", ["2007_000033", "2007_999999"])
    assert [clip.name for clip in official.pascal(tmp_path, split="seg11valid")] == ["2009_000003", "2008_000001"]
    write_list(lists / "seg11valid.txt", ["2008_000001"])
    assert [clip.name for clip in official.pascal(tmp_path, split="seg11valid")] == ["2008_000001"]


def test_seg11valid_is_not_made_of_the_lists_of_2012(tmp_path: Path) -> None:
    year = voc(tmp_path, IDS)
    write_list(year / "ImageSets" / "Segmentation" / "sbd-train.txt", [])
    year.rename(year.with_name("VOC2012"))
    with pytest.raises(DataError, match=r"seg11valid\.txt is missing: the 736 ids"):
        official.pascal(tmp_path, split="seg11valid")


def test_another_folder_of_labels(tmp_path: Path) -> None:
    year = voc(tmp_path, IDS)
    save(year / "SegmentationClassAug" / f"{IDS[0]}.png", labels(50, 36, [5]))
    write_list(year / "ImageSets" / "Segmentation" / "trainaug.txt", IDS[:1])
    ((frame,),) = official.pascal(tmp_path, split="trainaug", labels="SegmentationClassAug")
    assert frame.labels is not None
    assert np.unique(frame.labels).tolist() == [5]
