"""Segmenting one clip: its pieces, each by itself, joined into a result folder."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

from clockseg import __version__
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Named, Schedule, schedule_for
from clockseg.clockwork.trace import Progress, Tally
from clockseg.clockwork.watching import check
from clockseg.errors import ClocksegError, DataError, UsageError, VideoError
from clockseg.evaluation.values import gives_numbers
from clockseg.execution.machine import machine, versions
from clockseg.graph.sidecar import MOST_CLASSES
from clockseg.segmenting.figures import Figures
from clockseg.segmenting.job import Job, Piece, pieces
from clockseg.segmenting.joining import join_pieces, starts_of
from clockseg.segmenting.piece_run import PieceResult, expected, flickers, run_piece
from clockseg.segmenting.results import ResultFolder, check_writes
from clockseg.types import Size
from clockseg.video import Clip, Span, boundaries, open_clip


@dataclass(frozen=True)
class Segmented:
    """What became of one clip: its folder, its summary (README), and what could not be decoded, a sentence each."""

    folder: Path
    summary: dict[str, Any]
    problems: tuple[str, ...]


def segment(
    source: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    net: StagedNetwork,
    schedule: Schedule | Named,
    *,
    write: Iterable[str] | None = None,
    every: int = 1,
    limit: int | None = None,
    start_seconds: float | None = None,
    end_seconds: float | None = None,
    stream: int | None = None,
    overwrite: bool = False,
    flicker: bool = False,
    name: str | None = None,
    progress: Callable[[Progress], None] = lambda progress: None,
) -> Segmented:
    """Segment a video file, an image or a folder of images into a result folder.

    ``folder`` gets ``labels.mkv``, ``overlay.mp4``, ``trace.jsonl``, ``png/`` (whichever ``write`` names; by default the
    first three; of a network that gives maps of numbers ``values.mkv`` and ``npy/`` in place of labels) and
    ``summary.json``; files get their names when all are whole, and none is left if anything fails. ``every`` takes each
    n-th frame only, ``limit`` so many of them, ``start_seconds`` and ``end_seconds`` a part of the video, ``stream`` another
    of its video streams (from 0). The summary tells ``flicker`` if asked (``clockseg.evaluation.flicker``; found in the thread that
    writes), and the schedule's ``name``. A video is cut at key frames at least a minute apart, and each piece is a session
    of its own. ``VideoError`` if not one frame can be decoded; what was decoded of a damaged clip is written and
    ``problems`` tells.

    >>> import tempfile
    >>> import numpy as np
    >>> from clockseg.clockwork.schedule import frame_oracle
    >>> from clockseg.clockwork.network import Stage
    >>> from clockseg.video import write_png
    >>> net = StagedNetwork("one", (Stage("a", lambda image: image[..., 0] // 128),))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_png(np.full((16, 16), 200, np.uint8), f"{folder}/light.png")
    ...     segment(f"{folder}/light.png", f"{folder}/out", net, frame_oracle).summary["frames"]
    1
    """
    writes = check_writes(write, values=gives_numbers(net))
    # The fraction that was meant: 0.2 as a float is a little more, and the frame at 0.2 s would be lost.
    start, end = (None if at is None else Fraction(at).limit_denominator(10**9) for at in (start_seconds, end_seconds))
    job = Job(writes, every, limit, flicker, name, start, end, stream)
    work = Work(net, schedule_for(schedule, len(net)), job)
    planned = work.plan(source, Path(folder), overwrite=overwrite)
    try:
        return work.finish(planned, work.run_all(planned, progress=progress))
    except BaseException as error:
        planned.result.abandon()
        if refused := unwritable(folder, error):
            raise refused from error
        raise


def unwritable(folder: str | os.PathLike[str], error: BaseException) -> DataError | None:
    """What to say where ``error`` is the system's, which refuses to write; None of any other."""
    if isinstance(error, ClocksegError) or not isinstance(error, OSError):
        return None
    return DataError(f"{folder}: can't be written ({error}). Give an --out that can be written and has room.")


class Planned(NamedTuple):
    """A clip on its way into its result folder: what it is cut into, and (w, h) of its first frame if into several.

    ``identity``: that of the clip (``Clip.identity``) as it was cut; if it is another one later, the run fails.
    """

    source: Path
    result: ResultFolder
    pieces: tuple[Piece, ...]
    size: Size | None
    expected: int | None
    identity: str | None = None


@dataclass(frozen=True)
class Work:
    """A network, a schedule and a job: what is done with every clip, in steps that may be taken in different processes.

    ``plan`` once, ``run`` each piece, ``finish``. Errors are those of ``segment``; after one, or instead of going on,
    ``abandon`` the result folder or leave it to be resumed.
    """

    net: StagedNetwork
    schedule: Schedule
    job: Job

    def __post_init__(self) -> None:
        check(self.net, self.schedule)
        _check_classes(self.net)
        if self.job.flicker:
            flickers(self.net)

    def plan(
        self, source: str | os.PathLike[str], folder: Path, *, overwrite: bool = False, resume: bool = False
    ) -> Planned:
        """Open the clip, cut it at its boundaries and make its folder; with ``resume``, pieces that are whole stay."""
        job = self.job
        with self._open(source, job.start, job.end) as clip:
            _check_length(clip, job)
            found = tuple(pieces(job, _boundaries(clip, job)))
            size = clip.size if len(found) > 1 else None
            clip.check_unchanged()
            mark = _mark(clip, self.net, self.schedule, job)
            result = ResultFolder.begin(folder, clip.path, overwrite=overwrite, mark=mark, resume=resume)
            return Planned(clip.path, result, found, size, expected(clip, job), clip.identity)

    def done(self, planned: Planned) -> dict[int, PieceResult]:
        """What came of the pieces that are whole, by their numbers."""
        found = {piece.number: PieceResult.read(planned.result.piece(piece.number)) for piece in planned.pieces}
        return {number: result for number, result in found.items() if result is not None}

    def run(
        self,
        planned: Planned,
        piece: Piece,
        *,
        left: int | None = None,
        progress: Callable[[Progress], None] = lambda progress: None,
    ) -> PieceResult:
        """Segment one piece; ``left``: how many frames may still be taken (None: all)."""
        clip, job = self._open(planned.source, piece.start, piece.end), replace(self.job, limit=left)
        clip.check_unchanged(planned.identity)
        folder = planned.result.piece(piece.number)
        return run_piece(clip, folder, self.net, self.schedule, job, size=planned.size, progress=progress)

    def run_all(
        self, planned: Planned, *, progress: Callable[[Progress], None] = lambda progress: None
    ) -> list[PieceResult]:
        """Segment one piece after the other, up to the limit; those that are whole already are not run again."""
        results: list[PieceResult] = []
        known = self.done(planned)
        for piece in planned.pieces:
            before = total(results, self.net).tally
            left = None if self.job.limit is None else self.job.limit - before.frames
            if left == 0:
                break

            def tell(now: Progress, before: Tally = before) -> None:
                progress(Progress(now.clip, before.frames + now.done, planned.expected, before + now.tally))

            results.append(known.get(piece.number) or self.run(planned, piece, left=left, progress=tell))
        return results

    def finish(self, planned: Planned, results: Sequence[PieceResult]) -> Segmented:
        """Join what came of the pieces, from the first on, and give the files their names."""
        begun = time.perf_counter()
        figures = total(results, self.net)
        problems = _problems(planned, results)
        if not figures.tally.frames:
            raise VideoError("; ".join(problems))
        with self._open(planned.source, None, None) as clip:
            clip.check_unchanged(planned.identity)
            folders = [planned.result.piece(piece.number) for piece in planned.pieces[: len(results)]]
            made = planned.result.part / "joined"
            problems = (*problems, *join_pieces(folders, results, made, clip, self.job))
            clip.check_unchanged()
            wall = sum(result.wall_seconds for result in results) + time.perf_counter() - begun
            summary: dict[str, Any] = {
                "input": clip.name,
                "source": str(clip.path.absolute()),
                "source_identity": clip.identity,
                "stream": self.job.stream,
            }
        summary |= figures.summary(wall) | {"starts": list(starts_of(results))} | self._setting(results)
        summary["problems"] = list(problems)
        planned.result.publish(made, summary)
        return Segmented(planned.result.path, summary, problems)

    def _open(self, source: str | os.PathLike[str], start: Fraction | None, end: Fraction | None) -> Clip:
        vectors = self.schedule.carry.reads_vectors and self.job.every == 1
        span = None if start is None and end is None else Span(start, end)
        job = self.job
        return open_clip(source, max_pixels=job.max_pixels, vectors=vectors, span=span, stream=job.stream)

    def _setting(self, results: Sequence[PieceResult]) -> dict[str, Any]:
        said = self.net.sidecar
        return {
            "network": self.net.name,
            "schedule": self.job.name or repr(self.schedule),
            "carry": results[0].carry,
            "engine": self.net.engine,
            "classes": [] if said is None else list(said.classes),
            "palette": [] if said is None else [list(colour) for colour in said.palette],
            "versions": versions(),
            "machine": machine(),
        }


def total(results: Iterable[PieceResult], net: StagedNetwork) -> Figures:
    """The sum over pieces, none of them included."""
    found = [result.figures for result in results]
    return reduce(add, found) if found else Figures(Tally(tuple(stage.name for stage in net.stages)))


def _check_length(clip: Clip, job: Job) -> None:
    hours = (clip.duration_seconds or 0.0) / 3600
    if hours > job.max_hours:
        raise VideoError(
            f"{clip.path}: its header says {hours:.1f} hours; at most {job.max_hours:g} are taken. Give an --end, or more "
            "--max-hours if it is really so long."
        )


def _boundaries(clip: Clip, job: Job) -> tuple[Fraction, ...]:
    if clip.kind != "video":
        return ()
    return boundaries(clip.path, start=job.start, end=job.end, stream=job.stream)


def _problems(planned: Planned, results: Sequence[PieceResult]) -> tuple[str, ...]:
    """Of all pieces; those of one of several say where it begins."""
    if len(planned.pieces) == 1:
        return results[0].problems
    starts = [float(piece.start or 0) for piece in planned.pieces]
    told = zip(starts, results, strict=False)
    return tuple(f"from {start:.2f} s on: {text}" for start, result in told for text in result.problems)


def _mark(clip: Clip, net: StagedNetwork, schedule: Schedule, job: Job) -> dict[str, Any]:
    """What pieces are of: those of another clip, network, schedule or job are of no use."""
    return {
        "source": {"path": str(clip.path.absolute()), "identity": clip.identity},
        "network": net.name,
        "engine": net.engine,
        "schedule": job.name or repr(schedule),
        "carry": str(schedule.carry),
        "job": job.facts(),
        "clockseg": __version__,
    }


def _check_classes(net: StagedNetwork) -> None:
    count = len(net.sidecar.classes) if net.sidecar is not None else MOST_CLASSES
    if count > MOST_CLASSES:
        raise UsageError(
            f"network {net.name!r} has {count} classes in its sidecar; label maps hold 1 to {MOST_CLASSES} classes "
            "(a byte a pixel, 255 for none). Give a network of class scores."
        )
