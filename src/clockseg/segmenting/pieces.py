"""Pieces of a clip: each is segmented by itself, into a folder of its own that appears once all of it is complete."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from clockseg.carry import settled
from clockseg.clockwork.trace import Progress, Record, Tally
from clockseg.errors import VideoError
from clockseg.evaluation.cost import Meter
from clockseg.execution.machine import release_memory
from clockseg.files import folder_beside
from clockseg.segmenting.figures import Figures, confidence_of, stated
from clockseg.segmenting.results import PIECE
from clockseg.segmenting.writer import ResultWriter
from clockseg.showing.kind import checked_values, kind_of
from clockseg.showing.stream import Shown, stream
from clockseg.types import Array
from clockseg.video import Background, Clip, Frame, prefetch

if TYPE_CHECKING:
    from clockseg.segmenting.work import OnProgress, Planned, Work


class Piece(NamedTuple):
    """A part of a video with its own session, clocks and encoder: frames with ``start`` <= time < ``end``, in seconds.

    ``number`` counts the pieces of a video from 0. ``start`` None: from the beginning; ``end`` None: to the end.
    """

    number: int
    start: Fraction | None
    end: Fraction | None


@dataclass(frozen=True)
class PieceResult:
    """The result of a piece.

    ``figures``: sums over its frames; ``decoded``: frames of the input, taken or not; ``problems``: a sentence for each loss;
    ``carry``: the carry in use at its end; ``end_seconds``: the end of its last frame; ``wall_seconds``: elapsed time; ``empty``:
    the reason if there is no frame in it, which is a loss only if there is none in the other pieces either; ``ended_at``: the
    time at which it was complete, in seconds since the epoch.
    """

    figures: Figures
    decoded: int = 0
    problems: tuple[str, ...] = ()
    carry: str = ""
    end_seconds: float | None = None
    wall_seconds: float = 0.0
    empty: str = ""
    ended_at: float = 0.0

    def write(self, folder: Path) -> None:
        """Write the result into the piece's folder."""
        (folder / PIECE).write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> PieceResult | None:
        """Read the result in a piece's folder; None unless the piece is complete."""
        try:
            told = json.loads((folder / PIECE).read_text())
            figures, problems = Figures.from_facts(told["figures"]), tuple(told["problems"])
            return cls(**told | {"figures": figures, "problems": problems})
        except (OSError, ValueError, KeyError, TypeError):
            return None


def elapsed(results: Iterable[PieceResult]) -> float:
    """Return the seconds during which any of the pieces ran: pieces may run at once, and in several runs.

    >>> one, other = (PieceResult(Figures(Tally(("a",))), wall_seconds=10.0, ended_at=at) for at in (110.0, 115.0))
    >>> elapsed([other, one])
    15.0
    """
    seconds, until = 0.0, float("-inf")
    for begun, ended in sorted((one.ended_at - one.wall_seconds, one.ended_at) for one in results):
        seconds += max(0.0, ended - max(begun, until))
        until = max(until, ended)
    return seconds


def run_piece(
    work: Work, planned: Planned, piece: Piece, clip: Clip, *, limit: int | None, on_progress: OnProgress
) -> PieceResult:
    """Segment ``clip``, opened at the span of the piece, into the piece's folder; ``limit``: the most frames taken.

    A piece without a frame is complete too, and its ``empty`` gives the reason.
    """
    begun, empty, folder = time.perf_counter(), "", planned.result.piece(piece.number)
    session = _Session(work, clip, limit, on_progress)
    with folder_beside(folder, "Give an --out that is writable and has room.") as part:
        writer = ResultWriter(
            part,
            work.writes,
            work.net,
            fps=clip.fps,
            every=work.every,
            size=planned.size,
            strip=work.strip,
            classes=work.class_ids(),
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
        result.write(part)
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    # Each piece has threads of its own, whose free memory is scattered and would add up from piece to piece.
    release_memory()
    return result


class _Session:
    """A network over the frames of a clip, and the sums of its records; ``decoded``: frames, taken or not."""

    def __init__(self, work: Work, clip: Clip, limit: int | None, on_progress: OnProgress) -> None:
        self.decoded, self.figures, self.carry = 0, Figures(Tally(work.net.names)), str(work.schedule.carry)
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
                self.carry = str(settled(self._work.schedule.carry, one.vectors))
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
