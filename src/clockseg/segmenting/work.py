"""The work on one clip: it is cut into pieces, each is segmented by itself, and their files are joined into a result folder."""

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
from clockseg.clockwork.schedule import Schedule, check
from clockseg.clockwork.trace import Progress, Tally
from clockseg.errors import UsageError, VideoError
from clockseg.evaluation.values import gives_numbers
from clockseg.files import printable
from clockseg.graph.sidecar import MOST_CLASSES
from clockseg.instances.network import in_piece
from clockseg.segmenting.figures import Figures, doubt, run_facts, stated
from clockseg.segmenting.joining import join_pieces, starts_of
from clockseg.segmenting.pieces import (
    Job,
    Piece,
    PieceResult,
    class_numbers,
    elapsed,
    expected,
    flickers,
    pieces,
    run_piece,
)
from clockseg.segmenting.results import ResultFolder
from clockseg.segmenting.scale import value_scale
from clockseg.types import Size
from clockseg.video import Clip, Span, boundaries, open_clip


@dataclass(frozen=True)
class Segmented:
    """The result of one clip: its folder, its summary, and a sentence for each loss while decoding and writing."""

    folder: Path
    summary: dict[str, Any]
    problems: tuple[str, ...]


class Planned(NamedTuple):
    """A clip on its way into its result folder: what it is cut into, and (w, h) of its first frame if into several.

    ``identity``: that of the clip (``Clip.identity``) as it was cut; if it is another one later, the run fails.
    ``scale``: the numbers for the ends of the overlay's colours (``scale.value_scale``), for networks that give numbers.
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

    Call ``plan`` once, ``run`` for each piece, then ``finish``. Each step writes all of its files or none; what a step
    needs of those before is on disk and in ``Planned``. Errors are those of ``segment``; after one, ``abandon`` the result folder or leave it to
    be resumed.
    """

    net: StagedNetwork
    schedule: Schedule
    job: Job

    def __post_init__(self) -> None:
        check(self.net, self.schedule)
        _check_classes(self.net)
        class_numbers(self.net, self.job.classes)
        if self.job.flicker:
            flickers(self.net)

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
        self, source: str | os.PathLike[str], folder: Path, *, overwrite: bool = False, resume: bool = False
    ) -> Planned:
        """Open the clip, cut it into pieces and make its folder; with ``resume``, complete pieces stay."""
        job = self.job
        with self._open(source, job.start, job.end) as clip:
            _check_length(clip, job)
            found = tuple(pieces(job, _boundaries(clip, job)))
            size = clip.size if len(found) > 1 else None
            clip.check_unchanged()
            mark = {"source": printable(str(clip.path.absolute())), "identity": clip.identity, **self.facts()}
            scale = self._scale(clip)
            result = ResultFolder.begin(folder, clip.path, overwrite=overwrite, mark=mark, resume=resume)
            return Planned(clip.path, result, found, size, expected(clip, job), clip.identity, scale)

    def run(
        self,
        planned: Planned,
        piece: Piece,
        *,
        left: int | None = None,
        progress: Callable[[Progress], None] = lambda progress: None,
    ) -> PieceResult:
        """Segment one piece; ``left``: the most frames still to be taken (None: all)."""
        clip, job = (
            self._open(planned.source, piece.start, piece.end),
            replace(self.job, limit=left, scale=planned.scale),
        )
        clip.check_unchanged(planned.identity)
        folder = planned.result.piece(piece.number)
        net = in_piece(self.net, piece.number)
        return run_piece(clip, folder, net, self.schedule, job, size=planned.size, progress=progress)

    def finish(self, planned: Planned, results: Sequence[PieceResult]) -> Segmented:
        """Join the files of the pieces, and move them into the result folder."""
        begun = time.perf_counter()
        figures = total(results, self.net)
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
            summary: dict[str, Any] = {
                "input": printable(clip.name),
                "source": printable(str(clip.path.absolute())),
                "source_identity": clip.identity,
                "stream": self.job.stream,
            }
        summary |= figures.summary(wall) | {"starts": list(starts_of(results))}
        summary |= run_facts(self.net, self.job.name or repr(self.schedule), results[0].carry)
        summary |= {"only_classes": list(self.job.classes)}
        files = [file for result in results for file in result.files]
        summary |= {"files": files} if files else {}
        summary |= {} if planned.scale is None else {"value_scale": list(planned.scale)}
        doubts = doubt(figures.confidence, stated(self.net))
        summary |= {"problems": list(problems), "warnings": [doubts] if doubts else []}
        planned.result.publish(made, summary)
        return Segmented(planned.result.path, summary, problems)

    def _scale(self, clip: Clip) -> tuple[float, float] | None:
        if not gives_numbers(self.net) or "overlay" not in self.job.writes:
            return None
        start, end = self.job.start, self.job.end
        last = clip.duration_seconds if clip.kind == "video" else None
        last = last if end is None or last is None else min(last, float(end))
        begin = None if last is None else float(start or 0)
        return value_scale(
            self.net, lambda at: self._open(clip.path, start if at is None else at, end), begin=begin, end=last
        )

    def _open(self, source: str | os.PathLike[str], start: Fraction | None, end: Fraction | None) -> Clip:
        vectors = self.schedule.carry.reads_vectors and self.job.every == 1
        span = None if start is None and end is None else Span(start, end)
        job = self.job
        return open_clip(source, max_pixels=job.max_pixels, vectors=vectors, span=span, stream=job.stream)


def total(results: Iterable[PieceResult], net: StagedNetwork) -> Figures:
    """Return the sum of the pieces' figures; zero for no pieces."""
    found = [result.figures for result in results]
    return reduce(add, found) if found else Figures(Tally(net.names))


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
    """Return the problems of all pieces; if there are several, each problem says where its piece begins."""
    if len(planned.pieces) == 1:
        return results[0].problems
    starts = [float(piece.start or 0) for piece in planned.pieces]
    told = zip(starts, results, strict=False)
    return tuple(f"from {start:.2f} s on: {text}" for start, result in told for text in result.problems)


def _check_classes(net: StagedNetwork) -> None:
    count = len(net.sidecar.classes) if net.sidecar is not None else MOST_CLASSES
    if count > MOST_CLASSES:
        raise UsageError(
            f"network {net.name!r} has {count} classes in its sidecar; label maps hold 1 to {MOST_CLASSES} classes "
            "(one byte per pixel, 255 for none). Give a network of class scores."
        )
