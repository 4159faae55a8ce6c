"""One pass over the maps of all runs in step: masks, class shares, and where runs differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clockseg.errors import ClocksegError
from clockseg.report.columns import places
from clockseg.report.difference import Difference
from clockseg.report.masks import NUMBERS_PIXELS, PIXELS, Masks, grid
from clockseg.report.packed import packed
from clockseg.report.run import Run
from clockseg.types import Array, Labels

_COARSE = 0xF8
"""The bits of a level of brightness that are kept: 32 levels, which compress well."""
_LEAST_SHARE = 0.0005
"""A class that never covers this share of a picture is not listed."""


@dataclass(eq=False)
class Scanned:
    """Summary of the maps of one run: ``masks``, and ``difference`` from the first run, each None if there is none.

    ``shares``: float32 [frames, classes], of each class id, NaN for a missing map; ``means``: float32 [frames], of numbers.
    """

    shares: Array
    means: Array
    masks: Masks | None = None
    difference: Difference | None = None

    def facts(self, run: Run) -> dict[str, Any]:
        """Return plain values for the page."""
        return {
            "masks": None if self.masks is None else self.masks.facts(),
            "shares": [] if run.numeric or self.masks is None else self._shares(run),
            "means": packed(self.means) if run.numeric else None,
            "difference": None if self.difference is None else self.difference.facts(),
        }

    def _shares(self, run: Run) -> list[dict[str, Any]]:
        most = np.nan_to_num(self.shares).max(axis=0, initial=0)
        return [{"id": id, "share": packed(self.shares[:, id])} for id in np.flatnonzero(most >= _LEAST_SHARE).tolist()]


def _unknown(*shape: int) -> Array:
    return np.full(shape, np.nan, np.float32)


def scan(runs: Sequence[Run], warn: Callable[[str], None]) -> list[Scanned]:
    """Summarize the maps of ``runs`` on the timeline of the first; ``warn`` gets a sentence on whatever could not be read."""
    frames = runs[0].frames
    found = [Scanned(_unknown(frames, len(run.classes) or 255), _unknown(frames)) for run in runs]
    streams = [_in_step(run, places(run, runs[0]), warn) for run in runs]
    for index, maps in enumerate(zip(*streams, strict=True)):
        for run, one, given in zip(runs, found, maps, strict=True):
            if given is not None:
                _take(run, one, index, *given, frames=frames)
        for run, one, given in zip(runs[1:], found[1:], maps[1:], strict=True):
            if given is not None and maps[0] is not None and comparable(runs[0], run):
                _compare(found[0], one, index, maps[0][0], given[0], classes=len(run.classes), frames=frames)
    return found


def comparable(run: Run, other: Run) -> bool:
    """Return True if the label ids of two runs have the same meaning."""
    return bool(run.classes) and run.classes == other.classes and not (run.numeric or other.numeric)


def _take(run: Run, one: Scanned, index: int, labels: Labels, mean: float, *, frames: int) -> None:
    if one.masks is None:
        size = labels.shape[1], labels.shape[0]
        one.masks = Masks(grid(size, frames, NUMBERS_PIXELS if run.numeric else PIXELS))
    while one.masks.frames < index:
        # A frame without a map repeats the previous one.
        one.masks.append(one.masks.last(labels))
    one.masks.append(np.where(labels == 255, labels, labels & _COARSE) if run.numeric else labels)
    one.means[index] = mean
    # An id without a name is not a class, for example 255, the border outside a network's view.
    one.shares[index] = np.bincount(labels.ravel(), minlength=256)[: one.shares.shape[1]] / labels.size


def _compare(
    first: Scanned, other: Scanned, index: int, labels: Labels, given: Labels, *, classes: int, frames: int
) -> None:
    if other.difference is None and first.masks is not None:
        other.difference = Difference(first.masks.grid, frames=frames, classes=classes)
    if other.difference is not None:
        other.difference.append(index, labels, given)


def _in_step(run: Run, at: Array, warn: Callable[[str], None]) -> Iterator[tuple[Labels, float] | None]:
    """Yield this run's map for each frame of the first run, or None; ``at``: its index, -1 for none."""
    maps, taken, ended = run.maps(), 0, False
    for place in at:
        given = None
        while place >= taken and not ended:
            try:
                given, why = next(maps, None), "there are fewer maps than frames"
            except ClocksegError as error:
                given, why = None, str(error)
            ended, taken = given is None, taken + 1
            if ended and run.mapped:
                warn(f"{run.folder}: its maps end after {taken - 1} of {run.frames} frames ({why})")
        yield given
