"""Run: the contents of a result folder, as a report reads them."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from clockseg.errors import DataError
from clockseg.files import from_printable, whole
from clockseg.instances.sets import class_map
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
        """Name of the run: its schedule, or else its folder.

        >>> Run(Path("out/drive"), {"schedule": "alternating"}).name
        'alternating'
        """
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


def write_areas(result: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Write one row per frame of a result folder: its number, its time in seconds, and the share of each class, 0..1.

    Pixels without a class are in the column ``none``. ``DataError`` if the folder has no label maps.

    >>> write_areas("nowhere", "areas.csv")
    Traceback (most recent call last):
        ...
    clockseg.errors.DataError: nowhere: no such folder. Give a folder that clockseg segment wrote.
    """
    run = read_run(result)
    if run.kind not in ("labels", "instances") or not run.classes:
        raise DataError(
            f"{run.folder}: no maps of classes in it. Segment with --write labels and a network with classes."
        )
    classes = len(run.classes)
    with whole(Path(path)) as part, part.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["frame", "seconds", *run.classes, "none"])
        for number, seconds, (labels, _) in zip(run.numbers, run.seconds, run.maps(), strict=False):
            shares = np.bincount(labels.ravel(), minlength=256) / labels.size
            covered = [f"{share:.6f}" for share in (*shares[:classes], shares[classes:].sum())]
            rows.writerow([int(number), f"{seconds:.6f}", *covered])
