"""YouTube-Objects: shots of ten PASCAL classes; every tenth frame has a mask of the shot's class.

    DATA/CLASS/data/VIDEO/shots/SHOT/images/frameNNNN.jpg
    DATA/CLASS/data/VIDEO/shots/SHOT/labels/NNNNN.jpg        of the frame with that number, from 1: 1, 11, 21, ..

As in the authors' evaluation, frames and masks are scaled to a longer side of 500 pixels. The label is the class of the shot
where the mask, a JPEG, is brighter than 15, else background. No pixel is ignored; labels count from number 21 on.
All other classes of PASCAL are background, and predictions of these are mapped before anything is counted:

>>> from clockseg.datasets import pascal
>>> table = CLASSES.lookup(pascal.NAMES)
>>> [CLASSES.names[table[pascal.NAMES.index(name)]] for name in ("cat", "person", "train")]
['cat', 'background', 'train']
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clockseg.datasets._files import files, folders, missing
from clockseg.datasets.classes import Classes
from clockseg.datasets.clips import Clip, read_picture
from clockseg.datasets.pascal import CLASSES as PASCAL
from clockseg.errors import DataError, whole_number
from clockseg.types import Array, Image, Labels

WHERE = "docs/datasets.md says where to get frames and masks, and shows what goes where."
LONGER_SIDE = 500
THRESHOLD = 15
FIRST_SCORED = 21
NAMES = ("background", "aeroplane", "bird", "boat", "car", "cat", "cow", "dog", "horse", "motorbike", "train")
CLASSES = Classes(NAMES, tuple(PASCAL.palette[PASCAL.names.index(name)] for name in NAMES), others=0)


def scaled(array: Array, *, nearest: bool) -> Array:
    """Scale to a longer side of 500 pixels, each side rounded down; bilinear, or nearest neighbour.

    >>> scaled(np.zeros((334, 640), np.uint8), nearest=True).shape
    (260, 500)
    """
    import cv2

    height, width = array.shape[:2]
    longer = max(height, width)
    size = max(1, width * LONGER_SIDE // longer), max(1, height * LONGER_SIDE // longer)
    how = cv2.INTER_NEAREST_EXACT if nearest else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(array, size, interpolation=how))


def read_frame(path: Path) -> Image:
    """Read a picture and scale it: uint8 RGB [h, w, 3]."""
    return scaled(read_picture(path), nearest=False)


@dataclass(frozen=True)
class ShotMask:
    """Reads the masks of a shot as labels: ``label`` where a mask is brighter than 15, else background."""

    label: int

    def __call__(self, path: Path) -> Labels:
        """Read a mask as a scaled label map: uint8 [h, w]."""
        bright = read_picture(path).max(axis=2) > THRESHOLD
        return scaled(np.where(bright, np.uint8(self.label), np.uint8(0)), nearest=True)


def matches(path: Path) -> bool:
    """Return True if a folder looks like YouTube-Objects."""
    return any((path / name / "data").is_dir() for name in NAMES[1:])


def read(path: Path, *, scored_from: int = FIRST_SCORED) -> list[Clip]:
    """Return a clip for each shot with masks, from its first mask on; ``every=10`` takes the labelled frames.

    Labels start at number ``scored_from``, so that each labelled frame has two predecessors ten frames apart.
    ``DataError`` names what is missing.

    >>> read(Path("nowhere"))
    Traceback (most recent call last):
        ...
    clockseg.errors.DataError: nowhere/aeroplane/data is missing: folders VIDEO/shots/SHOT, here or of another class.
    docs/datasets.md says where to get frames and masks, and shows what goes where.
    """
    whole_number(scored_from, "scored_from")
    shots = [
        (label, shot)
        for label, name in enumerate(NAMES)
        for video in folders(path / name / "data")
        for shot in folders(video / "shots")
        if (shot / "labels").is_dir()
    ]
    if not shots:
        raise missing(path / NAMES[1] / "data", "folders VIDEO/shots/SHOT, here or of another class", WHERE)
    return [_clip(shot, label, scored_from) for label, shot in shots]


def _clip(shot: Path, label: int, scored_from: int) -> Clip:
    masks, frames = _numbered(shot / "labels"), _numbered(shot / "images")
    if not masks:
        raise missing(shot / "labels", "the masks of the shot, NNNNN.jpg", WHERE)
    if not frames:
        raise missing(shot / "images", "the frames of the shot, frameNNNN.jpg", WHERE)
    # From the first mask on without gaps, so that every tenth frame is labelled.
    numbers = range(min(masks), max(frames) + 1)
    for number in (*numbers, *masks):
        if number not in frames:
            raise missing(shot / "images" / f"frame{number:04}.jpg", f"frame {number} of the shot", WHERE)
    video = shot.parents[1]
    return Clip(
        f"{video.parents[1].name}/{video.name}/{shot.name}",
        shot,
        tuple(frames[number] for number in numbers),
        tuple(masks.get(number) if number >= scored_from else None for number in numbers),
        CLASSES,
        read_image=read_frame,
        read_labels=ShotMask(label),
    )


def _numbered(folder: Path) -> dict[int, Path]:
    """Return the files by the number at the end of their names."""
    found = {file: re.search(r"\d+$", file.stem) for file in files(folder, (".jpg", ".jpeg", ".png"))}
    for file, number in found.items():
        if number is None:
            raise DataError(f"{file}: its name does not end with a number. {WHERE}")
    return {int(number[0]): file for file, number in found.items() if number is not None}
