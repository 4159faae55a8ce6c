"""Layouts: how data sets are stored on disk, by name. Every layout is read as clips."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from clockseg.clocks.expressions import object_named
from clockseg.datasets import clip_folders
from clockseg.datasets.clips import Clip
from clockseg.datasets.official import OFFICIAL
from clockseg.datasets.translated import translate
from clockseg.errors import DataError, UsageError, nearest, whole_number


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
    "clips": clip_folders.read,
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
