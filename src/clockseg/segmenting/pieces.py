"""Pieces of a clip: what is asked of each, and how one is segmented into a folder of its own."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from clockseg.carry import settled
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule
from clockseg.clockwork.trace import Progress, Record, Tally
from clockseg.errors import UsageError, VideoError, nearest, whole_number
from clockseg.evaluation.cost import Meter
from clockseg.execution.machine import release_memory
from clockseg.files import MAX_HOURS, MAX_PIXELS, folder_beside
from clockseg.segmenting.figures import Figures, confidence_of, looked_at, stated
from clockseg.segmenting.results import PIECE
from clockseg.segmenting.writer import ResultWriter
from clockseg.showing.kind import checked_values, kind_of
from clockseg.showing.seeing import Shown
from clockseg.showing.stream import stream
from clockseg.types import Array, Size
from clockseg.video import Background, Clip, Frame, Span, prefetch
from clockseg.video.drawing import STRIPS


@dataclass(frozen=True)
class Job:
    """The options that apply to every video: plain values, so that they can go to other processes and into a manifest.

    ``writes``: kinds of ``results.FILES``; ``every``: take each n-th frame only; ``limit``: the most frames taken; ``start``
    and ``end``: the part of the video in seconds on its own time line (None: all); ``max_pixels`` of a picture and
    ``max_hours`` of a video: larger ones are refused; ``name`` of the schedule; ``setting``: plain values that identify the
    network and how it runs; ``strip``: what the overlay shows of when the network ran (``drawing.STRIPS``); ``classes``: names
    of those to draw and write (none: all); ``scale``: the numbers for the ends of the overlay's colours, which follows from
    the video.

    >>> Job(("labels",), every=0)
    Traceback (most recent call last):
        ...
    clockseg.errors.UsageError: every is 0; it must be a whole number of at least 1.
    """

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
    scale: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        whole_number(self.every, "every")
        whole_number(1 if self.limit is None else self.limit, "limit")
        if self.strip not in STRIPS:
            raise UsageError(f"strip is {self.strip!r}; it is one of {', '.join(STRIPS)}.")
        Span(self.start or Fraction(0), self.end)

    def facts(self) -> dict[str, Any]:
        """Return the options that decide the bytes of the results, as plain values for JSON."""
        told = asdict(self) | {"writes": list(self.writes), "classes": list(self.classes)}
        for name in ("setting", "name", "max_pixels", "max_hours", "scale"):
            del told[name]
        times = {name: None if told[name] is None else str(told[name]) for name in ("start", "end")}
        return {**self.setting, **told, **times}


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
    the reason if there is no frame in it, which is a loss only if there is none in the other pieces either; ``files``: the names
    of the images taken; ``ended_at``: the time at which it was complete, in seconds since the epoch.
    """

    figures: Figures
    decoded: int = 0
    problems: tuple[str, ...] = ()
    carry: str = ""
    end_seconds: float | None = None
    wall_seconds: float = 0.0
    empty: str = ""
    files: tuple[str, ...] = ()
    ended_at: float = 0.0

    def write(self, folder: Path) -> None:
        """Write the result into the piece's folder."""
        (folder / PIECE).write_text(json.dumps(asdict(self) | {"figures": self.figures.facts()}))

    @classmethod
    def read(cls, folder: Path) -> PieceResult | None:
        """Read the result in a piece's folder; None unless the piece is complete."""
        try:
            told = json.loads((folder / PIECE).read_text())
            parts = {"problems": tuple(told["problems"]), "files": tuple(told["files"])}
            return cls(**told | parts | {"figures": Figures.from_facts(told["figures"])})
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
    clip: Clip,
    folder: Path,
    net: StagedNetwork,
    schedule: Schedule,
    job: Job,
    *,
    size: Size | None = None,
    progress: Callable[[Progress], None] = lambda progress: None,
) -> PieceResult:
    """Segment ``clip``, opened at the span of a piece, into ``folder``, which appears once all of it is complete.

    ``size``: (w, h) of the whole video's first frame, to which labels and overlay are resized (None: of this clip's). A
    piece without a frame is complete too, and its ``empty`` gives the reason.
    """
    try:
        with folder_beside(folder, "Give an --out that is writable and has room.") as part:
            result = _run(clip, part, net, schedule, job, size, progress)
            result.write(part)
            shutil.rmtree(folder, ignore_errors=True)
            part.rename(folder)
        return result
    finally:
        # Each piece has threads of its own, whose free memory is scattered and would add up from piece to piece.
        release_memory()


def _run(
    clip: Clip,
    folder: Path,
    net: StagedNetwork,
    schedule: Schedule,
    job: Job,
    size: Size | None,
    progress: Callable[[Progress], None],
) -> PieceResult:
    begun = time.perf_counter()
    run = _Run(net, schedule, clip, job, progress)
    empty = ""
    with clip, ExitStack() as stack:
        stop = None if job.limit is None else (job.limit - 1) * job.every + 1
        decoded = stack.enter_context(closing(prefetch(run.counted(islice(clip, stop)))))
        writer = ResultWriter(
            folder,
            job.writes,
            net,
            fps=clip.fps,
            every=job.every,
            size=size,
            strip=job.strip,
            classes=class_numbers(net, job.classes),
            scale=job.scale,
        )
        out = stack.enter_context(writer)
        with Background(out.append) as background:
            try:
                for done in run.over(islice(decoded, 0, None, job.every)):
                    background.put(*done)
            except VideoError as error:
                if run.figures.tally.frames:
                    raise
                empty = str(error)
        # The pass stops early at the end of a limit.
        clip.check_unchanged()
    return PieceResult(
        run.figures.plus({"busy writing": background.seconds + out.drawing_seconds}),
        run.decoded,
        (*clip.problems, *out.problems),
        run.carry,
        out.end_seconds,
        time.perf_counter() - begun,
        empty,
        tuple(out.files),
        time.time(),
    )


def class_numbers(net: StagedNetwork, names: Sequence[str]) -> tuple[int, ...] | None:
    """Return the ids of the classes of these names; None for no names. ``UsageError`` for a name the network lacks.

    >>> from clockseg.networks.load import load
    >>> class_numbers(load("street", engine=None), ["road"]) is not None
    True
    """
    if not names:
        return None
    for name in names:
        if name not in net.classes:
            known = nearest(name, net.classes) if net.classes else "It outputs no classes."
            raise UsageError(f"network {net.name!r} has no class {name!r}. {known}")
    return tuple(net.classes.index(name) for name in dict.fromkeys(names))


class _Run:
    """A network over the frames of a clip, and the sums of its records."""

    def __init__(
        self, net: StagedNetwork, schedule: Schedule, clip: Clip, job: Job, progress: Callable[[Progress], None]
    ) -> None:
        self.net, self.stream, self.carry = net, stream(net, schedule), str(schedule.carry)
        self.decoded, self.figures = 0, Figures(Tally(net.names))
        self._schedule, self._seen = schedule, 0
        self._name, self._progress = clip.name, progress
        self._expected = clip.expected(job.every, job.limit) or job.limit
        self._meter = Meter(net, job.setting.get("digest") or "")

    def counted(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        """Yield the frames, counting them as they are decoded."""
        for frame in frames:
            self.decoded = frame.index + 1
            yield frame

    def over(self, frames: Iterable[Frame]) -> Iterator[tuple[Frame, Array, Record]]:
        """Yield each frame with its output and its record, in order, once its output is known."""
        seen = (self.stream.see(frame.picture, vectors=frame.vectors, item=frame) for frame in frames)
        with closing(self.stream), closing(prefetch(seen) if self.stream.sees_ahead else seen) as ahead:
            for one in ahead:
                # Compile for this size first, so that the time this takes is in wall_seconds and fps only.
                self.stream.compile(one.image, vectors=one.vectors)
                shown = self.stream.run(one)
                self.carry = str(settled(self._schedule.carry, one.vectors))
                self._look()
                yield from self._told(shown)
            yield from self._told(self.stream.end())

    def _look(self) -> None:
        """Measure the confidence on some of the key frames, for networks that state theirs."""
        maps = self.stream.key_maps
        if maps is None or stated(self.net) is None:
            return
        if looked_at(self._seen):
            self.figures = self.figures.plus({"confidence": confidence_of(maps), "looked": 1})
        self._seen += 1

    def _told(self, shown: Sequence[Shown]) -> Iterator[tuple[Frame, Array, Record]]:
        """Count frames that are done, and yield them."""
        for frame, output, record in shown:
            if kind_of(self.net) == "values":
                height, width = frame.picture.shape[:2]
                checked_values(output, self.net, (width, height))
            prices = self._meter.prices(frame.picture)
            self.figures = self.figures.add(
                record,
                first=not self.figures.tally.frames,
                price=None if prices is None else prices.frame(record),
                whole=None if prices is None else prices.whole,
                decode_seconds=frame.decode_seconds,
            )
            self._progress(Progress(self._name, self.figures.tally.frames, self._expected, self.figures.tally))
            yield frame, output, record
