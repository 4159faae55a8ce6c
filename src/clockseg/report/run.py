"""Run: the contents of a result folder, as a report reads them, and its trace as columns, one number per frame."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from clockseg.clocks.spec import parse_schedule
from clockseg.clockwork.clock import facts
from clockseg.clockwork.schedule import schedule_for
from clockseg.errors import ClocksegError, DataError
from clockseg.files import from_printable
from clockseg.instances.sets import class_map
from clockseg.report.page import packed
from clockseg.segmenting.results import (
    FILES,
    SUMMARY,
    check_result,
    read_instances,
    read_labels,
    read_summary,
    read_trace,
    read_values,
)
from clockseg.types import Array, Labels
from clockseg.video import Heat
from clockseg.video.overlay import HEAT_COLOURS, colours_of
from clockseg.video.read import source_identity

IMAGES_FPS = 10
"""Frames per second at which frames without usable times are shown."""
CARRIED = ("", "output", "interpolated")
"""Kinds of propagation of a frame's output, by their numbers in the page; "" for none."""
PARTS = ("clock", "motion", "fuse", "finish")
"""Names in a trace of the parts that take time besides the stages."""


@dataclass(frozen=True, eq=False)
class Run:
    """One result folder: its summary and its trace (empty if there is none).

    ``source``: the segmented video, or None if it was moved or replaced.
    """

    folder: Path
    summary: dict[str, Any]
    trace: list[dict[str, Any]] = field(default_factory=list, repr=False)
    source: Path | None = None

    @property
    def name(self) -> str:
        """Name of the run: its schedule, or else its folder."""
        return str(self.summary.get("schedule") or self.folder.resolve().name)

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of the network's stages."""
        return tuple(self.summary.get("fire_rate") or ())

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the network's classes; empty if it has none."""
        return tuple(map(str, self.summary.get("classes") or ()))

    @property
    def palette(self) -> Sequence[Sequence[int]]:
        """An RGB colour for each class id, or for maps of numbers for each level of brightness."""
        if self.numeric:
            return [tuple(map(int, colour)) for colour in HEAT_COLOURS]
        own: Sequence[Sequence[int]] = self.summary.get("palette") or ()
        return colours_of(own, len(self.classes))

    def file(self, kind: str) -> Path | None:
        """Return the path of a file of ``clockseg.segmenting.results.FILES``, or None if it does not exist."""
        path = self.folder / FILES[kind]
        return path if path.exists() else None

    @cached_property
    def frames(self) -> int:
        """Number of segmented frames."""
        return len(self.trace) or int(self.summary.get("frames") or 0)

    @cached_property
    def numbers(self) -> Array:
        """Int64 [frames]: the index of each in the input."""
        return np.array([line["frame"] for line in self.trace] or range(self.frames), np.int64)

    @cached_property
    def times(self) -> Array | None:
        """Float64 [frames]: the time of each in the input, in seconds; None unless all have times that increase."""
        times = np.array([line.get("pts_seconds") for line in self.trace], float)
        return times if len(times) and (np.diff(times, prepend=-np.inf) > 0).all() else None

    @cached_property
    def seconds(self) -> Array:
        """Float64 [frames]: the time of each, from 0; at ``IMAGES_FPS`` if they have no usable times."""
        return np.arange(self.frames) / IMAGES_FPS if self.times is None else self.times - self.times[0]

    @cached_property
    def kind(self) -> str | None:
        """The kind of its maps, "labels", "instances" or "values", such as depth; None if no maps were written."""
        return next((kind for kind in ("labels", "instances", "values") if self.file(kind) is not None), None)

    @property
    def numeric(self) -> bool:
        """True if the outputs are maps of numbers, such as depth."""
        return self.kind == "values"

    def maps(self) -> Iterator[tuple[Labels, float]]:
        """Yield the map of each frame, uint8 [h, w], and the mean of its numbers (NaN for labels), if maps were written.

        Labels are class ids, those of instances too; numbers become levels of brightness, 0 to 254, with 255 for none.
        """
        if self.kind == "labels":
            for labels in read_labels(self.folder):
                yield labels, float("nan")
        elif self.kind == "instances":
            for frame in read_instances(self.folder):
                yield class_map(frame["instances"], frame["size"]), float("nan")
        elif self.kind == "values":
            scale = self.summary.get("value_scale")
            heat = Heat(None if scale is None else (float(scale[0]), float(scale[1])))
            for values in read_values(self.folder):
                plane = values if values.ndim == 2 else values[0]
                known = plane[np.isfinite(plane)]
                yield heat.levels(plane), float(known.mean()) if known.size else float("nan")


def read_run(folder: str | os.PathLike[str], *, source: str | os.PathLike[str] | None = None) -> Run:
    """Read the run in a result folder; ``source``: the current path of its video, if it was moved.

    ``DataError`` if the folder has no summary, or a file differs from what ``clockseg segment`` writes.
    """
    path = Path(folder)
    check_result(path)
    summary = read_summary(path)
    if not isinstance(summary, dict):
        raise DataError(f"{path / SUMMARY}: not a summary. Segment the video again.")
    trace = read_trace(path) if (path / FILES["trace"]).is_file() else []
    was = summary.get("source") if source is None else os.fspath(source)
    was = from_printable(was) if isinstance(was, str) else None
    # A live run numbers and times its frames itself, so they cannot be found in the source.
    there = Path(was) if was is not None and Path(was).exists() and not summary.get("live") else None
    identity = summary.get("source_identity")
    if source is None and there is not None and identity not in (None, source_identity(there)):
        there = None
    return Run(path, summary, trace, there)


def places(run: Run, first: Run) -> Array:
    """Return the index in ``run`` of each frame of ``first``, int64; -1 for frames that ``run`` did not process.

    Frames are the same if their times are, so that runs of different parts of a video match; without times, their numbers.
    """
    if not run.frames:
        return np.full(first.frames, -1, np.int64)
    there, wanted = run.numbers, first.numbers
    if run.times is not None and first.times is not None:
        there, wanted = (np.round(1_000_000 * times) for times in (run.times, first.times))
    found = np.searchsorted(there, wanted).clip(0, run.frames - 1)
    return np.where(there[found] == wanted, found, -1)


def columns(run: Run, at: Array) -> dict[str, Any] | None:
    """Return the columns of a trace, with its row ``at[k]`` for frame k (-1: none); None without a trace.

    ``fired``: bit s for stage s; ``carried``: as in ``CARRIED``; ``signal``: a column per stage, None for a stage whose clock
    has no signal; ``seconds``: a column per stage, then one for each of ``PARTS``, NaN for a missing frame.
    """
    if not run.trace:
        return None
    rows = [run.trace[place] if place >= 0 else None for place in at]
    fired = [0 if row is None else sum(bool(on) << stage for stage, on in enumerate(row["fired"])) for row in rows]
    kinds = ["" if row is None else row.get("carried") or "" for row in rows]
    # Older versions knew more kinds of propagation.
    carried = [CARRIED.index(kind if kind in CARRIED else "output") for kind in kinds]
    told = [[None] * len(run.stages) if row is None else row["signal"] for row in rows]
    signals = np.array(told, np.float32).reshape(len(rows), len(run.stages)).T
    none = [np.nan] * (len(run.stages) + len(PARTS))
    seconds = np.array([none if row is None else seconds_of(row) for row in rows], np.float32)
    return {
        "fired": packed(np.array(fired, np.uint32)),
        "fill": packed(np.array([row is not None and row["fill"] for row in rows], np.uint8)),
        "there": packed((at >= 0).astype(np.uint8)),
        "carried": packed(np.array(carried, np.uint8)),
        "signal": [None if np.isnan(signal).all() else packed(signal) for signal in signals],
        "seconds": [packed(column) for column in seconds.reshape(len(rows), len(none)).T],
    }


def seconds_of(row: dict[str, Any], parts: Sequence[str] = PARTS) -> list[float]:
    """Return the seconds of the stages and of ``parts`` in one line of a trace."""
    return [*row["seconds"]["stages"], *(row["seconds"][part] for part in parts)]


def thresholds(schedule: str, stages: int) -> list[dict[str, Any] | None]:
    """Return the threshold of each stage, None without a constant one; ``schedule`` as the command line writes it.

    ``below``: True if the clock fires when its signal is below the ``value``.
    """
    try:
        clocks = schedule_for(parse_schedule(schedule, imports=False), stages).clocks
    except (ClocksegError, OSError):
        # The name of a file, or an object of the user, whose code is not run for a page.
        return [None] * stages
    declared = map(facts, clocks)
    return [None if one.threshold is None else {"value": one.threshold, "below": one.below} for one in declared]
