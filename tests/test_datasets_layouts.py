"""Layouts by name: what is read, what is detected, what each error names, and the command line."""

from __future__ import annotations

import json
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clockseg.cli.main import main
from clockseg.datasets import LAYOUTS, Clip, Layout, official, parse_layout, read_data
from clockseg.datasets.official import PASCAL, YOUTUBE_OBJECTS
from clockseg.errors import DataError, UsageError
from dataset_trees import camvid, cityscapes, davis, nyud, save, scene, voc, write_list, youtube
from networks import TINY, write_tiny
from video_making import write_video

IDS = ["2007_000033", "2008_000001"]
TREES: dict[str, Callable[[Path], object]] = {
    "pascal": lambda root: voc(root, IDS),
    "nyud": nyud,
    "youtube_objects": youtube,
    "cityscapes": cityscapes,
    "camvid": camvid,
    "davis": davis,
}


@pytest.fixture(params=sorted(TREES), scope="module")
def tree(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    root = tmp_path_factory.mktemp(request.param)
    TREES[request.param](root)
    return request.param, root


def test_each_layout_is_told_by_its_folders(tree: tuple[str, Path]) -> None:
    name, root = tree
    assert read_data(root) == read_data(root, layout=name) == Layout(name, LAYOUTS[name]).read(root)


def test_clips_of_each_layout_can_be_sent_to_another_process(tree: tuple[str, Path]) -> None:
    for clip in read_data(tree[1], limit=3):
        sent = pickle.loads(pickle.dumps(clip))
        assert sent == clip
        for there, here in zip(sent, clip, strict=True):
            assert np.array_equal(there.image, here.image)
            assert there.labels is here.labels is None or np.array_equal(there.labels, here.labels)


def test_nothing_is_decoded_before_it_is_asked_for(tree: tuple[str, Path], tmp_path: Path) -> None:
    name, root = tree
    copy = shutil.copytree(root, tmp_path / "copy")
    for file in copy.rglob("*.*"):
        if file.suffix in (".jpg", ".png", ".ppm"):
            file.write_bytes(b"nothing")
    assert [clip.name for clip in read_data(copy, layout=name)] == [clip.name for clip in read_data(root, layout=name)]


def test_every_and_limit_of_each_layout(tree: tuple[str, Path]) -> None:
    for clip, thinned in zip(read_data(tree[1]), read_data(tree[1], every=2, limit=2), strict=True):
        assert list(thinned.taken or ()) == list(range(0, len(clip.images), 2))[:2]


def test_folders_that_tell_nothing_are_clip_folders(tmp_path: Path) -> None:
    save(tmp_path / "one.png", scene(8, 6))
    (clip,) = read_data(tmp_path)
    assert (len(clip.images), clip.classes) == (1, None)


def test_a_file_is_a_video(tmp_path: Path) -> None:
    file = write_video(tmp_path / "drive.mp4", [scene(32, 16, seed) for seed in range(3)])
    (clip,) = read_data(file)
    assert (clip.taken, len(list(clip))) == (None, 3)


def test_folders_that_fit_two_layouts(tmp_path: Path) -> None:
    voc(tmp_path, IDS)
    camvid(tmp_path)
    with pytest.raises(DataError, match=r"matches the layouts pascal and camvid; choose one"):
        read_data(tmp_path)


# Names


def test_a_layout_is_a_name_or_a_call() -> None:
    assert parse_layout("pascal") == Layout("pascal", official.pascal)
    assert parse_layout("pascal(split='train')") == Layout("pascal", official.pascal, {"split": "train"})
    found = parse_layout("translated(shift=16, of=cityscapes(before=0))")
    assert found.options == {"shift": 16, "of": Layout("cityscapes", official.cityscapes, {"before": 0})}


def read_mine(path: Path) -> list[Clip]:
    """A layout of one's own."""
    return [Clip("mine", path, (path / "one.png",), (None,))]


def test_a_layout_of_ones_own() -> None:
    (clip,) = read_data("here", layout=Layout("mine", read_mine), every=2)
    assert (clip.name, clip.every) == ("mine", 2)
    assert parse_layout("posixpath:split").function.__name__ == "split"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pascl", "there is no layout 'pascl'. Did you mean pascal"),
        ("pascal(spilt='val')", "layout pascal has no option 'spilt'. Did you mean split"),
        ("clips(size=3)", "layout clips has no option 'size'; it takes none"),
        ("translated(of=3)", "layout is 3; give one of clips"),
        ("translated(every='2')", "every is '2'; it must be a whole number"),
        ("nyud(skip='10')", "skip is '10'; it must be a whole number"),
        ("cityscapes(before=-1)", "before is -1; it must be a whole number of at least 0"),
        ("3", "layout '3' is 3; give one of clips, translated, pascal"),
        ("pascal(", "can't be read"),
        ("no.such:thing", "can't be imported"),
    ],
)
def test_wrong_names(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("(", r"\(")):
        read_data("nowhere", layout=text)


# What is missing


@pytest.mark.parametrize(
    ("name", "piece", "message"),
    [
        ("pascal", "VOCdevkit/VOC2011/JPEGImages", r"JPEGImages is missing: the pictures, ID\.jpg"),
        ("pascal", "VOCdevkit/VOC2011/SegmentationClass", "SegmentationClass is missing: the label maps"),
        (
            "pascal",
            "VOCdevkit/VOC2011/ImageSets/Segmentation/val.txt",
            r"val\.txt is missing: .* lists there are: none",
        ),
        ("pascal", f"VOCdevkit/VOC2011/JPEGImages/{IDS[0]}.jpg", f"{IDS[0]}.jpg is missing"),
        ("pascal", f"VOCdevkit/VOC2011/SegmentationClass/{IDS[1]}.png", f"{IDS[1]}.png is missing"),
        ("nyud", "test.txt", r"test\.txt is missing: the list of labelled frames"),
        ("nyud", "labels/5001.png", r"5001\.png is missing: a label map that the list names"),
        ("nyud", "raw", r"kitchen_0004/r-1000000003-.*ppm is missing: the raw frame of 5001"),
        ("youtube_objects", "cat", "of another class"),
        ("youtube_objects", "cat/data/0003/shots/001/images", "images is missing: the frames of the shot"),
        ("youtube_objects", "cat/data/0003/shots/001/images/frame0031.jpg", r"frame0031\.jpg is missing: frame 31"),
        ("cityscapes", "gtFine", "gtFine/val is missing: label maps"),
        (
            "cityscapes",
            "leftImg8bit_sequence/val/bochum/bochum_000000_000300_leftImg8bit.png",
            r"000300_leftImg8bit\.png is missing: a frame of the snippet around bochum_000000_000313_gtFine",
        ),
        ("camvid", "val", "val is missing: the pictures of the split 'val'"),
        ("camvid", "valannot/0016E5_07961.png", r"valannot/0016E5_07961\.png is missing: the label map of a picture"),
        ("davis", "JPEGImages", "JPEGImages is missing: a folder of pictures for each shot"),
        ("davis", "Annotations/480p/dog", "Annotations/480p/dog is missing: the masks of dog"),
    ],
)
def test_the_missing_piece_is_named_and_where_to_look(tmp_path: Path, name: str, piece: str, message: str) -> None:
    TREES[name](tmp_path)
    gone = tmp_path / piece
    if name == "youtube_objects" and piece == "cat":
        shutil.rmtree(tmp_path / "train")
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    with pytest.raises(DataError, match=message) as told:
        read_data(tmp_path, layout=name)
    assert "docs/datasets.md" in str(told.value)
    assert f"\n## {name}\n" in (Path(__file__).parents[1] / "docs/datasets.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [name for name in LAYOUTS if name != "translated"])
def test_a_path_that_is_not_there(name: str) -> None:
    with pytest.raises(DataError, match="nowhere"):
        read_data("nowhere", layout=name)


def test_an_empty_list_names_its_layout(tmp_path: Path) -> None:
    voc(tmp_path, [])
    for folder in ("JPEGImages", "SegmentationClass"):
        (tmp_path / "VOCdevkit" / "VOC2011" / folder).mkdir()
    with pytest.raises(DataError, match="layout pascal finds no clip in it"):
        read_data(tmp_path)


# The command line


def evaluated(capsys: pytest.CaptureFixture[str], *args: object) -> dict:
    assert main(["evaluate", *map(str, args), "--quiet", "--json"]) == 0
    return json.loads(capsys.readouterr().out)["schedules"][0]


@pytest.fixture(scope="module")
def voc_network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sidecar = replace(TINY, classes=PASCAL.names, palette=())
    return write_tiny(tmp_path_factory.mktemp("network"), sidecar, classes=21)


def test_evaluate_on_youtube_objects_with_pascals_network(capsys, tmp_path, voc_network) -> None:
    data = youtube(tmp_path)
    found = evaluated(capsys, data, "--layout", "youtube_objects", "--every", 10, "--network", voc_network)
    assert list(found["iu"]) == list(YOUTUBE_OBJECTS.names)
    assert found["mean_iu"] is not None
    assert found["fire_rate"]["deep"] == 0.5


def test_evaluate_on_translated_pictures(capsys, tmp_path, voc_network) -> None:
    write_list(voc(tmp_path, IDS) / "ImageSets" / "Segmentation" / "sbd-train.txt", [])
    layout = "translated(shift=2, of=pascal(split='seg11valid'))"
    found = evaluated(capsys, tmp_path, "--layout", layout, "--network", voc_network)
    assert list(found["iu"]) == list(PASCAL.names)
    assert found["fire_rate"] == {"low": 1, "mid": 1, "deep": 4 / 10}


@pytest.mark.parametrize("layout", ["pascl", "pascal(spilt='val')", "translated(shift=-1)"])
def test_a_wrong_layout_ends_with_2(capsys, tmp_path, layout) -> None:
    assert main(["evaluate", str(voc(tmp_path, IDS)), "--layout", layout]) == 2
    assert "clockseg: error: " in capsys.readouterr().err


def test_the_layouts_in_the_docs_are_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[1] / "docs" / "datasets.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^## (\w+)$", page, re.MULTILINE)) == set(LAYOUTS)
    calls = "|".join(LAYOUTS)
    found = re.findall(rf"[`\"]((?:{calls})\(.*?\))[`\"]", page)
    assert len(found) >= 8
    for call in found:
        assert parse_layout(call).options


def test_finding_clips_loads_nothing_heavier_than_video() -> None:
    code = "import sys, clockseg.datasets; print(*sorted({'torch', 'scipy', 'PIL', 'openvino'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


@pytest.mark.parametrize("function", [lambda path: ["a.jpg"], lambda path: path.name, lambda path: None])
def test_a_layout_of_ones_own_that_gives_no_clips_is_told(tmp_path: Path, function: Callable[[Path], object]) -> None:
    with pytest.raises(UsageError, match=r"layout mine returns .* it must return a list of Clip"):
        read_data(tmp_path, layout=Layout("mine", function))
