"""Folders of clips: the layout of clockseg itself.

    DATA/classes.json          classes, palette, ignore, fps
    DATA/CLIP/images/*         one picture per frame, in the natural order of their names
    DATA/CLIP/labels/*.png     for some or all frames, with the name of the picture; the grey value is the class id

DATA may also be one such clip, or, without labels, a folder of pictures or a video file.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from clockseg.datasets._files import absolute, files, folders, name_of, pictures
from clockseg.datasets.classes import Classes, read_classes
from clockseg.datasets.clips import Clip
from clockseg.errors import DataError
from clockseg.video.read import IMAGE_SUFFIXES

LAYOUT = (
    "DATA is a folder of clips (CLIP/images/*, CLIP/labels/*.png, classes.json beside the clips), a folder of pictures "
    "or a video."
)


def read_clips(path: str | os.PathLike[str], *, every: int = 1, limit: int | None = None) -> list[Clip]:
    """Return the clips in ``path`` (see the module), in natural order; no picture is decoded yet.

    ``every``: take every N-th frame only, before any schedule sees them; ``limit``: at most this many of those per clip.
    ``DataError`` names what is missing: pictures, the picture of a label, ``classes.json``.

    >>> read_clips("nowhere")
    Traceback (most recent call last):
        ...
    clockseg.errors.DataError: nowhere: no such file or folder. DATA is a folder of clips (CLIP/images/*,
    CLIP/labels/*.png, classes.json beside the clips), a folder of pictures or a video.
    """
    return [replace(clip, every=every, limit=limit) for clip in read(Path(path))]


def read(path: Path) -> list[Clip]:
    """Return the clips in ``path``, as a layout."""
    if not path.exists():
        raise DataError(f"{path}: no such file or folder. {LAYOUT}")
    return _folder(path) if path.is_dir() else [Clip(name_of(path), path)]


def _folder(path: Path) -> list[Clip]:
    if _is_clip(path):
        return [_clip(path)]
    inside = [folder for folder in folders(path) if _is_clip(folder)]
    if inside:
        return [_clip(folder) for folder in inside]
    found = pictures(path)
    if found:
        return [Clip(name_of(path), path, found, (None,) * len(found))]
    raise DataError(f"{path}: contains no clip and no picture. {LAYOUT}")


def _is_clip(folder: Path) -> bool:
    return (folder / "images").is_dir() or (folder / "labels").is_dir()


def _clip(folder: Path) -> Clip:
    found = pictures(folder / "images")
    if not found:
        raise DataError(f"{folder}: no pictures in {folder / 'images'} ({' '.join(IMAGE_SUFFIXES)}).")
    by_stem = {picture.stem: picture for picture in found}
    if len(by_stem) < len(found):
        twice = next(picture for picture in found if by_stem[picture.stem] != picture)
        raise DataError(
            f"{folder}: two pictures have the name {twice.stem}; labels are found by the names of their pictures."
        )
    labels = {label.stem: label for label in files(folder / "labels", (".png",))}
    for stem in labels.keys() - by_stem.keys():
        raise DataError(f"label {labels[stem]} has no picture {stem}.* in {folder / 'images'}.")
    _check_labels_folder(folder / "labels", labels)
    classes = _classes_for(folder, needed=bool(labels))
    return Clip(name_of(folder), folder, found, tuple(labels.get(picture.stem) for picture in found), classes)


def _check_labels_folder(folder: Path, labels: dict[str, Path]) -> None:
    """Refuse labels in other formats, which would otherwise be ignored silently."""
    others = [file for file in files(folder, IMAGE_SUFFIXES) if file.suffix.lower() != ".png"]
    if others:
        raise DataError(
            f"label {others[0]} is not a PNG; lossy formats change ids. Write label maps as 8-bit grey PNG."
        )
    if folder.is_dir() and not labels:
        raise DataError(
            f"{folder} contains no labels (*.png); add them, or remove the folder for a clip without labels."
        )


def _classes_for(folder: Path, *, needed: bool) -> Classes | None:
    places = [folder / "classes.json", absolute(folder).parent / "classes.json"]
    found = next((place for place in places if place.exists()), places[-1])
    return read_classes(found) if needed or found.exists() else None
