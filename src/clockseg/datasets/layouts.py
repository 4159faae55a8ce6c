"""Layouts: how data sets are stored on disk, by name. Every layout is read as clips.

clips: folders of clips, the layout of clockseg itself.

    DATA/classes.json          classes, palette, ignore, fps
    DATA/CLIP/images/*         one picture per frame, in the natural order of their names
    DATA/CLIP/labels/*.png     for some or all frames, with the name of the picture; the grey value is the class id

    DATA may also be one such clip, or, without labels, a folder of pictures or a video file.

translated: each still picture of another layout seen through a moving window, six frames of labelled video (section 5). As in the
authors' evaluation on PASCAL, the window moves along the longer side (down, if the picture is square) by ``shift`` pixels per frame.
Label maps are cropped with the same window. Frames 0 and 1 fill the pipelines and are not scored.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from clockseg.clocks.expressions import object_named
from clockseg.datasets.classes import read_classes
from clockseg.datasets.clips import Clip, whole
from clockseg.datasets.folders import absolute, files, folders, name_of
from clockseg.datasets.official import OFFICIAL
from clockseg.errors import DataError, UsageError, nearest, whole_number
from clockseg.types import Array
from clockseg.video.images import IMAGE_SUFFIXES

FORMS = (
    "DATA is a folder of clips (CLIP/images/*, CLIP/labels/*.png, classes.json beside the clips), a folder of pictures "
    "or a video."
)


def clip_folders(path: Path) -> list[Clip]:
    """Return the clips in ``path`` (see the module), in natural order; no picture is decoded yet.

    ``DataError`` names what is missing: pictures, the picture of a label, ``classes.json``.
    """
    if not path.exists():
        raise DataError(f"{path}: no such file or folder. {FORMS}")
    if not path.is_dir():
        return [Clip(name_of(path), path)]
    inside = [path] if _is_clip(path) else [folder for folder in folders(path) if _is_clip(folder)]
    if inside:
        return [_clip(folder) for folder in inside]
    found = files(path)
    if found:
        return [Clip(name_of(path), path, found, (None,) * len(found))]
    raise DataError(f"{path}: contains no clip and no picture. {FORMS}")


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


FRAMES = 6
FIRST_SCORED = 2


def window(array: Array, index: int, *, shift: int, of: str = "picture") -> Array:
    """Return frame ``index`` (0..5) of the sequence of a picture [h, w, 3] or label map [h, w].

    Frame k shows [k * shift, k * shift + length) of the longer side, where ``length`` is the rest after five shifts: 420 of
    500 pixels for a shift of 16, and 340 for 32. ``DataError``, in which ``of`` names the picture, if it is too small.
    """
    height, width = array.shape[:2]
    length = max(height, width) - (FRAMES - 1) * shift
    if length < 1:
        raise DataError(
            f"{of} is {width}x{height}: {FRAMES - 1} shifts of {shift} px leave {length} px of its longer side. "
            "Give a smaller shift."
        )
    seen = slice(index * shift, index * shift + length)
    return np.ascontiguousarray(array[:, seen] if width > height else array[seen])


def translate(clips: Iterable[Clip], *, shift: int = 16) -> list[Clip]:
    """Return a sequence of six frames for every selected picture of ``clips``; for clips with labels, every labelled one.

    ``shift``: pixels per frame. ``UsageError`` for videos and for clips that are translated already; a picture that is too
    small raises ``DataError`` when it is read.

    >>> still = Clip("cat", Path("."), (Path("cat.jpg"),), (Path("cat.png"),))
    >>> (sequence,) = translate([still], shift=32)
    >>> len(sequence.taken), sequence.labelled
    (6, 4)
    """
    whole_number(shift, "shift", least=0)
    found = []
    for clip in clips:
        if clip.taken is None:
            raise UsageError(f"{clip.path} is a video; translated sequences are made from pictures.")
        if clip.view is not whole:
            raise UsageError(f"clip {clip.name} is already translated; translate its pictures instead.")
        for index in clip.labelled_indices() or clip.taken:
            image, label = clip.images[index], clip.labels[index]
            sequence = replace(
                clip,
                name=clip.name if len(clip.images) == 1 else f"{clip.name}/{image.stem}",
                images=(image,) * FRAMES,
                labels=(None,) * FIRST_SCORED + (label,) * (FRAMES - FIRST_SCORED),
                every=1,
                limit=None,
                view=partial(window, shift=shift, of=str(image)),
            )
            found.append(sequence)
    return found


@dataclass(frozen=True)
class Layout:
    """A data set's layout on disk: ``function(path, **options)`` returns its clips. Call it with options to set them.

    >>> Layout("copies", lambda path, *, count=3: [Clip("copy", path)] * count)(count=2).read("x")[1].name
    'copy'
    """

    name: str
    function: Callable[..., list[Clip]]
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, **options: Any) -> Layout:
        known = list(inspect.signature(self.function).parameters)[1:]
        for option in options.keys() - known:
            other = f". {nearest(option, known)}" if known else "; it takes none."
            raise UsageError(f"layout {self.name} has no option {option!r}{other}")
        return replace(self, options={**self.options, **options})

    def read(self, path: str | os.PathLike[str]) -> list[Clip]:
        """Return the clips in ``path``; ``DataError`` if there are none."""
        clips = self.function(Path(path), **self.options)
        if not isinstance(clips, list) or not all(isinstance(clip, Clip) for clip in clips):
            raise UsageError(f"layout {self.name} returns {str(clips)[:40]}..; it must return a list of Clip.")
        if not clips:
            raise DataError(f"{path}: layout {self.name} finds no clip in it; its list of frames or shots is empty.")
        return clips


def read_translated(path: Path, *, shift: int = 16, of: str | Layout | None = None, every: int = 1) -> list[Clip]:
    """Return translated sequences of the pictures in ``path``, which has the layout ``of``; ``every``: every N-th per clip."""
    every = whole_number(every, "every")
    clips = [replace(clip, every=every) for clip in _chosen(of, path).read(path)]
    return translate(clips, shift=shift)


LAYOUTS: Mapping[str, Callable[..., list[Clip]]] = {
    "clips": clip_folders,
    "translated": read_translated,
    **{name: read for name, (read, _) in OFFICIAL.items()},
}
"""The function that reads each layout from a path, with options by name."""


def parse_layout(text: str) -> Layout:
    """Parse a layout as the command line writes it: a name, or a call with options.

    ``package.module:function`` names a layout of your own: a function from a path to a list of clips.

    >>> parse_layout("translated(shift=32, of=clips)").options["shift"]
    32
    """
    found = object_named(text, {name: Layout(name, function) for name, function in LAYOUTS.items()}, what="layout")
    if isinstance(found, Layout):
        return found
    if not callable(found):
        raise UsageError(f"layout {text!r} is {found!r}; give one of {', '.join(LAYOUTS)}.")
    return Layout(text, found)


def read_data(
    path: str | os.PathLike[str],
    *,
    layout: str | Layout | None = None,
    every: int = 1,
    limit: int | None = None,
    **options: Any,
) -> list[Clip]:
    """Return the clips of a data set in ``path``; no picture is decoded yet.

    ``layout``: its name (one of ``LAYOUTS``), a call such as ``"translated(shift=32, of=pascal)"``, or a ``Layout``;
    default: detected from the folders, else clip folders. ``every``, ``limit``: as in a Clip. ``options``: the layout's own.
    ``DataError`` names the folder or file that is missing, ``UsageError`` an unknown layout or option.
    """
    clips = _chosen(layout, Path(path))(**options).read(path)
    return [replace(clip, every=every, limit=limit) for clip in clips]


def _chosen(layout: str | Layout | None, path: Path) -> Layout:
    if isinstance(layout, Layout):
        return layout
    if isinstance(layout, str):
        return parse_layout(layout)
    if layout is not None:
        raise UsageError(f"layout is {layout!r}; give one of {', '.join(LAYOUTS)}, with options or without.")
    found = [name for name, (_, matches) in OFFICIAL.items() if matches(path)] or ["clips"]
    if len(found) > 1:
        raise DataError(f"{path} matches the layouts {' and '.join(found)}; choose one with --layout NAME.")
    return Layout(found[0], LAYOUTS[found[0]])
