"""Layouts: how a data set lies on disk, by name. Whatever the layout, what is read are clips."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from clockseg.carry.names import named
from clockseg.datasets import camvid, cityscapes, clip_folders, davis, nyud, pascal, youtube_objects
from clockseg.datasets.clips import Clip
from clockseg.datasets.translated import FIRST_SCORED, translate
from clockseg.errors import DataError, UsageError, nearest, whole_number


@dataclass(frozen=True)
class Layout:
    """A data set's layout on disk: ``read(path)`` returns its clips. Call it with options to set them.

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
        """The clips in ``path``; ``DataError`` if there are none."""
        clips = self.function(Path(path), **self.options)
        if not isinstance(clips, list) or not all(isinstance(clip, Clip) for clip in clips):
            raise UsageError(f"layout {self.name} gives {str(clips)[:40]}..; it must give a list of Clip.")
        if not clips:
            raise DataError(f"{path}: layout {self.name} finds no clip in it; its list of frames or shots is empty.")
        return clips


def read_translated(
    path: Path,
    *,
    shift: int = 16,
    crop: int | None = None,
    of: str | Layout | None = None,
    every: int = 1,
    scored_from: int = FIRST_SCORED,
) -> list[Clip]:
    """Translated sequences of the pictures in ``path``, which has the layout ``of``; of ``every`` N-th one of a clip."""
    every = whole_number(every, "every")
    clips = [replace(clip, every=every) for clip in _chosen(of, path).read(path)]
    return translate(clips, shift=shift, crop=crop, scored_from=scored_from)


LAYOUTS: Mapping[str, Callable[..., list[Clip]]] = {
    "clips": clip_folders.read,
    "translated": read_translated,
    "pascal": pascal.read,
    "nyud": nyud.read,
    "youtube_objects": youtube_objects.read,
    "cityscapes": cityscapes.read,
    "camvid": camvid.read,
    "davis": davis.read,
}
"""What reads each layout: a path, and options by name."""

MARKS: Mapping[str, Callable[[Path], bool]] = {
    "pascal": pascal.matches,
    "nyud": nyud.matches,
    "youtube_objects": youtube_objects.matches,
    "cityscapes": cityscapes.matches,
    "camvid": camvid.matches,
    "davis": davis.matches,
}
"""Whether a folder looks like a layout, for where none is given."""


def detect(path: Path) -> Layout:
    """The layout that a path has, as far as its folders tell; clips if they tell nothing."""
    found = [name for name, matches in MARKS.items() if matches(path)] or ["clips"]
    if len(found) > 1:
        raise DataError(f"{path} may have the layouts {' and '.join(found)}; say which one is meant (--layout NAME).")
    return Layout(found[0], LAYOUTS[found[0]])


def parse_layout(text: str) -> Layout:
    """A layout as the command line writes it: a name, or a call that gives options.

    ``package.module:function`` names a layout of one's own: a function of the path that gives clips.

    >>> parse_layout("translated(shift=32, of=clips)").options["shift"]
    32
    >>> parse_layout("translate(shift=32)")
    Traceback (most recent call last):
        ...
    clockseg.errors.UsageError: there is no layout 'translate'. Did you mean translated?
    """
    found = named(text, {name: Layout(name, function) for name, function in LAYOUTS.items()}, what="layout")
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
    """The clips of a data set in ``path``; no picture is decoded yet.

    ``layout``: its name (one of ``LAYOUTS``), a call such as ``"translated(shift=32, of=pascal)"``, or a ``Layout``;
    default: what the folders tell, else clip folders. ``every``, ``limit``: as of a Clip. ``options``: the layout's own.
    ``DataError`` names the folder or file that is missing, ``UsageError`` an unknown layout or option.

    >>> read_data("nowhere", layout="clips")
    Traceback (most recent call last):
        ...
    clockseg.errors.DataError: nowhere: no such file or folder. DATA is a folder of clips (CLIP/images/*,
    CLIP/labels/*.png, classes.json beside the clips), a folder of pictures or a video.
    """
    clips = _chosen(layout, Path(path))(**options).read(path)
    return [replace(clip, every=every, limit=limit) for clip in clips]


def _chosen(layout: str | Layout | None, path: Path) -> Layout:
    if layout is None:
        return detect(path)
    if isinstance(layout, Layout):
        return layout
    if not isinstance(layout, str):
        raise UsageError(f"layout is {layout!r}; give one of {', '.join(LAYOUTS)}, with options or without.")
    return parse_layout(layout)
