"""Maps that are warped and averaged: score maps, maps of numbers, and labels, for which the average is a weighted vote."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from clockseg.carry.motion import Motion, as_plane, by_channels, from_plane, in_rows, laid, resampled
from clockseg.errors import UsageError
from clockseg.graph.part import Pick
from clockseg.libraries import opencv
from clockseg.types import Array

Weights: TypeAlias = Callable[[int, int], Array]
"""A function of a map's height and width that returns the weight of each cell: float32 [height, width], above 0."""
SIGMA = 8.0
"""Motion-compensated residual, in grey levels, at which the weight of a key frame has fallen to 1/e. Between 4 and 16 it changes
mIoU by at most 0.2 points."""
LEAST = 1e-4
"""The least weight of a pixel, which keeps the nearer key frame ahead where motion explains neither side."""
_TRUST = (LEAST + (1 - LEAST) * np.exp(-np.arange(256) / SIGMA)).astype(np.float32)


@dataclass(frozen=True)
class Maps:
    """The maps of one frame, with the channels last.

    ``planes``: by name, float32 [h, w, channels], or labels of any integer type [h, w]. ``given``: the value that they were
    taken from, an array or a mapping of arrays; its arrays that are not maps, such as sizes, stay as they are. ``derived``:
    values by name that others computed from the planes, kept with them.
    """

    planes: Mapping[str, Array]
    given: Any
    derived: dict[str, Array] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, value: Any) -> Maps:
        """Extract the maps from an array or a mapping of arrays; ``UsageError`` if it has none."""
        arrays = value if isinstance(value, Mapping) else {"": value}
        found = {
            name: as_plane(array, name or "the output", bytes_are_labels=True)
            for name, array in arrays.items()
            if np.ndim(array) > 1
        }
        if not found:
            raise UsageError(
                "interpolate averages maps, which are arrays [1, channels, h, w] or [h, w]; this network's output is made "
                f"from {type(value).__name__}. Use the carry identity."
            )
        return cls(found, value)

    def value(self) -> Any:
        """Return the maps in the shapes and types of the value that they were extracted from."""
        if not isinstance(self.given, Mapping):
            return from_plane(self.planes[""], self.given)
        return {**self.given, **{name: from_plane(plane, self.given[name]) for name, plane in self.planes.items()}}

    def moved(self, motion: Motion) -> Maps:
        """Return the maps warped along ``motion``: bilinearly, or by nearest neighbour for labels."""
        found = {name: resampled(plane, motion.places(*plane.shape[:2])) for name, plane in self.planes.items()}
        return replace(self, planes=found)

    def averaged(self, parts: Sequence[Part]) -> Maps:
        """Return the weighted mean of each map over ``parts``, of which these maps are the first, as they are.

        For labels, the one with the largest total weight, the first on a tie.
        """
        found = {}
        for name, first in self.planes.items():
            planes = [one.maps.planes[name] for one in parts]
            weights = [one.weights(*first.shape[:2]) for one in parts]
            found[name] = _vote(planes, weights) if first.ndim == 2 else _mean(planes, weights)
        return replace(self, planes=found)


def trust(motion: Motion, distance: int) -> Weights:
    """Return the weight of a key frame ``distance`` frames away: exp(-residual / SIGMA) / sqrt(distance).

    The residual is that of ``motion`` in grey levels; 255 where the motion leads out of the picture.
    """

    def weights(height: int, width: int) -> Array:
        share, residual = motion.now.share, motion.residual
        smaller = round(width * share[0]) < residual.shape[1]
        residual = laid(residual, share, height, width, area=smaller)
        return np.asarray(opencv().LUT(residual, _TRUST * np.float32(distance**-0.5)))

    return weights


def certain(height: int, width: int) -> Array:
    """Return weight 1 everywhere: that of a key frame for itself."""
    return np.ones((height, width), np.float32)


class Part(NamedTuple):
    """The maps of a key frame, the motion to the frame that they are warped to (None: none), and their weight there."""

    maps: Maps
    motion: Motion | None = None
    weights: Weights = certain


def blended(parts: Sequence[Part]) -> Maps:
    """Return the weighted mean of the maps of all parts, warped."""
    warped = [one if one.motion is None else one._replace(maps=one.maps.moved(one.motion)) for one in parts]
    return warped[0].maps if len(warped) == 1 else warped[0].maps.averaged(warped)


def blended_at(name: str, parts: Sequence[Part], cells: Array) -> Array:
    """Return what ``blended`` does in some cells of a map only: float32 [n, channels]. ``cells``: indices into [h * w]."""
    planes, weights = [], []
    for maps, motion, weigh in parts:
        plane = maps.planes[name]
        if motion is None:
            raise ValueError("only maps that are warped are blended in some of their cells.")
        planes.append(resampled(plane, in_rows(motion.places(*plane.shape[:2]).reshape(-1, 2)[cells])))
        weights.append(in_rows(weigh(*plane.shape[:2]).reshape(-1)[cells]))
    return _mean(planes, weights).reshape(-1, planes[0].shape[2])[: len(cells)]


def _mean(planes: Sequence[Array], weights: Sequence[Array]) -> Array:
    found, total = planes[0], weights[0]
    for plane, weight in zip(planes[1:], weights[1:], strict=True):
        found, total = by_channels(opencv().blendLinear, (found, plane), total, weight), total + weight
    return found


def _vote(planes: Sequence[Array], weights: Sequence[Array]) -> Array:
    ballots = list(zip(planes, weights, strict=True))
    votes = np.stack([sum((np.where(plane == other, weight, 0) for other, weight in ballots), 0.0) for plane in planes])
    return np.asarray(np.choose(votes.argmax(axis=0), planes))


class KeyMaps(NamedTuple):
    """The maps of the last key frame, which stay as they are until the next one."""

    value: Any


class _PickMaps(Pick):
    """Selects the maps from which an output is made, without making it."""

    def __call__(self, value: Mapping[str, Array]) -> Any:
        return KeyMaps(super().__call__(value))


def keeping(fused: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a ``finish`` that keeps the maps which ``fused`` takes from a value, instead of making an output."""
    return _PickMaps(fused.names) if isinstance(fused, Pick) else lambda value: KeyMaps(fused(value))
