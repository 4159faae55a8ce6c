"""Motion along references: a codec's blocks may refer to frames further back than the previous one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from clockseg.carry.motion import Motion, Sight, grid, in_rows, sampled
from clockseg.libraries import opencv
from clockseg.types import Array

BACK = 2
"""Earlier frames that a block may refer to."""
ROUNDS = 2
"""Fixed point iterations that invert a field; the motion of blocks is almost constant, so a third changes little."""


class Reference(NamedTuple):
    """Flow of a frame into the one ``back`` frames earlier: float32 [h, w, 2]; ``where``: uint8 [h, w], nonzero where it applies;
    None: everywhere."""

    back: int
    flow: Array
    where: Array | None = None


@dataclass(frozen=True, eq=False)
class Track:
    """The flow of each of the last ``BACK`` frames into one earlier frame, the origin.

    ``fields``: float32 [h, w, 2] each, from the newest frame back to the origin itself, whose is None.
    ``before``: the origin's own fields into the frames before it, the nearest first.

    >>> right = np.ones((3, 4, 2), np.float32)
    >>> two = Track((None,), (right,)).then([Reference(2, 3 * right)])  # by 3 into the frame before the origin
    >>> two.newest[0, 0].tolist()
    [2.0, 2.0]
    """

    fields: tuple[Array | None, ...] = (None,)
    before: tuple[Array, ...] = ()

    @property
    def newest(self) -> Array:
        """The flow from the newest frame to the origin."""
        found = self.fields[0]
        if found is None:
            raise ValueError("nothing follows the origin of this track yet.")
        return found

    def on(self, back: int, places: Array) -> Array:
        """Return the flow into the origin at places [h, w, 2] of the frame ``back`` frames before the next one."""
        if back > len(self.fields):
            return inverse(self.before[back - len(self.fields) - 1], places)
        field = self.fields[back - 1]
        return np.zeros_like(places) if field is None else sampled(field, places)

    def then(self, references: Sequence[Reference]) -> Track:
        """Return the track with one more frame, which refers to those before it."""
        found: Array | None = None
        for back, flow, where in references:
            if found is None or where is None:
                origin = back <= len(self.fields) and self.fields[back - 1] is None
                found = flow.copy() if origin else flow + self.on(back, grid(flow) + flow)
            elif (chosen := np.flatnonzero(where)).size:
                places = in_rows((grid(flow) + flow).reshape(-1, 2)[chosen])
                far = self.on(back, places).reshape(-1, 2)[: chosen.size]
                found.reshape(-1, 2)[chosen] = flow.reshape(-1, 2)[chosen] + far
        if found is None:
            return self
        return Track((found, *self.fields)[:BACK], self.before)


@dataclass(frozen=True, eq=False)
class TrackedMotion(Motion):
    """Motion that is composed along references instead of frame by frame, so that errors don't add up.

    ``references``: of the last frame; ``track``: of the last frames to the first.
    """

    references: tuple[Reference, ...] = ()
    track: Track | None = None

    def after(self, first: Motion) -> Motion:
        """Return the composition of ``first`` and this motion, along references if both have them."""
        if not isinstance(first, TrackedMotion) or first.track is None:
            return super().after(first)
        track = first.track.then(self.references)
        return TrackedMotion(track.newest, first.then, self.now, references=self.references, track=track)

    def coarse(self) -> Motion:
        """Return the motion alone, at half of the resolution: fields of many frames would fill the memory."""
        cv2, (height, width) = opencv(), self.flow.shape[:2]
        size = max(1, width // 2), max(1, height // 2)
        flow, then, now = (
            cv2.resize(one, size, interpolation=cv2.INTER_AREA) for one in (self.flow, self.then.grey, self.now.grey)
        )
        scale, share = np.array([size[0] / width, size[1] / height], np.float32), self.now.share
        return Motion(flow * scale, Sight(then, share), Sight(now, share))


@dataclass(frozen=True, eq=False)
class TrackedSight(Sight):
    """A sight whose ``last`` is the frame before it in grey and the flow into it, set when its motion is estimated; empty before."""

    last: list[tuple[Array, Array]] = field(default_factory=list)


def inverse(flow: Array, places: Array) -> Array:
    """Invert a flow field [h, w, 2] at ``places`` [h', w', 2] by fixed point iteration.

    >>> inverse(np.full((2, 2, 2), 0.5, np.float32), np.zeros((1, 1, 2), np.float32)).tolist()
    [[[-0.5, -0.5]]]
    """
    found = -sampled(flow, places)
    for _ in range(ROUNDS):
        found = -sampled(flow, places + found)
    return found
