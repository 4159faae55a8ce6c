"""Cityscapes: 2048x1024 street scenes of 19 classes, each labelled frame the 20th of a snippet of 30 at 17 Hz.

DATA/leftImg8bit_sequence/SPLIT/CITY/CITY_SEQUENCE_FRAME_leftImg8bit.png      the snippets, if there
DATA/leftImg8bit/SPLIT/CITY/CITY_SEQUENCE_FRAME_leftImg8bit.png               else the labelled frames alone
DATA/gtFine/SPLIT/CITY/CITY_SEQUENCE_FRAME_gtFine_labelIds.png                or _labelTrainIds.png
"""

from __future__ import annotations

from pathlib import Path

from clockseg.datasets._files import files, folders, missing, required
from clockseg.datasets.classes import Classes
from clockseg.datasets.clips import Clip
from clockseg.datasets.labels import Mapped, read_labels_png
from clockseg.errors import DataError, UsageError, whole_number

WHERE = "Get it from www.cityscapes-dataset.com; docs/datasets.md shows what goes where."
SEQUENCES, STILLS = "leftImg8bit_sequence", "leftImg8bit"
BEFORE, AFTER = 19, 10
"""Frames of a snippet before and after the labelled one."""

NAMES = (
    "road", "sidewalk", "building", "wall", "fence", "pole", "traffic light", "traffic sign", "vegetation",
    "terrain", "sky", "person", "rider", "car", "truck", "bus", "train", "motorcycle", "bicycle",
)  # fmt: skip
PALETTE = (
    (128, 64, 128), (244, 35, 232), (70, 70, 70), (102, 102, 156), (190, 153, 153), (153, 153, 153), (250, 170, 30),
    (220, 220, 0), (107, 142, 35), (152, 251, 152), (70, 130, 180), (220, 20, 60), (255, 0, 0), (0, 0, 142),
    (0, 0, 70), (0, 60, 100), (0, 80, 100), (0, 0, 230), (119, 11, 32),
)  # fmt: skip
CLASSES = Classes(NAMES, PALETTE, fps=17)
LABEL_IDS = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
"""The id in labelIds files of each class (trainId); all others are ignored."""
READ_LABEL_IDS = Mapped.of({id: train_id for train_id, id in enumerate(LABEL_IDS)}, others=CLASSES.ignore)


def matches(path: Path) -> bool:
    """Return True if a folder looks like Cityscapes."""
    return (path / SEQUENCES).is_dir() or (path / STILLS).is_dir()


def read(
    path: Path, *, split: str = "val", sequences: bool | None = None, before: int = BEFORE, after: int = AFTER
) -> list[Clip]:
    """Return a clip for each labelled frame of ``split``: its snippet, or the frame alone.

    ``sequences``: True to read snippets (default: if they exist). ``before``, ``after``: the number of frames around
    the labelled one; the paper takes 19 and 0. ``DataError`` names what is missing.

    >>> read(Path("nowhere"))
    Traceback (most recent call last):
        ...
    clockseg.errors.DataError: nowhere/gtFine/val is missing: label maps, CITY/CITY_SEQUENCE_FRAME_gtFine_labelIds.png.
    Get it from www.cityscapes-dataset.com; docs/datasets.md shows what goes where.
    """
    if whole_number(before, "before", least=0) > BEFORE or whole_number(after, "after", least=0) > AFTER:
        raise UsageError(
            f"before={before}, after={after}; a snippet has {BEFORE} frames before the labelled one, {AFTER} after."
        )
    if sequences is None:
        sequences = (path / f"{SEQUENCES}/{split}").is_dir()
    images = path / f"{SEQUENCES if sequences else STILLS}/{split}"
    around = range(-before, after + 1) if sequences else range(1)
    labels = _labels(path / f"gtFine/{split}")
    return [_clip(label, images / label.parent.name, around) for label in labels]


def _labels(folder: Path) -> list[Path]:
    """Return the files of one kind: labelIds, as downloaded, else labelTrainIds, as made by the scripts of Cityscapes."""
    found = [file for city in folders(folder) for file in files(city, (".png",))]
    for kind in ("labelIds", "labelTrainIds"):
        these = [file for file in found if file.stem.endswith(f"_gtFine_{kind}")]
        if these:
            return these
    raise missing(folder, "label maps, CITY/CITY_SEQUENCE_FRAME_gtFine_labelIds.png", WHERE)


def _clip(label: Path, folder: Path, around: range) -> Clip:
    stem = label.name.partition("_gtFine_")[0]
    start, _, number = stem.rpartition("_")
    if not number.isdigit():
        raise DataError(f"label {label} is not named CITY_SEQUENCE_FRAME_gtFine_labelIds.png. {WHERE}")
    names = (f"{start}_{int(number) + offset:0{len(number)}}_leftImg8bit.png" for offset in around)
    images = tuple(required(folder / name, f"a frame of the snippet around {label.name}", WHERE) for name in names)
    labels = tuple(label if offset == 0 else None for offset in around)
    read_labels = READ_LABEL_IDS if label.stem.endswith("_labelIds") else read_labels_png
    return Clip(stem, folder, images, labels, CLASSES, read_labels=read_labels)
