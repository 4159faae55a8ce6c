"""Inputs: files, folders, patterns and lists on the command line become clips and the names of their result folders."""

from __future__ import annotations

import glob
import mimetypes
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from clockseg.errors import UsageError
from clockseg.files import printable
from clockseg.segmenting.results import FILES, folder_name, free_name, is_result
from clockseg.video.images import IMAGE_SUFFIXES, natural_key

_VIDEOS = """3g2 3gp asf avi dav divx dv f4v flv gif h264 h265 hevc ivf m2ts m2v m4v mjpeg mjpg mkv mov mp4 mpeg mpg mts mxf nut
    ogm ogv qt rm rmvb ts vob webm wmv y4m"""
VIDEO_SUFFIXES = frozenset(f".{name}" for name in _VIDEOS.split())
"""Suffixes of videos in a folder; any other file can be given by its name."""
_UNREAD_SUFFIXES = frozenset((".arw", ".cr2", ".cr3", ".dng", ".heic", ".heif", ".jxl", ".nef", ".psd", ".raf"))
Warn: TypeAlias = Callable[[str], None]


class Input(NamedTuple):
    """A clip as it was given, and the folder of its result, relative to the output folder."""

    source: str
    folder: Path

    @property
    def key(self) -> str:
        """The absolute path of the clip as printable text, which identifies it in a manifest."""
        return printable(os.path.abspath(self.source))


def inputs(given: Sequence[str | os.PathLike[str]], *, warn: Warn = lambda text: None) -> list[Input]:
    """Return the clips that the arguments name, in the order given, each file or folder once however often it is named.

    A file stands for itself. A folder with videos in it or in its subfolders, linked ones included, stands for all of them in
    natural order; one with images alone is a clip. ``@LIST`` is a file with one path per line (``@-``: standard input), in
    which empty lines and lines that begin with # do not count. A name that does not exist and holds ``*``, ``?`` or ``[`` is a
    pattern, in which ``**`` matches any folders. Folders and patterns skip the files of earlier results. ``warn`` is called
    with a sentence about media files that are left out. ``UsageError`` if a list cannot be read or nothing matches a pattern.
    """
    found: dict[str, tuple[str, Path]] = {}
    for text in given:
        for source, name in _named(os.fspath(text), warn):
            first, _ = found.setdefault(os.path.realpath(source), (source, name))
            if os.path.abspath(first) != os.path.abspath(source):
                warn(f"{source} is the same file as {first}, so it is segmented once.")
    taken: set[Path] = set()
    return [Input(source, free_name(name, taken)) for source, name in found.values()]


def _named(text: str, warn: Warn) -> Iterator[tuple[str, Path]]:
    """Yield each clip that one argument names, and the preferred name of its result folder."""
    paths = [text]
    if text.startswith("@") and not os.path.lexists(text):
        paths = _listed(text[1:])
    elif not os.path.lexists(text) and glob.has_magic(text):
        matches = sorted(glob.glob(text, recursive=True), key=natural_key)  # noqa: PTH207  # absolute patterns too
        paths = [match for match in matches if not _of_result(Path(match))]
        if not paths:
            raise UsageError(
                f"no input matches {text!r} (results of earlier runs do not count). Give a pattern, in quotes, that matches files."
            )
    for path in paths:
        yield from _of_path(path, warn)


def _listed(name: str) -> list[str]:
    try:
        lines = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"@{name}: cannot be read ({error.strerror}). Give a file with one path per line.") from error
    paths = [os.fsdecode(line.rstrip(b"\r")) for line in lines.split(b"\n")]
    paths = [path for path in paths if path.strip() and not path.startswith("#")]
    if not paths or any("\0" in path for path in paths):
        fault = "there is a zero byte in a path" if paths else "there is no path in it"
        raise UsageError(f"@{name}: {fault}. Give a file with one path per line.")
    return paths


def _of_path(text: str, warn: Warn) -> Iterator[tuple[str, Path]]:
    path = Path(os.path.abspath(text))
    media = list(_media(path, warn)) if path.is_dir() else []
    videos = [file for file in media if file.suffix.lower() in VIDEO_SUFFIXES]
    images = [file for file in media if file.suffix.lower() in IMAGE_SUFFIXES and file.parent == path]
    if not videos:
        yield text, Path(folder_name((path.name if path.is_dir() else path.stem) or "clip"))
    for video in videos:
        inside = video.relative_to(path)
        yield str(Path(text) / inside), Path(*map(folder_name, (*inside.parts[:-1], inside.stem)))
    taken = videos or images
    left = [str(file.relative_to(path)) for file in media if file not in set(taken)]
    if taken and left:
        kind = "videos in it and in its subfolders" if videos else "images directly in it"
        warn(
            f"{text} stands for the {kind}; media files left out: {len(left)}, such as {left[0]}. Give them by their own names."
        )


def _media(folder: Path, warn: Warn) -> Iterator[Path]:
    """Yield the media files in a folder and its subfolders, without hidden files and without those of earlier results.

    Links to folders are followed, except to a folder that was seen before or that holds ``folder``.
    """
    seen: set[str] = set()
    home = os.path.realpath(folder)

    def unread(error: OSError) -> None:
        warn(f"{error.filename}: this folder is left out, because it cannot be read ({error.strerror}).")

    for where, folders, files in os.walk(folder, followlinks=True, onerror=unread):
        real = os.path.realpath(where)
        if real in seen or (real != home and Path(home).is_relative_to(real)):
            folders.clear()
            continue
        seen.add(real)
        own = set(FILES.values()) if is_result(Path(where)) else set()
        # Real folders first, so that files have their own names rather than those of links.
        folders[:] = sorted(
            (name for name in folders if not name.startswith(".") and name not in own),
            key=lambda name: (Path(where, name).is_symlink(), natural_key(name)),
        )
        for name in sorted(files, key=natural_key):
            if not name.startswith(".") and name not in own and _is_media(name):
                yield Path(where, name)


def _is_media(name: str) -> bool:
    suffix = Path(name).suffix.lower()
    guessed = mimetypes.guess_type(name)[0] or ""
    return suffix in VIDEO_SUFFIXES.union(IMAGE_SUFFIXES, _UNREAD_SUFFIXES) or guessed.startswith(("image/", "video/"))


def _of_result(path: Path) -> bool:
    """Return True for a result folder, and for one of the files that make up a result."""
    inside = (path, *path.parents)
    return is_result(path) or any(one.name in FILES.values() and is_result(one.parent) for one in inside)
