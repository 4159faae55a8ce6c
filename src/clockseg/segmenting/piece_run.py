"""Segmenting one piece of a clip: decode ahead, run the session, encode behind, and leave a folder that says it is whole."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from clockseg.carry import settled
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule
from clockseg.clockwork.session import Session
from clockseg.clockwork.step import fill
from clockseg.clockwork.trace import Progress, Record, Tally
from clockseg.errors import UsageError, VideoError
from clockseg.evaluation.cost import Meter
from clockseg.evaluation.energy import counting
from clockseg.evaluation.flicker import Flickers
from clockseg.evaluation.values import gives_numbers
from clockseg.files import part_name
from clockseg.graph.sidecar import MOST_CLASSES
from clockseg.segmenting.figures import Figures
from clockseg.segmenting.free_memory import give_back
from clockseg.segmenting.job import Job
from clockseg.segmenting.result_writer import ResultWriter
from clockseg.segmenting.results import PIECE
from clockseg.types import Array, Size
from clockseg.video import Background, Clip, Frame, prefetch


@dataclass(frozen=True)
class PieceResult:
    """What came of a piece.

    ``figures``: its sums; ``problems``: what could not be decoded or kept; ``carry``, as it settled; ``end_seconds``: when
    the last frame ends; ``wall_seconds``: what the piece took, all in all.
    """

    figures: Figures
    problems: tuple[str, ...] = ()
    carry: str = ""
    end_seconds: float | None = None
    wall_seconds: float = 0.0

    def write(self, folder: Path) -> None:
        """Write it into the piece's folder."""
        told = {field.name: getattr(self, field.name) for field in fields(self)} | {"figures": self.figures.facts()}
        (folder / PIECE).write_text(json.dumps(told))

    @classmethod
    def read(cls, folder: Path) -> PieceResult | None:
        """What a piece's folder tells; None where there is none that is whole."""
        try:
            told = json.loads((folder / PIECE).read_text())
            return cls(**told | {"figures": Figures.from_facts(told["figures"]), "problems": tuple(told["problems"])})
        except (OSError, ValueError, KeyError, TypeError):
            return None


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
    """Segment ``clip``, opened at the span of a piece, into ``folder``, which appears when all in it is whole.

    ``size``: (w, h) of the whole video's first frame, which labels and overlay keep (None: of this clip's). A piece of
    which no frame can be decoded is empty, and tells so.
    """
    part = part_name(folder)
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        result = _run(clip, part, net, schedule, job, size, progress)
        result.write(part)
        shutil.rmtree(folder, ignore_errors=True)
        part.replace(folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    finally:
        # Each piece has threads of its own, and what these leave behind is a little more from piece to piece.
        give_back()
    return result


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
    run = _Run(net, schedule, clip.name, expected(clip, job), progress)
    calm = flickers(net) if job.flicker else None
    lost: tuple[str, ...] = ()
    with clip, ExitStack() as stack:
        stop = None if job.limit is None else (job.limit - 1) * job.every + 1
        decoded = stack.enter_context(closing(prefetch(run.counted(islice(iter(clip), stop)))))
        out = stack.enter_context(ResultWriter(folder, clip, job.writes, net, every=job.every, size=size))
        with Background(_appending(out, calm)) as background:
            try:
                for frame, output, record in run.over(islice(decoded, 0, None, job.every)):
                    background.put(frame, output, record)
            except VideoError as error:
                if run.figures.tally.frames:
                    raise
                lost = (str(error),)
        # The pass stops early at the end of a limit.
        clip.check_unchanged()
    figures = replace(run.figures, decoded=run.decoded, calm=None if calm is None else calm.counted[0])
    problems = (*(lost or clip.problems), *out.problems)
    return PieceResult(figures, problems, run.carry, out.end_seconds, time.perf_counter() - begun)


def flickers(net: StagedNetwork) -> Flickers:
    """What counts the flicker of this network's labels; ``UsageError`` if it gives none."""
    if gives_numbers(net):
        raise UsageError(f"network {net.name!r} gives numbers, no labels, and flicker is of labels; leave it out.")
    known = () if net.sidecar is None else net.sidecar.classes
    return Flickers(1, len(known) or MOST_CLASSES + 1)


def expected(clip: Clip, job: Job) -> int | None:
    """About how many frames will be taken; None if unknown."""
    if not clip.frames_hint:
        return job.limit
    taken = -(-clip.frames_hint // job.every)
    return taken if job.limit is None else min(job.limit, taken)


def _appending(out: ResultWriter, calm: Flickers | None) -> Callable[[Frame, Array, Record], None]:
    """What the thread behind the session does with each frame."""

    def append(frame: Frame, output: Array, record: Record) -> None:
        out.append(frame, output, record)
        if calm is not None:
            calm.see(frame.image, [np.asarray(output)])

    return append


def _check_numbers(output: Any, frame: Frame, net: StagedNetwork) -> None:
    """Refuse what can't be written as a map, before anything is."""
    values = np.asarray(output)
    if values.dtype.kind != "f" or values.ndim not in (2, 3) or values.shape[-2:] != frame.image.shape[:2]:
        raise UsageError(
            f"network {net.name!r} names no classes and gives {values.dtype} {list(values.shape)} for a frame of "
            f"{frame.size[0]}x{frame.size[1]}; maps of floats, [h, w] or [channels, h, w] of its size, can be written. "
            "If these are class ids or scores, name the classes in its sidecar; anything else comes out of a Session."
        )


class _Run:
    """The session over the frames of a clip, and what it adds up to."""

    def __init__(
        self,
        net: StagedNetwork,
        schedule: Schedule,
        name: str,
        expected: int | None,
        progress: Callable[[Progress], None],
    ) -> None:
        self.session = Session(net, schedule)
        self.carry = str(schedule.carry)
        self.decoded = 0
        self.figures = Figures(Tally(tuple(stage.name for stage in net.stages)))
        self._name, self._expected, self._progress = name, expected, progress
        self._meter, self._energy = Meter(net), counting(net.engine)

    def counted(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        """The frames, counted as they are decoded."""
        for frame in frames:
            self.decoded = frame.index + 1
            yield frame

    def over(self, frames: Iterable[Frame]) -> Iterator[tuple[Frame, Array, Record]]:
        """Each frame with its output and its record."""
        for frame in frames:
            if self.session.memory is None or self.session.memory.shape != frame.image.shape:
                # Compile for this size, so that only wall_seconds and fps have it in them.
                fill(self.session.net, self.session.schedule, frame.image)
            self._energy.spent()
            output = self.session(frame.image, vectors=frame.vectors)
            self.carry = str(settled(self.session.schedule.carry, frame.vectors))
            joules, record = self._energy.spent(), self.session.record
            if gives_numbers(self.session.net):
                _check_numbers(output, frame, self.session.net)
            self._count(frame, record, joules)
            self._progress(Progress(self._name, self.figures.tally.frames, self._expected, self.figures.tally))
            yield frame, output, record

    def _count(self, frame: Frame, record: Record, joules: float | None) -> None:
        first = not self.figures.tally.frames
        prices = None if first else self._meter.prices(frame.image)
        price, whole = (None, None) if prices is None else (prices.frame(record), prices.whole)
        self.figures = self.figures.add(record, first=first, price=price, whole=whole, joules=joules)
