"""Joining the files of the pieces of a clip into one set of results."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TypeAlias

from clockseg.segmenting.pieces import Job, PieceResult
from clockseg.segmenting.results import FILES
from clockseg.segmenting.writer import renumbered
from clockseg.video import Clip
from clockseg.video.join import join, linked

_Found: TypeAlias = tuple[Path, int]
"""A file of a piece, and the number of the clip's frame with which the piece begins."""


def starts_of(results: Sequence[PieceResult]) -> tuple[int, ...]:
    """Return the number of the frame with which each piece begins."""
    return tuple(accumulate((result.decoded for result in results[:-1]), initial=0))


def join_pieces(
    folders: Sequence[Path], results: Sequence[PieceResult], made: Path, clip: Clip, job: Job
) -> tuple[str, ...]:
    """Join the files in the ``folders`` of all pieces, in order, into the new folder ``made``; return what sound was lost.

    Frames are numbered consecutively, and the sound of the clip is added to the overlay. The folders stay as they are.
    """
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    problems: tuple[str, ...] = ()
    for kind in job.writes:
        name = FILES[kind]
        every = [(folder / name, start) for folder, start in zip(folders, starts_of(results), strict=True)]
        found = [(path, start) for path, start in every if path.exists()]
        if kind in ("trace", "instances"):
            _join_lines(found, made / name)
        elif kind in ("png", "npy"):
            _join_pictures(found, made / name)
        elif kind == "overlay":
            problems = _join_overlays(found, made / name, results, clip, job)
        else:
            join([path for path, _ in found], made / name)
    return problems


def _join_overlays(
    found: Sequence[_Found], path: Path, results: Sequence[PieceResult], clip: Clip, job: Job
) -> tuple[str, ...]:
    ends = [result.end_seconds for result in results if result.end_seconds is not None]
    cut = job.limit is not None or job.end is not None
    return join(
        [file for file, _ in found],
        path,
        audio_from=clip.path if clip.has_audio and clip.kind == "video" else None,
        start_seconds=job.start,
        audio_end_seconds=ends[-1] if cut and ends else None,
    )


def _join_lines(found: Iterable[_Found], path: Path) -> None:
    with path.open("w") as joined:
        for piece, start in found:
            with piece.open() as lines:
                joined.writelines(renumbered(line, start) for line in lines)


def _join_pictures(found: Iterable[_Found], path: Path) -> None:
    path.mkdir()
    for folder, start in found:
        for picture in folder.iterdir():
            # Only videos, whose frames have numbers for names, are cut into several pieces.
            name = f"{int(picture.stem) + start:06d}{picture.suffix}" if start else picture.name
            linked(picture, path / name)
