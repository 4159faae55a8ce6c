"""CamVid in the layout in which it is mostly passed on: 11 classes, 480x360, a folder a split.

    DATA/train/NAME.png    DATA/trainannot/NAME.png      grey class ids 0..10, 11 is void
    DATA/val/..            DATA/valannot/..
    DATA/test/..           DATA/testannot/..

NAME is DRIVE_FRAME (0016E5_07959): each drive of a split is a clip. Only some of its frames were labelled, so they are
up to a second apart.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import numpy as np

from clockseg.datasets._files import missing, pictures
from clockseg.datasets.classes import Classes
from clockseg.datasets.clips import Clip
from clockseg.datasets.labels import read_labels_png
from clockseg.types import Labels

WHERE = "docs/datasets.md says where to get CamVid and shows what goes where."
SPLITS = ("train", "val", "test")
VOID = 11
NAMES = (
    "sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car", "pedestrian", "bicyclist",
)  # fmt: skip
PALETTE = (
    (128, 128, 128), (128, 0, 0), (192, 192, 128), (128, 64, 128), (60, 40, 222), (128, 128, 0), (192, 128, 128),
    (64, 64, 128), (64, 0, 128), (64, 64, 0), (0, 128, 192),
)  # fmt: skip
CLASSES = Classes(NAMES, PALETTE)


def matches(path: Path) -> bool:
    """Return True if a folder looks like CamVid."""
    return any((path / split).is_dir() and (path / f"{split}annot").is_dir() for split in SPLITS)


def read(path: Path, *, split: str = "val") -> list[Clip]:
    """A clip for each drive of ``split``, every frame labelled. ``DataError`` names what is missing.

    >>> read(Path("nowhere"), split="test")
    Traceback (most recent call last):
        ...
    clockseg.errors.DataError: nowhere/test is missing: the pictures of the split 'test'. docs/datasets.md says
    where to get CamVid and shows what goes where.
    """
    folder = path / f"{split}"
    found = pictures(folder)
    if not found:
        raise missing(folder, f"the pictures of the split {split!r}", WHERE)
    return [_clip(drive, tuple(files), path / f"{split}annot") for drive, files in groupby(found, key=_drive)]


def _drive(picture: Path) -> str:
    return picture.stem.rpartition("_")[0] or picture.parent.name


def _clip(drive: str, images: tuple[Path, ...], annotations: Path) -> Clip:
    labels = tuple(annotations / f"{image.stem}.png" for image in images)
    for label in labels:
        if not label.is_file():
            raise missing(label, "the label map of a picture", WHERE)
    return Clip(drive, images[0].parent, images, labels, CLASSES, read_labels=read_ids)


def read_ids(path: Path) -> Labels:
    """The label map in a file, 11 (void) turned into 255: uint8 [h, w]."""
    labels = read_labels_png(path)
    return np.where(labels == VOID, np.uint8(CLASSES.ignore), labels)
