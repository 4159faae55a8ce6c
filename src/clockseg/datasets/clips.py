"""Clips: frames in order, with labels for some.

    DATA/classes.json          classes, palette, ignore, fps
    DATA/CLIP/images/*         one picture a frame, in the natural order of their names
    DATA/CLIP/labels/*.png     for some or all frames, of the picture's name; the grey value is the class id

DATA may as well be one such clip, a folder of pictures or a video file; the last two have no labels.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

from clockseg._errors import DataError, UsageError
from clockseg._types import Image, Labels
from clockseg.datasets.classes import Classes, read_classes
from clockseg.datasets.labels import read_labels_png
from clockseg.video.read import IMAGE_SUFFIXES, natural_key, open_clip

LAYOUT = (
    "DATA is a folder of clips (CLIP/images/*, CLIP/labels/*.png, classes.json beside the clips), a folder of pictures "
    "or a video."
)


@dataclass(frozen=True, eq=False)
class ClipFrame:
    """One frame: ``index`` in the clip before any subsampling, uint8 RGB [h, w, 3], its label map [h, w] or None."""

    index: int
    image: Image
    labels: Labels | None


def ignore_problem(sentence: str) -> None:
    """What to do with a sentence on what could not be decoded: nothing."""


@dataclass(frozen=True)
class Clip:
    """One clip; nothing is decoded before it is iterated.

    ``images``: a file a frame, empty for a video (``path``). ``labels``: a file or None for each of them. ``classes``:
    what the labels mean, None without labels. Every ``every``-th frame is taken, and ``limit`` of these at most.

    >>> pictures = tuple(Path(f"{number}.jpg") for number in range(5))
    >>> list(Clip("five", Path("five"), pictures, (None,) * 5, every=2).taken)
    [0, 2, 4]
    """

    name: str
    path: Path
    images: tuple[Path, ...] = ()
    labels: tuple[Path | None, ...] = ()
    classes: Classes | None = None
    every: int = 1
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.every < 1 or (self.limit is not None and self.limit < 1):
            raise UsageError(f"every={self.every}, limit={self.limit}; both are whole numbers of at least 1.")
        if len(self.labels) != len(self.images):
            raise UsageError(f"{len(self.labels)} labels for {len(self.images)} images; give one a frame, or None.")

    def __iter__(self) -> Iterator[ClipFrame]:
        return self.frames()

    @property
    def taken(self) -> range | None:
        """The indices of the frames that are taken; None for a video, whose length is known at its end only."""
        return range(0, len(self.images), self.every)[: self.limit] if self.images else None

    @property
    def labelled(self) -> int:
        """How many of the frames that are taken have labels."""
        return sum(self.labels[index] is not None for index in self.taken or ())

    def frames(self, *, problem: Callable[[str], None] = ignore_problem) -> Iterator[ClipFrame]:
        """The frames in order, each decoded when it is asked for.

        ``problem`` is told, at the end, what of a video could not be decoded. ``VideoError`` for a picture or a video
        of which nothing can be, ``DataError`` for labels that don't fit their picture or their classes.
        """
        if self.images:
            return (self._frame(index) for index in self.taken or ())
        return self._video_frames(problem)

    def _video_frames(self, problem: Callable[[str], None]) -> Iterator[ClipFrame]:
        with open_clip(self.path) as video:
            kept = (frame for frame in video if frame.index % self.every == 0)
            for frame in islice(kept, self.limit):
                yield ClipFrame(frame.index, frame.image, None)
            for sentence in video.problems:
                problem(sentence)

    def _frame(self, index: int) -> ClipFrame:
        image = _read_image(self.images[index])
        label = self.labels[index]
        return ClipFrame(index, image, None if label is None else self._labels(label, image))

    def _labels(self, path: Path, image: Image) -> Labels:
        labels = read_labels_png(path)
        if labels.shape != image.shape[:2]:
            raise DataError(
                f"label {path} is {labels.shape[1]}x{labels.shape[0]}, its picture {image.shape[1]}x{image.shape[0]}; "
                "labels have the size of their picture."
            )
        if self.classes is not None:
            _check_ids(labels, self.classes, path)
        return labels


def read_clips(path: str | os.PathLike[str], *, every: int = 1, limit: int | None = None) -> list[Clip]:
    """The clips in ``path`` (see the module), in natural order; no picture is decoded yet.

    ``every``: only each N-th frame, before any schedule sees them; ``limit``: at most so many of those a clip.
    ``DataError`` names what is missing: pictures, a label's picture, ``classes.json``.

    >>> read_clips("nowhere")
    Traceback (most recent call last):
        ...
    clockseg._errors.DataError: nowhere: no such file or folder. DATA is a folder of clips (CLIP/images/*,
    CLIP/labels/*.png, classes.json beside the clips), a folder of pictures or a video.
    """
    found = Path(path)
    if not found.exists():
        raise DataError(f"{found}: no such file or folder. {LAYOUT}")
    clips = _folder(found) if found.is_dir() else [Clip(_name(found), found)]
    return [replace(clip, every=every, limit=limit) for clip in clips]


def _folder(path: Path) -> list[Clip]:
    if _is_clip(path):
        return [_clip(path)]
    inside = [folder for folder in _entries(path) if folder.is_dir() and _is_clip(folder)]
    if inside:
        return [_clip(folder) for folder in inside]
    pictures = _pictures(path)
    if pictures:
        return [Clip(_name(path), path, pictures, (None,) * len(pictures))]
    raise DataError(f"{path}: no clip and no picture in it. {LAYOUT}")


def _is_clip(folder: Path) -> bool:
    return (folder / "images").is_dir() or (folder / "labels").is_dir()


def _clip(folder: Path) -> Clip:
    pictures = _pictures(folder / "images")
    if not pictures:
        raise DataError(f"{folder}: no pictures in {folder / 'images'} ({' '.join(IMAGE_SUFFIXES)}).")
    by_stem = {picture.stem: picture for picture in pictures}
    if len(by_stem) < len(pictures):
        twice = next(picture for picture in pictures if by_stem[picture.stem] != picture)
        raise DataError(f"{folder}: two pictures are called {twice.stem}; a label is found by the name of its picture.")
    labels = {label.stem: label for label in _files(folder / "labels", (".png",))}
    for stem in labels.keys() - by_stem.keys():
        raise DataError(f"label {labels[stem]} has no picture {stem}.* in {folder / 'images'}.")
    _check_labels_folder(folder / "labels", labels)
    classes = _classes_for(folder, needed=bool(labels))
    return Clip(_name(folder), folder, pictures, tuple(labels.get(picture.stem) for picture in pictures), classes)


def _check_labels_folder(folder: Path, labels: dict[str, Path]) -> None:
    """Other pictures among the labels are meant as labels: not to be passed over in silence."""
    others = [file for file in _files(folder, IMAGE_SUFFIXES) if file.suffix.lower() != ".png"]
    if others:
        raise DataError(f"label {others[0]} is no PNG; lossy formats blur ids. Write label maps as 8-bit grey PNG.")
    if folder.is_dir() and not labels:
        raise DataError(f"{folder} holds no labels (*.png); add them, or remove the folder for a clip without labels.")


def _classes_for(folder: Path, *, needed: bool) -> Classes | None:
    places = [folder / "classes.json", _absolute(folder).parent / "classes.json"]
    found = next((place for place in places if place.exists()), places[-1])
    return read_classes(found) if needed or found.exists() else None


def _check_ids(labels: Labels, classes: Classes, path: Path) -> None:
    there = np.flatnonzero(np.bincount(labels.ravel(), minlength=256))
    wrong = [int(label) for label in there if label >= len(classes.names) and label != classes.ignore]
    if wrong:
        raise DataError(
            f"label {path} holds {', '.join(map(str, wrong[:5]))}; classes.json names {len(classes.names)} classes "
            f"(0 to {len(classes.names) - 1}) and {classes.ignore} for pixels to ignore."
        )


def _read_image(path: Path) -> Image:
    with open_clip(path) as picture:
        frame = next(iter(picture))
        if picture.problems:
            raise DataError(f"picture {path}: {'; '.join(picture.problems)}.")
        return frame.image


def _pictures(folder: Path) -> tuple[Path, ...]:
    return _files(folder, IMAGE_SUFFIXES)


def _files(folder: Path, suffixes: tuple[str, ...]) -> tuple[Path, ...]:
    return tuple(file for file in _entries(folder) if file.suffix.lower() in suffixes and file.is_file())


def _entries(folder: Path) -> list[Path]:
    """What is in a folder, in natural order, without hidden files; nothing if it isn't there."""
    try:
        found = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise DataError(f"{folder}: can't be read ({error.strerror}).") from None
    return sorted(found, key=lambda entry: natural_key(entry.name))


def _name(path: Path) -> str:
    return _absolute(path).name if path.is_dir() else path.stem


def _absolute(path: Path) -> Path:
    # Not resolve(), which would follow a link and look for classes.json beside what it points to.
    return Path(os.path.abspath(path))
