"""Folders of clips: the layout of clockseg itself.

    DATA/classes.json          classes, palette, ignore, fps
    DATA/CLIP/images/*         one picture per frame, in the natural order of their names
    DATA/CLIP/labels/*.png     for some or all frames, with the name of the picture; the grey value is the class id

DATA may also be one such clip, or, without labels, a folder of pictures or a video file.
"""

from __future__ import annotations

from pathlib import Path

from clockseg.datasets.classes import read_classes
from clockseg.datasets.clips import Clip
from clockseg.datasets.folders import absolute, files, folders, name_of
from clockseg.errors import DataError
from clockseg.video.images import IMAGE_SUFFIXES

LAYOUT = (
    "DATA is a folder of clips (CLIP/images/*, CLIP/labels/*.png, classes.json beside the clips), a folder of pictures "
    "or a video."
)


def read(path: Path) -> list[Clip]:
    """Return the clips in ``path`` (see the module), in natural order; no picture is decoded yet.

    ``DataError`` names what is missing: pictures, the picture of a label, ``classes.json``.
    """
    if not path.exists():
        raise DataError(f"{path}: no such file or folder. {LAYOUT}")
    if not path.is_dir():
        return [Clip(name_of(path), path)]
    inside = [path] if _is_clip(path) else [folder for folder in folders(path) if _is_clip(folder)]
    if inside:
        return [_clip(folder) for folder in inside]
    found = files(path)
    if found:
        return [Clip(name_of(path), path, found, (None,) * len(found))]
    raise DataError(f"{path}: contains no clip and no picture. {LAYOUT}")


def _is_clip(folder: Path) -> bool:
    return (folder / "images").is_dir() or (folder / "labels").is_dir()


def _clip(folder: Path) -> Clip:
    found = files(folder / "images")
    if not found:
        raise DataError(f"{folder}: no pictures in {folder / 'images'} ({' '.join(IMAGE_SUFFIXES)}).")
    by_stem = {picture.stem: picture for picture in found}
    if len(by_stem) < len(found):
        twice = next(picture for picture in found if by_stem[picture.stem] != picture)
        raise DataError(
            f"{folder}: two pictures have the name {twice.stem}; labels are found by the names of their pictures."
        )
    labels = _labels(folder / "labels")
    for stem in labels.keys() - by_stem.keys():
        raise DataError(f"label {labels[stem]} has no picture {stem}.* in {folder / 'images'}.")
    places = [folder / "classes.json", absolute(folder).parent / "classes.json"]
    place = next((place for place in places if place.exists()), places[-1])
    classes = read_classes(place) if labels or place.exists() else None
    return Clip(name_of(folder), folder, found, tuple(labels.get(picture.stem) for picture in found), classes)


def _labels(folder: Path) -> dict[str, Path]:
    """Return the label maps by their stems; ``DataError`` for other formats, which would otherwise be ignored silently."""
    for file in files(folder):
        if file.suffix.lower() != ".png":
            raise DataError(f"label {file} is not a PNG; lossy formats change ids. Write label maps as 8-bit grey PNG.")
    found = {label.stem: label for label in files(folder, (".png",))}
    if folder.is_dir() and not found:
        raise DataError(
            f"{folder} contains no labels (*.png); add them, or remove the folder for a clip without labels."
        )
    return found
