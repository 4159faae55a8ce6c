"""A window between two key frames: each frame in it is made from both. ``play`` does so with a recording instead of a network.

Backward motion is composed from each frame's optical flow to the frame before. Forward motion is composed from the inverses
of the same flows, so one optical flow per frame is enough. Flows are composed once for all maps, and each map is resampled once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

from clockseg.carry.motion import Motion, grid, sampled
from clockseg.carry.warp import Estimator, Interpolate, Warp
from clockseg.clocks.maps import scene_cut
from clockseg.clockwork.schedule import Schedule, ScheduleLike, schedule_for
from clockseg.execution.recording import Played, Recording
from clockseg.execution.replay import Promise, Shot
from clockseg.showing.labelling import Labeller
from clockseg.showing.maps import Maps, Part, blended, trust

INTERPOLATED = "interpolated"
"""``Record.propagated`` of a frame whose output was made from the key frames around it."""
Due: TypeAlias = tuple[Any, Sequence[Part]]
"""A frame whose key frames are known, and the parts that its maps are blended from."""


@dataclass(frozen=True)
class Key:
    """A key frame: the ``parts`` that it is averaged from. Its own maps are the first, then come those of neighbouring key frames."""

    parts: tuple[Part, ...]

    @property
    def maps(self) -> Maps:
        """The maps that the network gave."""
        return self.parts[0].maps

    @cached_property
    def averaged(self) -> Maps:
        """The mean of all parts."""
        return blended(self.parts)


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
        own = Part(maps)
        if not self.smooth or self.key is None or now.back is None:
            return Key((own,))
        return Key((own, _warped(self.key.averaged, now.back, now.distance)))

    def _between(self, now: Waiting, key: Key) -> list[Due]:
        """Return the frames between the last key frame and the one ``now``, in order, the last key frame first."""
        # The motion of each waiting frame to the key frame ``now``, and its distance in frames.
        ways: list[tuple[Motion, int]] = []
        for following in reversed([*self.waiting, now][1:]):
            turned = inverse(following.step)
            ways.append((turned.after(ways[-1][0]) if ways else turned, len(ways) + 1))
        ways.reverse()
        if self.smooth and self.key is not None and ways and self.waiting[0].distance == 0:
            self.key = Key((*self.key.parts, _warped(key.maps, *ways[0])))
        return [
            (waiting.item, _parts(waiting, self.key, [Part(key.averaged, way[0], trust(*way))]))
            for waiting, way in zip(self.waiting, ways, strict=True)
        ]


def _parts(waiting: Waiting, before: Key | None, after: Sequence[Part]) -> list[Part]:
    """Return what a frame is made from: the key frame before it, and the part of the one ``after`` it if that is known."""
    if before is None:
        raise RuntimeError("the first frame of a shot must be one on which every stage fires.")
    if waiting.back is None:
        return [Part(before.averaged)]
    return [Part(before.averaged, waiting.back, trust(waiting.back, waiting.distance)), *after]


def _warped(maps: Maps, motion: Motion, distance: int) -> Part:
    """Return the maps of a key frame ``distance`` frames away, warped along ``motion``, with their weight."""
    return Part(maps.moved(motion), None, trust(motion, distance))


def inverse(motion: Motion) -> Motion:
    """Return the motion in the other direction: minus the flow, sampled where the flow leads."""
    return Motion(-sampled(motion.flow, grid(motion.flow) - motion.flow), motion.now, motion.then)


def play(recording: Recording, schedule: ScheduleLike) -> Iterator[Played]:
    """Play a schedule on a recording as ``Recording.play`` does, also under the carry ``interpolate``. Outputs are made when first read."""
    found = schedule_for(schedule, len(recording.net))
    if isinstance(found.carry, Interpolate):
        return _interpolated(recording, found, found.carry)
    return recording.play(found)


def _interpolated(recording: Recording, schedule: Schedule, carry: Interpolate) -> Iterator[Played]:
    window, labels = Window(smooth=carry.keys == 2), Labeller(recording.net)
    keys: tuple[int, ...] = ()

    def made(due: Due) -> Played:
        (index, played), parts = due
        key = ("interpolated", carry, keys, index)
        promise = Promise(key, lambda: labels(labels.fuse(parts), Shot(recording, index)))
        fired = any(played.record.fired)
        return Played(promise, played.record._replace(propagated="" if fired else INTERPOLATED))

    cuts = _cuts(recording, carry.motion)
    firings = recording.play(replace(schedule, carry=Warp(carry.motion)), refills=cuts)
    for index, played in enumerate(firings):
        step, maps = None, None
        if played.record.fill:
            yield from [made(due) for due in window.end()]
            keys = ()
        else:
            step = recording.motion(carry.motion, index)
        if any(played.record.fired):
            keys, maps = (*keys, index), Maps.of(recording.look("fused", index))
        yield from [made(due) for due in window.add((index, played), step, maps)]
    yield from [made(due) for due in window.end()]


def _cuts(recording: Recording, estimator: Estimator) -> set[int]:
    """Return the frames with which a shot begins, beside the first ones of clips."""
    found, usual = set[int](), 0.0
    for index, frame in enumerate(recording.frames):
        if frame.first:
            usual = 0.0
            continue
        cut, usual = scene_cut(recording.motion(estimator, index), None, None, usual)
        found |= {index} if cut else set()
    return found
