"""PASCAL VOC: still pictures of 21 classes, each a clip of one frame; translated, they are the paper's first videos.

    DATA/JPEGImages/ID.jpg                       DATA: VOCdevkit/VOC2012 or VOC2011, or a folder that holds it
    DATA/SegmentationClass/ID.png                the palette's index is the class id, 255 the void line
    DATA/ImageSets/Segmentation/SPLIT.txt        an id a line: the clips and their order

The paper scores on ``seg11valid``: the 736 ids of VOC2011's val that are not in the train list of SBD, on which its
networks were trained. The list is read from ``seg11valid.txt``; in VOC2011 it is made of ``val.txt`` and SBD's
``train.txt``, put beside it as ``sbd-train.txt``.
"""

from __future__ import annotations

from pathlib import Path

from clockseg.datasets._files import files, missing, read_lines, required
from clockseg.datasets.classes import Classes
from clockseg.datasets.clips import Clip
from clockseg.datasets.labels import read_index_png

WHERE = "Get the devkit from host.robots.ox.ac.uk/pascal/VOC; docs/datasets.md shows what goes where."
NAMES = (
    "background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip


def colours(count: int) -> tuple[tuple[int, int, int], ...]:
    """Return the first colours of PASCAL's palette, RGB: bit 3k + c of an id is bit 7 - k of channel c.

    >>> colours(3)
    ((0, 0, 0), (128, 0, 0), (0, 128, 0))
    """
    return tuple(_colour(number) for number in range(count))


def _colour(number: int) -> tuple[int, int, int]:
    red, green, blue = (sum((number >> 3 * k + channel & 1) << 7 - k for k in range(3)) for channel in range(3))
    return red, green, blue


CLASSES = Classes(NAMES, colours(len(NAMES)))


def matches(path: Path) -> bool:
    """Return True if a folder looks like PASCAL VOC."""
    return _root(path) is not None


def read(path: Path, *, split: str = "val", labels: str = "SegmentationClass") -> list[Clip]:
    """Return a clip of one labelled frame for each id in the list ``split``, in its order.

    ``labels``: the folder of the label maps, such as ``SegmentationClassAug`` for SBD's, converted to PNG.
    ``DataError`` names the folder, list or file that is missing.

    >>> read(Path("nowhere"))
    Traceback (most recent call last):
        ...
    clockseg.errors.DataError: nowhere/JPEGImages is missing: the pictures, ID.jpg. Get the devkit from
    host.robots.ox.ac.uk/pascal/VOC; docs/datasets.md shows what goes where.
    """
    root = _root(path) or path
    pictures, maps = root / "JPEGImages", root / f"{labels}"
    required(pictures, "the pictures, ID.jpg", WHERE)
    required(maps, "the label maps, ID.png", WHERE)
    names = _list(root / "ImageSets" / "Segmentation", split)
    return [_clip(name, pictures / f"{name}.jpg", maps / f"{name}.png") for name in names]


def _root(path: Path) -> Path | None:
    """Return the folder of one year, the newer one if there are two."""
    years = ("", "VOC2012", "VOC2011", "VOCdevkit/VOC2012", "VOCdevkit/VOC2011")
    found = (path / year for year in years)
    return next((root for root in found if (root / "ImageSets" / "Segmentation").is_dir()), None)


def _clip(name: str, picture: Path, label: Path) -> Clip:
    for file in (picture, label):
        required(file, f"a file of {name}, which is in the list", WHERE)
    return Clip(name, picture, (picture,), (label,), CLASSES, read_labels=read_index_png)


def _list(folder: Path, split: str) -> list[str]:
    file = folder / f"{split}.txt"
    if file.is_file():
        return read_lines(file)
    if split == "seg11valid":
        return _seg11valid(folder, file)
    there = ", ".join(found.stem for found in files(folder, (".txt",))) or "none"
    raise missing(file, f"the list of the pictures of {split!r}; the lists there are: {there}", WHERE)


def _seg11valid(folder: Path, file: Path) -> list[str]:
    # VOC2012's val is another, larger one.
    val, train = folder / "val.txt", folder / "sbd-train.txt"
    if folder.parents[1].name != "VOC2011" or not (val.is_file() and train.is_file()):
        what = "the 736 ids the paper scores; VOC2011 makes it of val.txt and SBD's train.txt (as sbd-train.txt) too"
        raise missing(file, what, WHERE)
    trained = set(read_lines(train))
    return [name for name in read_lines(val) if name not in trained]
