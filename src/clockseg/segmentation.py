"""Segmenting one clip: decode ahead, run the session, encode behind, and leave a result folder."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from clockseg._errors import ClocksegError, DataError, UsageError
from clockseg._types import Array
from clockseg._watching import check
from clockseg.carry import Carry, settled
from clockseg.clocks.every import whole_number
from clockseg.deviation import gives_numbers
from clockseg.energy import counting
from clockseg.engines.priced import Meter
from clockseg.flicker import Flickers, flicker_facts
from clockseg.graph.sidecar import MOST_CLASSES
from clockseg.provenance import machine, versions
from clockseg.result_writer import ResultWriter
from clockseg.results import ResultFolder, check_writes
from clockseg.schedule import Named, Schedule, schedule_for
from clockseg.session import Session, fill
from clockseg.spent import Spent
from clockseg.stages import StagedNetwork
from clockseg.trace import FullPass, Progress, Record
from clockseg.video import Background, Clip, Frame, open_clip, prefetch


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
    overwrite: bool = False,
    flicker: bool = False,
    name: str | None = None,
    progress: Callable[[Progress], None] = lambda progress: None,
) -> Segmented:
    """Segment a video file, an image or a folder of images into a result folder.

    ``folder`` gets ``labels.mkv``, ``overlay.mp4``, ``trace.jsonl``, ``png/`` (whichever ``write`` names; by default the
    first three; of a network that gives maps of numbers ``values.mkv`` and ``npy/`` in place of labels) and
    ``summary.json``; files get their names when all are whole, and none is left if anything fails. ``every`` takes each
    n-th frame only, ``limit`` so many of them. The summary tells ``flicker`` if asked (``clockseg.flicker``; found in the
    thread that writes), and the schedule's ``name``. ``VideoError`` if not one frame can be decoded; what was decoded of a
    damaged clip is written and ``problems`` tells.
    """
    schedule, writes = schedule_for(schedule, len(net)), check_writes(write, values=gives_numbers(net))
    whole_number(every, "every")
    whole_number(1 if limit is None else limit, "limit")
    check(net, schedule)
    _check_classes(net)
    calm = _flickers(net) if flicker else None
    clip = open_clip(source, vectors=schedule.carry.reads_vectors and every == 1)
    result = ResultFolder(Path(folder), clip.path, overwrite=overwrite)
    start = time.perf_counter()
    try:
        with clip, ExitStack() as stack:
            taken = prefetch(islice(iter(clip), 0, None if limit is None else (limit - 1) * every + 1, every))
            frames = stack.enter_context(closing(taken))
            run = _Run(net, schedule, clip.name, _expected(clip, every, limit), progress)
            out = stack.enter_context(
                ResultWriter(result.part, clip, writes, net, every=every, limited=limit is not None)
            )
            with Background(_appending(out, calm)) as background:
                for frame, output, record in run.over(frames):
                    background.put(frame, output, record)
        problems = (*clip.problems, *out.problems)
        figures = run.summary(time.perf_counter() - start)
        figures["flicker"] = None if calm is None else flicker_facts(calm.counted[0])
        setting = _setting(net, schedule, run.carry, name)
        summary = {"input": clip.name} | figures | setting | {"problems": list(problems)}
        result.publish(summary)
    except OSError as error:
        result.abandon()
        if isinstance(error, ClocksegError):
            raise
        raise DataError(
            f"{folder}: can't be written ({error}). Give an --out that can be written and has room."
        ) from error
    except BaseException:
        result.abandon()
        raise
    return Segmented(result.path, summary, problems)


def _check_classes(net: StagedNetwork) -> None:
    count = len(net.sidecar.classes) if net.sidecar is not None else MOST_CLASSES
    if count > MOST_CLASSES:
        raise UsageError(
            f"network {net.name!r} has {count} classes in its sidecar; label maps hold 1 to {MOST_CLASSES} classes "
            "(a byte a pixel, 255 for none). Give a network of class scores."
        )


def _flickers(net: StagedNetwork) -> Flickers:
    if gives_numbers(net):
        raise UsageError(f"network {net.name!r} gives numbers, no labels, and flicker is of labels; leave it out.")
    known = () if net.sidecar is None else net.sidecar.classes
    return Flickers(1, len(known) or MOST_CLASSES + 1)


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


def _expected(clip: Clip, every: int, limit: int | None) -> int | None:
    if not clip.frames_hint:
        return limit
    taken = -(-clip.frames_hint // every)
    return taken if limit is None else min(limit, taken)


def _setting(net: StagedNetwork, schedule: Schedule, carry: Carry, name: str | None) -> dict[str, Any]:
    return {
        "network": net.name,
        "schedule": name or repr(schedule),
        "carry": str(carry),
        "engine": net.engine,
        "classes": [] if net.sidecar is None else list(net.sidecar.classes),
        "palette": [] if net.sidecar is None else [list(colour) for colour in net.sidecar.palette],
        "versions": versions(),
        "machine": machine(),
    }


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
        self.carry = schedule.carry
        self.seconds = 0.0
        self._name, self._expected, self._progress = name, expected, progress
        self._full = FullPass()
        self._meter, self._energy = Meter(net), counting(net.engine)
        self._spent, self._uncut = Spent(), Spent()

    def over(self, frames: Iterable[Frame]) -> Iterator[tuple[Frame, Array, Record]]:
        """Each frame with its output and its record."""
        for frame in frames:
            if self.session.memory is None or self.session.memory.shape != frame.image.shape:
                # Compile for this size, so that only wall_seconds and fps have it in them.
                fill(self.session.net, self.session.schedule, frame.image)
            self._energy.spent()
            output = self.session(frame.image, vectors=frame.vectors)
            self.carry = settled(self.session.schedule.carry, frame.vectors)
            joules, record = self._energy.spent(), self.session.record
            if gives_numbers(self.session.net):
                _check_numbers(output, frame, self.session.net)
            self.seconds += record.seconds.network
            if self.session.tally.frames == 1:
                self._full.start(record)
            else:
                self._full.add(record)
                self._charge(frame, record, joules)
            self._progress(Progress(self._name, self.session.tally.frames, self._expected, self.session.tally))
            yield frame, output, record

    def _charge(self, frame: Frame, record: Record, joules: float | None) -> None:
        prices = self._meter.prices(frame.image)
        self._spent = self._spent.add(None if prices is None else prices.frame(record), joules)
        self._uncut = self._uncut.add(None if prices is None else prices.whole, None)

    def summary(self, wall_seconds: float) -> dict[str, Any]:
        """The figures of ``summary.json``."""
        tally, full = self.session.tally, self._full.seconds
        spent = tally.seconds_per_frame
        return {
            "frames": tally.frames,
            "fire_rate": tally.fire_rate,
            "network_rate": tally.network_rate,
            "network_seconds": round(self.seconds, 6),
            "wall_seconds": round(wall_seconds, 6),
            "fps": round(tally.frames / wall_seconds, 3),
            "relative_time_estimate": None if spent is None else round(spent / full, 4),
            "multiply_adds_per_frame": _rounded(self._spent.multiply_adds_per_frame, 0),
            "relative_multiply_adds": _rounded(self._spent.relative_multiply_adds(self._uncut), 4),
            "joules_per_frame": _rounded(self._spent.joules_per_frame, 4),
        }


def _rounded(value: float | None, places: int) -> float | None:
    return None if value is None else round(value, places or None)
