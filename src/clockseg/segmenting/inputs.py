"""Inputs: files, folders, patterns and lists on the command line become clips and the names of their result folders."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from clockseg.errors import UsageError
from clockseg.segmenting.results import apart, clip_name, folder_name
from clockseg.video.read import natural_key

VIDEO_SUFFIXES = frozenset(
    f".{name}"
    for names in (
        "3g2 3gp asf avi dav divx dv f4v flv gif h264 h265 hevc ivf m2ts m2v m4v mjpeg mjpg mkv mov",
        "mp4 mpeg mpg mts mxf nut ogm ogv qt rm rmvb ts vob webm wmv y4m",
    )
    for name in names.split()
)
"""Suffixes of videos in a folder; any other file can be given by its name."""


class Input(NamedTuple):
    """A clip as it was given, and the folder of its result, relative to the output folder."""

    source: str
    folder: Path

    @property
    def key(self) -> str:
        """The absolute path of the clip, which identifies it in a manifest."""
        return os.path.abspath(self.source)


def inputs(given: Sequence[str | os.PathLike[str]]) -> list[Input]:
    """Return the clips that the arguments name, each once, in the order given.

    A file is itself. A folder with videos in it, or in folders in it, stands for all of them, in natural order; one with
    images alone is a clip. ``@LIST`` is a file with a path a line (``@-``: standard input); empty lines and lines that
    begin with # don't count. What doesn't exist and holds ``*``, ``?`` or ``[`` is a pattern, ``**`` any folders.
    ``UsageError`` if a list can't be read, or nothing matches a pattern.

    >>> [str(one.folder) for one in inputs(["a/x.mp4", "b/x.avi", "clip.v2/", "...mp4"])]
    ['x', 'x-2', 'clip', '_']
    """
    found: dict[str, Path] = {}
    for text in given:
        for source, name in _named(os.fspath(text)):
            found.setdefault(source, name)
    return [Input(source, folder) for source, folder in zip(found, apart(found.values()), strict=True)]


def _named(text: str) -> Iterator[tuple[str, Path]]:
    """Yield each clip that one argument names, and the preferred name of its result folder."""
    if text.startswith("@") and not os.path.lexists(text):
        for line in _listed(text[1:]):
            yield from _of_path(line)
    elif not os.path.lexists(text) and glob.has_magic(text):
        matches = sorted(glob.glob(text, recursive=True), key=natural_key)  # noqa: PTH207  # absolute patterns too
        if not matches:
            raise UsageError(f"nothing matches {text!r}. Give a pattern of files that exist, in quotes.")
        for match in matches:
            yield from _of_path(match)
    else:
        yield from _of_path(text)


def _listed(name: str) -> list[str]:
    try:
        lines = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"@{name}: can't be read ({error.strerror}). Give a file with a path a line.") from error
    paths = [os.fsdecode(line.rstrip(b"\r")) for line in lines.split(b"\n")]
    paths = [path for path in paths if path.strip() and not path.startswith("#")]
    if not paths:
        raise UsageError(f"@{name}: there is no path in it. Give a file with a path a line.")
    return paths


def _of_path(text: str) -> Iterator[tuple[str, Path]]:
    path = Path(os.path.abspath(text))
    videos = list(_videos(path)) if path.is_dir() else []
    if not videos:
        yield text, Path(clip_name(path))
    for video in videos:
        inside = video.relative_to(path)
        yield str(Path(text) / inside), Path(*map(folder_name, (*inside.parts[:-1], inside.stem)))


def _videos(folder: Path) -> Iterator[Path]:
    """Yield the videos in a folder and its subfolders, without hidden ones."""
    for where, folders, files in os.walk(folder):
        folders[:] = sorted((name for name in folders if not name.startswith(".")), key=natural_key)
        for name in sorted(files, key=natural_key):
            if not name.startswith(".") and Path(name).suffix.lower() in VIDEO_SUFFIXES:
                yield Path(where, name)
