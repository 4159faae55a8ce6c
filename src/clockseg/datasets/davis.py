"""Folders like those of DAVIS: densely labelled shots of moving objects, one class a shot.

    DATA/JPEGImages/480p/SHOT/NNNNN.jpg
    DATA/Annotations/480p/SHOT/NNNNN.png      grey 0 and 255 (2016), or a palette whose index numbers the objects (2017)
    DATA/ImageSets/480p/val.txt               lists of shots (2017: ImageSets/2017/val.txt), if only some are wanted

The folder of a resolution may be missing, as in data sets that follow DAVIS. Whatever is no background is one class:
"object", or, where ``shots`` says what each shot shows, that class; a network that knows more classes is scored then as
on YouTube-Objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clockseg.datasets._files import files, folders, missing, pictures, read_lines
from clockseg.datasets.classes import Classes
from clockseg.datasets.clips import Clip
from clockseg.datasets.labels import read_index_png
from clockseg.datasets.pascal import colours
from clockseg.errors import UsageError, nearest
from clockseg.types import Labels

WHERE = "Get DAVIS from davischallenge.org; docs/datasets.md shows what goes where."
FPS = 24
OBJECT = Classes(("background", "object"), colours(2), fps=FPS)


@dataclass(frozen=True)
class Mask:
    """Reads a mask of grey values or palette indices: 0 stays 0, whatever else there is becomes ``label``."""

    label: int

    def __call__(self, path: Path) -> Labels:
        """The label map in a file, uint8 [h, w]."""
        return np.where(read_index_png(path) > 0, np.uint8(self.label), np.uint8(0))


def matches(path: Path) -> bool:
    """Return True if a folder looks like DAVIS."""
    return (path / "Annotations").is_dir() and bool(folders(path / "JPEGImages"))


def read(
    path: Path,
    *,
    split: str | None = None,
    resolution: str | None = None,
    shots: Mapping[str, str] | None = None,
) -> list[Clip]:
    """A clip a shot: of all shots, those of the list ``split`` ("480p/val", "2017/val"), or those in ``shots``.

    ``resolution``: a folder's name (default: 480p if it is there, else none). ``shots``: the class that each shot shows,
    such as ``{"dog": "dog", "dog-agility": "dog"}``. ``DataError`` names what is missing.

    >>> read(Path("nowhere"))
    Traceback (most recent call last):
        ...
    clockseg.errors.DataError: nowhere/JPEGImages is missing: a folder of pictures for each shot. Get DAVIS from
    davischallenge.org; docs/datasets.md shows what goes where.
    """
    if resolution is None:
        resolution = "480p" if (path / "JPEGImages" / "480p").is_dir() else ""
    images, masks = path / f"JPEGImages/{resolution}", path / f"Annotations/{resolution}"
    there = [folder.name for folder in folders(images)]
    if not there:
        raise missing(images, "a folder of pictures for each shot", WHERE)
    wanted = there if split is None else _list(path / "ImageSets" / f"{split}.txt")
    if shots is None:
        return [_clip(shot, images, masks, OBJECT, 1) for shot in wanted]
    if not isinstance(shots, Mapping):
        raise UsageError(f"shots is {shots!r}; give what each shot shows, such as {{'dog': 'dog'}}.")
    for shot in shots:
        if shot not in there:
            raise UsageError(f"there is no shot {shot!r} in {images}. {nearest(shot, there)}")
    names = ("background", *sorted(set(shots.values())))
    classes = Classes(names, colours(len(names)), fps=FPS, others=0)
    return [_clip(shot, images, masks, classes, names.index(shots[shot])) for shot in wanted if shot in shots]


def _list(file: Path) -> list[str]:
    if not file.is_file():
        there = [
            f"{folder.name}/{found.stem}" for folder in folders(file.parents[1]) for found in files(folder, (".txt",))
        ]
        raise missing(file, f"a list of shots; the lists there are: {', '.join(there) or 'none'}", WHERE)
    # 2016 lists a picture and a mask a line, 2017 a shot.
    first = (line.split()[0] for line in read_lines(file))
    return list(dict.fromkeys(Path(name).parent.name if "/" in name else name for name in first))


def _clip(shot: str, images: Path, masks: Path, classes: Classes, label: int) -> Clip:
    found = pictures(images / shot)
    if not found:
        raise missing(images / shot, "the pictures of a shot", WHERE)
    labels = {mask.stem: mask for mask in files(masks / shot, (".png",))}
    if not labels:
        raise missing(masks / shot, f"the masks of {shot}", WHERE)
    return Clip(
        shot,
        images / shot,
        found,
        tuple(labels.get(picture.stem) for picture in found),
        classes,
        read_labels=Mask(label),
    )
