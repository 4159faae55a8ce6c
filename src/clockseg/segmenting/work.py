"""The work on one clip: it is cut into pieces, each is segmented by itself, and their files are joined into a result folder."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from itertools import islice, pairwise
from operator import add
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from clockseg import __version__
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule, check
from clockseg.clockwork.trace import Progress
from clockseg.errors import VideoError
from clockseg.files import printable
from clockseg.segmenting.figures import doubt, run_facts, stated
from clockseg.segmenting.joining import join_pieces, starts_of
from clockseg.segmenting.pieces import (
    Job,
    Piece,
    PieceResult,
    class_numbers,
    elapsed,
    run_piece,
)
from clockseg.segmenting.results import ResultFolder
from clockseg.showing.kind import kind_of
from clockseg.types import Array, Size
from clockseg.video import Clip, Span, boundaries, open_clip
from clockseg.video.overlay import ENDS, SAMPLED

OnProgress: TypeAlias = Callable[[Progress], None]
SAMPLES = 8
"""Frames from which the scale of colours of a network that gives numbers is taken."""


@dataclass(frozen=True)
class Segmented:
    """The result of one clip: its folder, its summary, and a sentence for each loss while decoding and writing."""

    folder: Path
    summary: dict[str, Any]
    problems: tuple[str, ...]


class Planned(NamedTuple):
    """A clip on its way into its result folder: what it is cut into, and (w, h) of its first frame if into several.

    ``identity``: that of the clip (``Clip.identity``) as it was cut; if it is another one later, the run fails.
    ``scale``: the numbers for the ends of the overlay's colours, for networks that give numbers.
    """

    source: Path
    result: ResultFolder
    pieces: tuple[Piece, ...]
    size: Size | None
    expected: int | None
    identity: str | None = None
    scale: tuple[float, float] | None = None

    def complete(self) -> dict[int, PieceResult]:
        """Return the results of the pieces that are complete on disk, by their numbers."""
        found = {piece.number: PieceResult.read(self.result.piece(piece.number)) for piece in self.pieces}
        return {number: result for number, result in found.items() if result is not None}


@dataclass(frozen=True)
class Work:
    """A network, a schedule and a job, applied to each clip in steps that may run in different processes.

    Call ``plan`` once, ``run`` for each piece, then ``finish``. All take ``on_progress``, which is called as frames are done. Each
    step writes all of its files or none; what it needs of those before is on disk and in ``Planned``. Errors are those of
    ``segment``; after one, ``abandon`` the result folder or leave it to be resumed.
    """

    net: StagedNetwork
    schedule: Schedule
    job: Job

    def __post_init__(self) -> None:
        check(self.net, self.schedule)
        class_numbers(self.net, self.job.classes)

    def facts(self) -> dict[str, Any]:
        """Return everything that decides the bytes of the results, as plain values: a run is resumed with the same only."""
        return {
            "network": self.net.name,
            "engine": self.net.engine,
            "schedule": self.job.name or repr(self.schedule),
            "carry": str(self.schedule.carry),
            **self.job.facts(),
            "clockseg": __version__,
        }

    def plan(
        self,
        on_progress: OnProgress,
        source: str | os.PathLike[str],
        folder: Path,
        *,
        overwrite: bool = False,
        resume: bool = False,
        keep: bool = False,
    ) -> Planned:
        """Open the clip, cut it into pieces and make its folder; with ``keep``, complete pieces stay."""
        job = self.job
        with self._open(source, job.start, job.end) as clip:
            _check_length(clip, job)
            edges = pairwise((job.start, *self._boundaries(clip), job.end))
            found = tuple(Piece(number, *edge) for number, edge in enumerate(edges))
            size = clip.size if len(found) > 1 else None
            clip.check_unchanged()
            scale = self._scale(clip)
            result = ResultFolder.begin(folder, clip.path, overwrite=overwrite, resume=resume, keep=keep)
            expected = clip.expected(job.every, job.limit) or job.limit
            return Planned(clip.path, result, found, size, expected, clip.identity, scale)

    def run(self, on_progress: OnProgress, planned: Planned, piece: Piece, *, left: int | None = None) -> PieceResult:
        """Segment one piece; ``left``: the most frames still to be taken (None: all)."""
        clip = self._open(planned.source, piece.start, piece.end)
        job = replace(self.job, limit=left, scale=planned.scale)
        clip.check_unchanged(planned.identity)
        folder = planned.result.piece(piece.number)
        return run_piece(clip, folder, self.net, self.schedule, job, size=planned.size, progress=on_progress)

    def finish(self, on_progress: OnProgress, planned: Planned, results: Sequence[PieceResult]) -> Segmented:
        """Join the files of the pieces, and move them into the result folder."""
        begun = time.perf_counter()
        figures = reduce(add, [result.figures for result in results])
        problems = _problems(planned, results)
        if not figures.tally.frames:
            raise VideoError(results[0].empty)
        with self._open(planned.source, None, None) as clip:
            clip.check_unchanged(planned.identity)
            folders = [planned.result.piece(piece.number) for piece in planned.pieces[: len(results)]]
            made = planned.result.part / "joined"
            problems = (*problems, *join_pieces(folders, results, made, clip, self.job))
            clip.check_unchanged()
            wall = elapsed(results) + time.perf_counter() - begun
        files = [file for result in results for file in result.files]
        doubts = doubt(figures.confidence, stated(self.net))
        summary: dict[str, Any] = {
            "input": printable(clip.name),
            "source": printable(str(planned.source.absolute())),
            "source_identity": clip.identity,
            **figures.summary(wall),
            "starts": list(starts_of(results)),
            **run_facts(self.net, self.job.name or repr(self.schedule), results[0].carry),
            "only_classes": list(self.job.classes),
            **({"files": files} if files else {}),
            **({} if planned.scale is None else {"value_scale": list(planned.scale)}),
            "problems": list(problems),
            "warnings": [doubts] if doubts else [],
        }
        planned.result.publish(made, summary)
        return Segmented(planned.result.path, summary, problems)

    def _scale(self, clip: Clip) -> tuple[float, float] | None:
        """Return the numbers for the ends of the overlay's colours; None if no frame gives finite numbers.

        The network runs on ``SAMPLES`` frames, evenly spaced over the part, or the first ones if it has no times.
        """
        job = self.job
        if kind_of(self.net) != "values" or "overlay" not in job.writes:
            return None
        moments, count = [job.start], SAMPLES
        if clip.kind == "video" and clip.duration_seconds is not None:
            begin = float(job.start or 0)
            end = clip.duration_seconds if job.end is None else min(clip.duration_seconds, float(job.end))
            if end > begin:
                places = [begin + (end - begin) * (number + 0.5) / SAMPLES for number in range(SAMPLES)]
                moments, count = [Fraction(place).limit_denominator(1000) for place in places], 1
        found: list[Array] = []
        for moment in moments:
            with self._open(clip.path, moment, job.end) as part, suppress(VideoError):
                found += [_numbers(self.net, frame.image) for frame in islice(part, count)]
        numbers = np.concatenate(found) if found else np.zeros(0)
        if not numbers.size:
            return None
        low, high = np.percentile(numbers, ENDS)
        return float(low), float(high)

    def _boundaries(self, clip: Clip) -> tuple[Fraction, ...]:
        # Identities of instances go on from frame to frame, so such a video is one piece.
        if clip.kind != "video" or kind_of(self.net) == "instances":
            return ()
        return boundaries(clip.path, start=self.job.start, end=self.job.end)

    def _open(self, source: str | os.PathLike[str], start: Fraction | None, end: Fraction | None) -> Clip:
        job = self.job
        vectors = self.schedule.carry.reads_vectors and job.every == 1
        return open_clip(source, max_pixels=job.max_pixels, vectors=vectors, span=Span(start, end))


def _numbers(net: StagedNetwork, image: Array) -> Array:
    """Return finite numbers of the first channel of a frame's output, none if it is no map."""
    values = np.asarray(net(image))
    if values.dtype.kind != "f" or values.ndim not in (2, 3):
        return np.zeros(0)
    flat = (values if values.ndim == 2 else values[0]).ravel()
    flat = flat[:: max(1, flat.size // SAMPLED)]
    return np.asarray(flat[np.isfinite(flat)], np.float64)


def _check_length(clip: Clip, job: Job) -> None:
    hours = (clip.duration_seconds or 0.0) / 3600
    if hours > job.max_hours:
        raise VideoError(
            f"{clip.path}: its header says {hours:.1f} hours; at most {job.max_hours:g} are taken. Give an --end, or more "
            "--max-hours if it is really so long."
        )


def _problems(planned: Planned, results: Sequence[PieceResult]) -> tuple[str, ...]:
    """Return the problems of all pieces; if there are several, each problem says where its piece begins."""
    if len(planned.pieces) == 1:
        return results[0].problems
    starts = [float(piece.start or 0) for piece in planned.pieces]
    told = zip(starts, results, strict=False)
    return tuple(f"from {start:.2f} s on: {text}" for start, result in told for text in result.problems)
