"""NYU Depth V2: indoor scenes of 40 classes; clips of raw frames that lead to, or lie around, a labelled one.

    DATA/raw/SCENE/r-TIMESTAMP-NUMBER.ppm     the raw data set's colour frames, 640x480
    DATA/labels/NAME.png                      560x425, grey: 1..40, and 0 where there is no label
    DATA/SPLIT.txt                            a line a labelled frame: NAME SCENE/r-TIMESTAMP-NUMBER.ppm

Which raw frame a label belongs to is in the labelled data set (``rawRgbFilenames``); docs/datasets.md shows how the
lists and the label maps are made of it. Raw frames are cut to the labels' window, rows 44 to 469 and columns 40 to 600.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from clockseg.datasets._files import files, missing, read_lines, required
from clockseg.datasets.classes import Classes
from clockseg.datasets.clips import Clip, read_picture
from clockseg.datasets.labels import Mapped
from clockseg.datasets.pascal import colours
from clockseg.errors import DataError, whole_number
from clockseg.types import Image

WHERE = "Get it from the NYU Depth V2 page at cs.nyu.edu; docs/datasets.md shows what goes where."
ROWS, COLUMNS = slice(44, 469), slice(40, 600)
NAMES = (
    "wall", "floor", "cabinet", "bed", "chair", "sofa", "table", "door", "window", "bookshelf", "picture",
    "counter", "blinds", "desk", "shelves", "curtain", "dresser", "pillow", "mirror", "floor mat", "clothes",
    "ceiling", "books", "refrigerator", "television", "paper", "towel", "shower curtain", "box", "whiteboard",
    "person", "night stand", "toilet", "sink", "lamp", "bathtub", "bag", "other structure", "other furniture",
    "other prop",
)  # fmt: skip
CLASSES = Classes(NAMES, colours(len(NAMES) + 1)[1:])
READ_LABELS = Mapped.of({id: (id - 1) % 256 for id in range(256)}, others=None)
"""Stored ids start at 1; 0 means no label and becomes 255."""


def read_frame(path: Path) -> Image:
    """Read a raw frame, cropped to the labelled window: uint8 RGB [425, 560, 3]."""
    image = read_picture(path)
    if image.shape[:2] != (480, 640):
        raise DataError(f"picture {path} is {image.shape[1]}x{image.shape[0]}; raw frames are 640x480. {WHERE}")
    return np.ascontiguousarray(image[ROWS, COLUMNS])


def matches(path: Path) -> bool:
    """Return True if a folder looks like NYUD as laid out here."""
    return (path / "raw").is_dir() and (path / "labels").is_dir()


def read(path: Path, *, split: str = "test", skip: int = 10, before: int = 2, after: int = 0) -> list[Clip]:
    """Return a clip for each labelled frame in the list ``split``: every ``skip``-th raw frame around it, in order of time.

    ``before``, ``after``: the number of these before and after the labelled frame, as far as the scene reaches; the
    paper walks backwards for fixed rates and pipelines, both ways for adaptive clocks. ``DataError`` names what is
    missing.

    >>> read(Path("nowhere"))
    Traceback (most recent call last):
        ...
    clockseg.errors.DataError: nowhere/test.txt is missing: the list of labelled frames, lines of NAME
    SCENE/r-TIMESTAMP-NUMBER.ppm. Get it from the NYU Depth V2 page at cs.nyu.edu; docs/datasets.md shows what goes
    where.
    """
    whole_number(skip, "skip")
    around = range(-whole_number(before, "before", least=0), whole_number(after, "after", least=0) + 1)
    what = "the list of labelled frames, lines of NAME SCENE/r-TIMESTAMP-NUMBER.ppm"
    file = required(path / f"{split}.txt", what, WHERE)
    scenes: dict[Path, list[Path]] = {}
    clips = []
    for name, frame in _pairs(file):
        picture = path / "raw" / frame
        if picture.parent not in scenes:
            scenes[picture.parent] = in_time(files(picture.parent, (".ppm",)))
        clips.append(
            _clip(path / "labels" / f"{name}.png", picture, scenes[picture.parent], [skip * step for step in around])
        )
    return clips


def in_time(frames: tuple[Path, ...]) -> list[Path]:
    """Sort raw frames by their timestamps, whose order differs from that of their names.

    >>> [frame.name for frame in in_time((Path("r-10.5-1.ppm"), Path("r-9.75-2.ppm"), Path("r-9.8-3.ppm")))]
    ['r-9.75-2.ppm', 'r-9.8-3.ppm', 'r-10.5-1.ppm']
    """
    return sorted(frames, key=_timestamp)


def _timestamp(frame: Path) -> float:
    found = re.fullmatch(r"r-(\d+(?:\.\d+)?)-\d+", frame.stem)
    if found is None:
        raise DataError(f"{frame} is not named r-TIMESTAMP-NUMBER.ppm. {WHERE}")
    return float(found[1])


def _pairs(file: Path) -> list[tuple[str, str]]:
    pairs = [line.split() for line in read_lines(file)]
    for pair in pairs:
        if len(pair) != 2:
            raise DataError(f"{file}: {' '.join(pair)!r} is not NAME SCENE/r-TIMESTAMP-NUMBER.ppm. {WHERE}")
    return [(name, frame) for name, frame in pairs]


def _clip(label: Path, picture: Path, scene: list[Path], offsets: list[int]) -> Clip:
    required(label, "a label map that the list names", WHERE)
    if picture not in scene:
        raise missing(picture, f"the raw frame of {label.stem}", WHERE)
    at = scene.index(picture)
    indices = [at + offset for offset in offsets if 0 <= at + offset < len(scene)]
    return Clip(
        label.stem,
        picture.parent,
        tuple(scene[index] for index in indices),
        tuple(label if index == at else None for index in indices),
        CLASSES,
        read_image=read_frame,
        read_labels=READ_LABELS,
    )
