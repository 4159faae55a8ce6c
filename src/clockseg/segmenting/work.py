"""The work on one clip: it is cut into pieces, each is segmented by itself, and their files are joined into a result folder."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from functools import reduce
from itertools import accumulate, islice, pairwise
from operator import add
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from clockseg import __version__
from clockseg.carry import settled
from clockseg.clocks.expressions import text_of
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule, check
from clockseg.clockwork.trace import Record
from clockseg.errors import UsageError, VideoError, nearest, whole_number
from clockseg.evaluation.cost import Meter
from clockseg.evaluation.tally import Progress, Tally
from clockseg.execution.machine import release_memory
from clockseg.files import MAX_HOURS, MAX_PIXELS, folder_beside, printable
from clockseg.segmenting.figures import Figures, PieceResult, confidence_of, doubt, elapsed, run_facts, stated
from clockseg.segmenting.manifest import writing
from clockseg.segmenting.results import PIECE, ResultFolder
from clockseg.segmenting.writer import ResultWriter, join_pieces
from clockseg.showing.kind import checked_values, kind_of
from clockseg.showing.stream import Shown, stream
from clockseg.types import Array, Size
from clockseg.video import Background, Clip, Frame, Span, boundaries, open_clip, prefetch
from clockseg.video.drawing import STRIPS
from clockseg.video.overlay import ENDS, SAMPLED

OnProgress: TypeAlias = Callable[[Progress], None]
SAMPLES = 8
"""Frames from which the scale of colours of a network that gives numbers is taken."""


@dataclass(frozen=True)
class Segmented:
    """The result of one clip: its folder and its summary."""

    folder: Path
    summary: dict[str, Any]

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence for each loss while decoding and writing."""
        return tuple(self.summary["problems"])


class Piece(NamedTuple):
    """A part of a video with its own session, clocks and encoder: frames with ``start`` <= time < ``end``, in seconds.

    ``number`` counts the pieces of a video from 0. ``start`` None: from the beginning; ``end`` None: to the end.
    """

    number: int
    start: Fraction | None
    end: Fraction | None


class Planned(NamedTuple):
    """A clip on its way into its result folder: what it is cut into, and (w, h) of its first frame if into several.

    ``expected``: about how many frames will be taken, at most ``limit``. ``identity``: that of the clip (``Clip.identity``) as
    it was cut; if it is another one later, the run fails. ``scale``: the numbers for the ends of the overlay's colours, for
    networks that give numbers.
    """

    source: Path
    result: ResultFolder
    pieces: tuple[Piece, ...]
    size: Size | None = None
    expected: int | None = None
    limit: int | None = None
    identity: str | None = None
    scale: tuple[float, float] | None = None


@dataclass(frozen=True)
class Work:
    """A network, a schedule and options, applied to each clip in steps that may run in different processes.

    Call ``plan`` once, ``run`` for each piece, then ``finish``. All take ``on_progress``, which is called as frames are done. Each
    step writes all of its files or none; what it needs of those before is on disk and in ``Planned``. Errors are those of
    ``segment``; after one, ``abandon`` the result folder or leave it to be resumed.

    ``writes``: kinds of ``results.FILES``; ``every``: take each n-th frame only; ``limit``: the most frames of each clip;
    ``start`` and ``end``: the part of the video in seconds on its own time line (None: all); ``max_pixels`` of a picture and
    ``max_hours`` of a video: larger ones are refused; ``name`` of the schedule; ``setting``: plain values that identify the
    network and how it runs; ``strip``: what the overlay shows of when the network ran (``drawing.STRIPS``); ``classes``: names
    of those to draw and write (none: all).
    """

    net: StagedNetwork
    schedule: Schedule
    writes: tuple[str, ...]
    every: int = 1
    limit: int | None = None
    name: str | None = None
    start: Fraction | None = None
    end: Fraction | None = None
    max_pixels: int = MAX_PIXELS
    max_hours: float = MAX_HOURS
    setting: Mapping[str, str | None] = field(default_factory=dict)
    strip: str = STRIPS[0]
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        whole_number(self.every, "every")
        whole_number(1 if self.limit is None else self.limit, "limit")
        if self.strip not in STRIPS:
            raise UsageError(f"strip is {self.strip!r}; it is one of {', '.join(STRIPS)}.")
        Span(self.start or Fraction(0), self.end)
        check(self.net, self.schedule)
        self.class_ids()

    def class_ids(self) -> tuple[int, ...] | None:
        """Return the ids of the classes to draw and write, None for all; ``UsageError`` for a name the network lacks."""
        for name in self.classes:
            if name not in self.net.classes:
                known = nearest(name, self.net.classes) if self.net.classes else "It outputs no classes."
                raise UsageError(f"network {self.net.name!r} has no class {name!r}. {known}")
        return tuple(self.net.classes.index(name) for name in dict.fromkeys(self.classes)) or None

    def facts(self) -> dict[str, Any]:
        """Return everything that decides the bytes of the results, as plain values: a run is resumed with the same only."""
        return {
            "network": self.net.name,
            "engine": self.net.engine,
            "schedule": self.name or repr(self.schedule),
            "carry": text_of(self.schedule.carry),
            **self.setting,
            "writes": list(self.writes),
            "every": self.every,
            "limit": self.limit,
            "start": None if self.start is None else str(self.start),
            "end": None if self.end is None else str(self.end),
            "strip": self.strip,
            "classes": list(self.classes),
            "clockseg": __version__,
        }

    def plan(
        self, on_progress: OnProgress, source: str | os.PathLike[str], folder: Path, *, keep: bool = False
    ) -> Planned:
        """Open the clip, cut it into pieces and make its folder; with ``keep``, complete pieces stay."""
        with self._open(source, self.start, self.end) as clip:
            hours = (clip.duration_seconds or 0.0) / 3600
            if hours > self.max_hours:
                raise VideoError(
                    f"{clip.path}: its header says {hours:.1f} hours; at most {self.max_hours:g} are taken. Give an --end, or "
                    "more --max-hours if it is really so long."
                )
            # Identities of instances go on from frame to frame, so such a video is one piece.
            whole = clip.kind != "video" or kind_of(self.net) == "instances"
            cuts = () if whole else boundaries(clip.path, start=self.start, end=self.end)
            edges = pairwise((self.start, *cuts, self.end))
            pieces = tuple(Piece(number, *edge) for number, edge in enumerate(edges))
            size = clip.size if len(pieces) > 1 else None
            clip.check_unchanged()
            scale = self._scale(clip)
            result = ResultFolder.begin(folder, clip.path, keep=keep)
            expected = clip.expected(self.every, self.limit)
            return Planned(clip.path, result, pieces, size, expected, self.limit, clip.identity, scale)

    def run(self, on_progress: OnProgress, planned: Planned, piece: Piece, *, left: int | None = None) -> PieceResult:
        """Segment one piece into its folder; ``left``: the most frames still to be taken (None: all).

        A piece without a frame is complete too, and its ``empty`` gives the reason.
        """
        clip = self._open(planned.source, piece.start, piece.end)
        clip.check_unchanged(planned.identity)
        begun, empty, folder = time.perf_counter(), "", planned.result.piece(piece.number)
        session = _Session(self, clip, left, on_progress)
        advice = "Give an --out that is writable and has room."
        with writing(planned.result.path), folder_beside(folder, advice) as part:
            writer = ResultWriter(
                part,
                self.writes,
                self.net,
                fps=clip.fps,
                every=self.every,
                size=planned.size,
                strip=self.strip,
                classes=self.class_ids(),
                scale=planned.scale,
            )
            with clip, closing(session.frames()) as frames, writer as out, Background(out.append) as background:
                try:
                    for done in frames:
                        background.put(*done)
                except VideoError as error:
                    if session.figures.tally.frames:
                        raise
                    empty = str(error)
            # A pass that a limit ends does not check this itself.
            clip.check_unchanged()
            since = f"from {float(piece.start or 0):.2f} s on: " if len(planned.pieces) > 1 else ""
            result = PieceResult(
                session.figures.plus({"busy writing": background.seconds + out.drawing_seconds}),
                session.decoded,
                tuple(since + problem for problem in (*clip.problems, *out.problems)),
                session.carry,
                out.end_seconds,
                time.perf_counter() - begun,
                empty,
                time.time(),
            )
            (part / PIECE).write_text(json.dumps(asdict(result)))
            shutil.rmtree(folder, ignore_errors=True)
            part.rename(folder)
        # Each piece has threads of its own, whose free memory is scattered and would add up from piece to piece.
        release_memory()
        return result

    def finish(self, on_progress: OnProgress, planned: Planned, results: Sequence[PieceResult]) -> Segmented:
        """Join the files of the pieces, and move them into the result folder."""
        begun = time.perf_counter()
        figures = reduce(add, [result.figures for result in results])
        if not figures.tally.frames:
            raise VideoError(results[0].empty)
        # The number of the frame with which each piece begins.
        starts = list(accumulate((result.decoded for result in results[:-1]), initial=0))
        with writing(planned.result.path), self._open(planned.source, None, None) as clip:
            clip.check_unchanged(planned.identity)
            folders = [planned.result.piece(piece.number) for piece in planned.pieces[: len(results)]]
            made = planned.result.part / "joined"
            cut = self.limit is not None or self.end is not None
            ends = [result.end_seconds for result in results if cut and result.end_seconds is not None]
            lost = join_pieces(folders, starts, made, self.writes, clip, self.start, ends[-1] if ends else None)
            clip.check_unchanged()
        problems = [problem for result in results for problem in result.problems]
        told = figures.summary(elapsed(results) + time.perf_counter() - begun)
        doubts = doubt(told["confidence"], stated(self.net))
        summary: dict[str, Any] = {
            "input": printable(clip.name),
            "source": printable(str(planned.source.absolute())),
            "source_identity": clip.identity,
            **told,
            "starts": starts,
            **run_facts(self.net, self.name or repr(self.schedule), results[0].carry),
            "only_classes": list(self.classes),
            **({} if planned.scale is None else {"value_scale": list(planned.scale)}),
            "problems": [*problems, *lost],
            "warnings": [doubts] if doubts else [],
        }
        planned.result.publish(made, summary)
        return Segmented(planned.result.path, summary)

    def _scale(self, clip: Clip) -> tuple[float, float] | None:
        """Return the numbers for the ends of the overlay's colours; None if no frame gives finite numbers.

        The network runs on ``SAMPLES`` frames, evenly spaced over the part, or the first ones if it has no times.
        """
        if kind_of(self.net) != "values" or "overlay" not in self.writes:
            return None
        begin, step = float(self.start or 0), (clip.duration_seconds or 0.0) / SAMPLES
        moments: list[Fraction | None] = [self.start]
        if clip.kind == "video" and step:
            places = [begin + step * (number + 0.5) for number in range(SAMPLES)]
            moments = [Fraction(place).limit_denominator(1000) for place in places]
        found: list[Array] = []
        for moment in moments:
            with self._open(clip.path, moment, self.end) as part, suppress(VideoError):
                for frame in islice(part, SAMPLES // len(moments)):
                    values = checked_values(self.net(frame.image), self.net, frame.size)
                    flat = (values if values.ndim == 2 else values[0]).ravel()
                    flat = flat[:: max(1, flat.size // SAMPLED)]
                    found.append(flat[np.isfinite(flat)])
        numbers = np.concatenate(found) if found else np.zeros(0)
        if not numbers.size:
            return None
        low, high = np.percentile(numbers.astype(np.float64), ENDS)
        return float(low), float(high)

    def _open(self, source: str | os.PathLike[str], start: Fraction | None, end: Fraction | None) -> Clip:
        vectors = self.schedule.carry.reads_vectors and self.every == 1
        return open_clip(source, max_pixels=self.max_pixels, vectors=vectors, span=Span(start, end))


class _Session:
    """A network over the frames of a clip, and the sums of its records; ``decoded``: frames, taken or not."""

    def __init__(self, work: Work, clip: Clip, limit: int | None, on_progress: OnProgress) -> None:
        self.decoded, self.figures, self.carry = 0, Figures(Tally(work.net.names)), text_of(work.schedule.carry)
        self._work, self._clip, self._limit, self._on_progress = work, clip, limit, on_progress
        self._stream, self._key_frames = stream(work.net, work.schedule), 0
        self._meter = Meter(work.net, work.setting.get("digest") or "")

    def frames(self) -> Generator[tuple[Frame, Array, Record], None, None]:
        """Yield each frame taken with its output and its record, in order, once its output is known."""
        every, run = self._work.every, self._stream
        stop = None if self._limit is None else (self._limit - 1) * every + 1
        with ExitStack() as stack:
            decoded = stack.enter_context(closing(prefetch(self._counted(islice(self._clip, stop)))))
            stack.enter_context(closing(run))
            taken = islice(decoded, 0, None, every)
            seen = (run.see(frame.picture, vectors=frame.vectors, item=frame) for frame in taken)
            for one in stack.enter_context(closing(prefetch(seen))) if run.sees_ahead else seen:
                # Compile for this size first, so that the time this takes is in wall_seconds and fps only.
                run.compile(one)
                shown = run.run(one)
                self.carry = text_of(settled(self._work.schedule.carry, one.vectors))
                self._measure_confidence()
                yield from self._told(shown)
            yield from self._told(run.end())

    def _counted(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        for frame in frames:
            self.decoded = frame.index + 1
            yield frame

    def _measure_confidence(self) -> None:
        """Measure the confidence on some of the key frames, for networks that state theirs."""
        maps = self._stream.key_maps
        if maps is None or stated(self._work.net) is None:
            return
        # On key frames 0, 1, 2, 4, 8 and so on, since it takes time.
        if self._key_frames & (self._key_frames - 1) == 0:
            self.figures = self.figures.plus({"confidence": confidence_of(maps), "looked": 1})
        self._key_frames += 1

    def _told(self, shown: Sequence[Shown]) -> Iterator[tuple[Frame, Array, Record]]:
        """Count frames that are done, and yield them."""
        for frame, output, record in shown:
            if kind_of(self._work.net) == "values":
                checked_values(output, self._work.net, frame.size)
            self.figures = self.figures.add(
                record,
                first=not self.figures.tally.frames,
                prices=self._meter.prices(frame.picture),
                decode_seconds=frame.decode_seconds,
            )
            tally = self.figures.tally
            self._on_progress(Progress(self._clip.name, tally.frames, None, tally))
            yield frame, output, record
