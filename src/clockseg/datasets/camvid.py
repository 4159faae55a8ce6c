"""CamVid in its most common layout: 11 classes, 480x360, one folder per split.

    DATA/train/NAME.png    DATA/trainannot/NAME.png      grey class ids 0..10, 11 is void
    DATA/val/..            DATA/valannot/..
    DATA/test/..           DATA/testannot/..

NAME is DRIVE_FRAME (0016E5_07959): each drive of a split is a clip. It contains only labelled frames, which are up to a
second apart.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from clockseg.datasets._files import missing, pictures, required
from clockseg.datasets.classes import Classes
from clockseg.datasets.clips import Clip
from clockseg.datasets.labels import Mapped

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
READ_LABELS = Mapped.of({VOID: CLASSES.ignore}, others=None)


def matches(path: Path) -> bool:
    """Return True if a folder looks like CamVid."""
    return any((path / split).is_dir() and (path / f"{split}annot").is_dir() for split in SPLITS)


def read(path: Path, *, split: str = "val") -> list[Clip]:
    """Return a clip for each drive of ``split``, with labels for every frame. ``DataError`` names what is missing.

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
    labels = tuple(required(annotations / f"{image.stem}.png", "the label map of a picture", WHERE) for image in images)
    return Clip(drive, images[0].parent, images, labels, CLASSES, read_labels=READ_LABELS)
