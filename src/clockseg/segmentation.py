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

from clockseg._errors import ClocksegError, DataError, UsageError
from clockseg._types import Labels
from clockseg._watching import check
from clockseg.clocks.every import whole_number
from clockseg.graph.sidecar import MOST_CLASSES
from clockseg.provenance import machine, versions
from clockseg.result_writer import ResultWriter
from clockseg.results import DEFAULT, ResultFolder, check_writes
from clockseg.schedule import Named, Schedule, schedule_for
from clockseg.session import Session, fill
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
    write: Iterable[str] = DEFAULT,
    every: int = 1,
    limit: int | None = None,
    overwrite: bool = False,
    name: str | None = None,
    progress: Callable[[Progress], None] = lambda progress: None,
) -> Segmented:
    """Segment a video file, an image or a folder of images into a result folder.

    ``folder`` gets ``labels.mkv``, ``overlay.mp4``, ``trace.jsonl``, ``png/`` (whichever ``write`` names) and
    ``summary.json``; files get their names when all are whole, and none is left if anything fails. ``every`` takes
    each n-th frame only, ``limit`` so many of them. ``name`` is the schedule's, for the summary. ``VideoError`` if not
    one frame can be decoded; what was decoded of a damaged clip is written and ``problems`` tells.
    """
    schedule, writes = schedule_for(schedule, len(net)), check_writes(write)
    whole_number(every, "every")
    whole_number(1 if limit is None else limit, "limit")
    check(net, schedule)
    _check_classes(net)
    clip = open_clip(source)
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
            with Background(out.append) as background:
                for frame, labels, record in run.over(frames):
                    background.put(frame, labels, record)
        problems = (*clip.problems, *out.problems)
        figures = run.summary(time.perf_counter() - start)
        summary = {"input": clip.name} | figures | _setting(net, schedule, name) | {"problems": list(problems)}
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
    if not 1 <= count <= MOST_CLASSES:
        raise UsageError(
            f"network {net.name!r} has {count} classes in its sidecar; label maps hold 1 to {MOST_CLASSES} classes "
            "(a byte a pixel, 255 for none). Give a network of class scores."
        )


def _expected(clip: Clip, every: int, limit: int | None) -> int | None:
    if not clip.frames_hint:
        return limit
    taken = -(-clip.frames_hint // every)
    return taken if limit is None else min(limit, taken)


def _setting(net: StagedNetwork, schedule: Schedule, name: str | None) -> dict[str, Any]:
    return {
        "network": net.name,
        "schedule": name or repr(schedule),
        "carry": str(schedule.carry),
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
        self.seconds = 0.0
        self._name, self._expected, self._progress = name, expected, progress
        self._full = FullPass()

    def over(self, frames: Iterable[Frame]) -> Iterator[tuple[Frame, Labels, Record]]:
        """Each frame with its labels and its record."""
        for frame in frames:
            if self.session.memory is None or self.session.memory.shape != frame.image.shape:
                # Compile for this size, so that only wall_seconds and fps have it in them.
                fill(self.session.net, self.session.schedule, frame.image)
            labels = self.session(frame.image)
            record = self.session.record
            self.seconds += record.seconds.network
            if self.session.tally.frames == 1:
                self._full.start(record)
            else:
                self._full.add(record)
            self._progress(Progress(self._name, self.session.tally.frames, self._expected, self.session.tally))
            yield frame, labels, record

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
        }
