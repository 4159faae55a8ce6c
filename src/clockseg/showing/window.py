"""A window between two key frames: each frame in it is made from both.

Backward motion is composed from each frame's optical flow to the frame before. Forward motion is composed from the inverses
of the same flows, so one optical flow per frame is enough. Flows are composed once for all maps, and each map is resampled once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from clockseg.carry.motion import Motion, grid, sampled
from clockseg.showing.maps import Maps, Part, Weights, average, certain, trust

Due: TypeAlias = tuple[Any, Sequence[Part]]
"""A frame whose key frames are known, and the parts that its maps are blended from."""


@dataclass
class Key:
    """A key frame: the network's ``maps``, the mean ``averaged`` of them and of neighbouring key frames, and the ``parts`` of that mean."""

    maps: Maps
    averaged: Maps
    parts: list[tuple[Maps, Weights]] = field(default_factory=list)


@dataclass
class Waiting:
    """A frame whose output is not made yet.

    ``item``: the caller's. ``step``: the motion from the previous frame; None for the first of a shot. ``back``: the motion from
    the last key frame, ``distance`` frames earlier; None for a key frame.
    """

    item: Any
    step: Any
    back: Motion | None
    distance: int


@dataclass
class Window:
    """The frames of a shot since its last key frame; the first frame of a shot is one.

    ``smooth``: True if key frames are averaged with their neighbours, too.
    """

    smooth: bool
    key: Key | None = None
    waiting: list[Waiting] = field(default_factory=list)
    last: Waiting | None = None

    def add(self, item: Any, step: Motion | None, maps: Maps | None = None) -> list[Due]:
        """Add a frame with its motion from the previous frame, and return the frames that are due.

        ``step``: None for the first frame of a shot, after ``end``. ``maps``: those of a key frame, which the frames since the
        last one waited for; None if nothing fired.
        """
        step = None if step is None else step.coarse()
        now = Waiting(item, step, self.since_key(step), 0 if self.last is None else self.last.distance + 1)
        self.last = now
        due: list[Due] = []
        if maps is not None:
            key = self._key(now, maps)
            due = self._between(now, key)
            self.key, self.waiting = key, []
            now.distance, now.back = 0, None
        self.waiting.append(now)
        return due

    def since_key(self, step: Motion | None) -> Motion | None:
        """Return the motion to the next frame from the last key frame, given that from the frame before; None in a new shot."""
        if self.last is None or step is None or self.last.back is None:
            return step
        return step.after(self.last.back)

    def overdue(self, most: int) -> list[Due]:
        """Return the oldest frames beyond the newest ``most``, to be made from the last key frame alone."""
        late, self.waiting = self.waiting[: max(0, len(self.waiting) - most)], self.waiting[-most:] if most else []
        return [(waiting.item, _parts(waiting, self.key, ())) for waiting in late]

    def end(self) -> list[Due]:
        """Return all waiting frames, to be made from the last key frame alone, and forget everything."""
        due = self.overdue(0)
        self.key = self.last = None
        return due

    def _key(self, now: Waiting, maps: Maps) -> Key:
        parts: list[tuple[Maps, Weights]] = [(maps, certain)]
        if self.smooth and self.key is not None and now.back is not None:
            parts.append((self.key.averaged.moved(now.back), trust(now.back, now.distance)))
        return Key(maps, average(parts), parts)

    def _between(self, now: Waiting, key: Key) -> list[Due]:
        """Return the frames between the last key frame and the one ``now``, in order, the last key frame first."""
        ways = self._ahead(now)
        if self.smooth and self.key is not None and ways and self.waiting[0].distance == 0:
            way, distance = ways[0]
            parts = [*self.key.parts, (key.maps.moved(way), trust(way, distance))]
            self.key = replace(self.key, averaged=average(parts))
        pairs = zip(self.waiting, ways, strict=True)
        return [
            (waiting.item, _parts(waiting, self.key, [Part(key.averaged, way[0], trust(*way))]))
            for waiting, way in pairs
        ]

    def _ahead(self, now: Waiting) -> list[tuple[Motion, int]]:
        """Return the motion of each waiting frame to the key frame ``now``, and its distance in frames."""
        found: list[tuple[Motion, int]] = []
        for following in reversed([*self.waiting, now][1:]):
            turned = inverse(following.step)
            found.append((turned.after(found[-1][0]), found[-1][1] + 1) if found else (turned, 1))
        return found[::-1]


def _parts(waiting: Waiting, before: Key | None, after: Sequence[Part]) -> list[Part]:
    """Return what a frame is made from: the key frame before it, and the part of the one ``after`` it if that is known."""
    if before is None:
        raise RuntimeError("the first frame of a shot must be one on which every stage fires.")
    if waiting.back is None:
        return [Part(before.averaged)]
    return [Part(before.averaged, waiting.back, trust(waiting.back, waiting.distance)), *after]


def inverse(motion: Motion) -> Motion:
    """Return the motion in the other direction: minus the flow, sampled where the flow leads.

    >>> import numpy as np
    >>> from clockseg.carry import Sight
    >>> blank = Sight(np.zeros((4, 6), np.uint8))
    >>> inverse(Motion(np.ones((4, 6, 2), np.float32), blank, blank)).flow[0, 0].tolist()
    [-1.0, -1.0]
    """
    return Motion(-sampled(motion.flow, grid(motion.flow) - motion.flow), motion.now, motion.then)
