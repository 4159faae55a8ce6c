"""Joining the files of the pieces of a clip into one set of results."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

from clockseg.segmenting.results import FILES
from clockseg.video import Clip
from clockseg.video.join import join, linked

_Found: TypeAlias = tuple[Path, int]
"""A file of a piece, and the number of the clip's frame with which the piece begins."""


def join_pieces(
    folders: Sequence[Path],
    starts: Sequence[int],
    made: Path,
    writes: Iterable[str],
    clip: Clip,
    start_seconds: Fraction | None,
    end_seconds: float | None,
) -> tuple[str, ...]:
    """Join the files in the ``folders`` of all pieces, in order, into the new folder ``made``; return what sound was lost.

    Frames are numbered consecutively from the ``starts`` of the pieces. The overlay gets the sound of the clip from
    ``start_seconds`` to ``end_seconds`` (None: all). The folders stay as they are.
    """
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    problems: tuple[str, ...] = ()
    for kind in writes:
        name = FILES[kind]
        every = [(folder / name, start) for folder, start in zip(folders, starts, strict=True)]
        found = [(path, start) for path, start in every if path.exists()]
        videos = [path for path, _ in found]
        if kind in ("trace", "instances"):
            _join_lines(found, made / name)
        elif kind in ("png", "npy"):
            _join_pictures(found, made / name)
        elif kind == "overlay":
            sound = clip.path if clip.has_audio and clip.kind == "video" else None
            problems = join(
                videos, made / name, audio_from=sound, start_seconds=start_seconds, audio_end_seconds=end_seconds
            )
        else:
            join(videos, made / name)
    return problems


def _join_lines(found: Iterable[_Found], path: Path) -> None:
    with path.open("w") as joined:
        for piece, start in found:
            with piece.open() as lines:
                for line in lines:
                    told = json.loads(line)
                    joined.write(json.dumps(told | {"frame": told["frame"] + start}) + "\n")


def _join_pictures(found: Iterable[_Found], path: Path) -> None:
    path.mkdir()
    for folder, start in found:
        for picture in folder.iterdir():
            # Only videos, whose frames have numbers for names, are cut into several pieces.
            name = f"{int(picture.stem) + start:06d}{picture.suffix}" if start else picture.name
            linked(picture, path / name)
