"""Instance networks: one stage, whose output is decoded into ``Instances``, which are followed from frame to frame.

The network runs on key frames, and masks are held, warped, or made from both sides in between. Identities are kept where the
masks of two key frames overlap and classes agree.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from clockseg.carry.motion import Motion
from clockseg.carry.warp import Interpolate, Warp
from clockseg.clockwork.network import Stage, StagedNetwork, same
from clockseg.clockwork.schedule import Schedule
from clockseg.clockwork.session import Session
from clockseg.errors import UsageError
from clockseg.graph.part import IMAGE
from clockseg.graph.sidecar import Input, Sidecar
from clockseg.instances.heads import Head
from clockseg.instances.sets import INSIDE, InstanceMaps, Instances, box_overlaps, overlaps
from clockseg.libraries import opencv
from clockseg.showing.maps import Maps, blended
from clockseg.showing.stream import Interpolated, Seen, Shown, Stream, with_seconds
from clockseg.types import Array, Image, Size

STAGE = "network"
"""The name of the only stage."""
EXPLAINED = 0.5
"""Share of a moved mask that motion has to explain; with less, the instance ends."""
RESIDUAL = 24
"""Grey levels of the motion-compensated residual up to which motion explains a pixel."""
LEAST_OVERLAP = 0.1
"""Smallest overlap of two boxes that may be the same instance."""
PATIENCE = 3
"""Key frames in a row that may lack an instance before its identity is given up."""
LOST = 0.5
"""The weight of the overlap with a box expected at constant velocity, for instances out of sight: that of masks counts fully."""


@dataclass(frozen=True)
class Decoding:
    """The ``restore`` of an instance network: from the raw outputs of a frame to its ``Instances``.

    ``head``: None for a function that returns ``Instances`` itself. ``scaled``: the size of a frame's picture within the working
    size.
    """

    head: Head | None
    scaled: Callable[[Size], Size]
    kind: ClassVar[str] = "instances"

    def __call__(self, value: Any, image: Image) -> Instances:
        """Return the instances of the frame ``image``, uint8 RGB [h, w, 3]."""
        frame = image.shape[1], image.shape[0]
        found = value if self.head is None else self.head.decode(value, self.scaled(frame), frame)
        if not isinstance(found, Instances):
            raise UsageError(
                f"an instance network returned {type(found).__name__}; it returns clockseg.instances.Instances."
            )
        return found

    def stream(self, net: StagedNetwork, schedule: Schedule, lookahead: int | None) -> Stream:
        """Return the stream that follows instances, for the carry of a schedule: identity, warp or interpolate."""
        carry = schedule.carry
        if isinstance(carry, Interpolate):
            return BothSides(net, schedule, carry, lookahead)
        if isinstance(carry, Warp):
            return Warped(net, schedule, Interpolate(carry.motion, keys=1), 0)
        if carry.estimates_motion:
            raise UsageError(f"the carry {carry} can't move instances; use identity, warp(flow) or interpolate(flow).")
        return Held(net, schedule)


def instance_network(
    function: Callable[[Image], Instances], classes: Sequence[str], *, name: str = "instances"
) -> StagedNetwork:
    """Return an instance network that calls a function with a frame, uint8 RGB [h, w, 3], to get its ``Instances``.

    ``classes``: the names of the classes, by id.

    >>> instance_network(lambda image: None, ["person"]).classes
    ('person',)
    """
    said = Sidecar(name, Input(IMAGE, 1, 1), STAGE, ((STAGE,),), (STAGE,), classes=tuple(classes))
    stages = (Stage(STAGE, function, scores=None),)
    return StagedNetwork(name, stages, restore=Decoding(None, lambda size: size), sidecar=said)


def assignment(gains: Array) -> list[tuple[int, int]]:
    """Return the pairs (row, column) with the largest sum of ``gains`` [n, m], at most one a row and a column; exact.

    It is the transport of one unit from each row to a column (Rubner et al., The Earth Mover's Distance, IJCV 2000).
    """
    if not gains.size:
        return []
    cv2, cost = opencv(), np.float32(gains.max() - gains)
    rows, columns = (np.ones((count, 1), np.float32) for count in gains.shape)
    _, _, flow = cv2.EMD(rows, columns, cv2.DIST_USER, cost)
    return [(int(row), int(column)) for row, column in np.argwhere(flow > 0.5)]


@dataclass(frozen=True)
class Track:
    """The class of an identity, its last box, its change per frame, the frame of that box, and the key frames that lacked it since."""

    kind: int
    box: Array
    velocity: Array
    frame: int
    missed: int = 0


@dataclass
class Tracker:
    """Identities from key frame to key frame, counted from 1.

    ``tracks``: by identity; ``most``: the highest that was given; ``frame``: the number of the current frame, which the caller
    counts.
    """

    tracks: dict[int, Track] = field(default_factory=dict)
    most: int = 0
    frame: int = 0

    def see(self, found: Instances, expected: Instances | None) -> Instances:
        """Return the instances of a key frame with identities.

        ``expected``: those of the key frame before, moved to this one, None if nothing is known (the first frame, a cut).
        """
        if expected is None or (expected.soft.shape[:2] != found.soft.shape[:2]):
            expected, self.tracks = found.only(slice(0)), {}
        known, tracks = list(self.tracks), list(self.tracks.values())
        boxes = np.array([track.box + track.velocity * (self.frame - track.frame) for track in tracks]).reshape(-1, 4)
        gains = LOST * box_overlaps(boxes, found.boxes)
        for one, seen in zip(map(int, expected.ids), overlaps(expected.soft, found.soft), strict=True):
            row = known.index(one)
            gains[row] = np.maximum(gains[row], seen)
        kinds = np.array([track.kind for track in tracks], np.int64)
        gains = np.where((kinds[:, None] == found.classes[None]) & (gains >= LOST * LEAST_OVERLAP), gains, 0)
        ids = np.zeros(len(found), np.int64)
        for row, column in assignment(gains):
            if gains[row, column] > 0:
                ids[column] = known[row]
        new = ids == 0
        ids[new] = self.most + 1 + np.arange(new.sum())
        self.most += int(new.sum())
        made = replace(found, ids=ids)
        self._keep(made)
        return made

    def _keep(self, found: Instances) -> None:
        missing = {one: replace(track, missed=track.missed + 1) for one, track in self.tracks.items()}
        now = {}
        for one, kind, box in zip(map(int, found.ids), map(int, found.classes), found.boxes, strict=True):
            last = self.tracks.get(one)
            passed = 0 if last is None else self.frame - last.frame
            velocity = np.zeros(4) if last is None or passed <= 0 else (box - last.box) / passed
            now[one] = Track(kind, box, velocity, self.frame)
        self.tracks = {one: track for one, track in missing.items() if track.missed <= PATIENCE} | now


class Held(Stream):
    """The stream of the carry ``identity``: between key frames the instances of the last one are shown."""

    def __init__(self, net: StagedNetwork, schedule: Schedule) -> None:
        super().__init__(net, schedule, Session(replace(net, restore=same), schedule))
        self.tracker = Tracker()
        self._shown: Instances | None = None

    def run(self, seen: Seen) -> list[Shown]:
        """Run one frame and return it."""
        [(item, value, record)] = super().run(seen)
        self.tracker.frame += 1
        if any(record.fired) or self._shown is None:
            begun = time.perf_counter()
            self._shown = self.tracker.see(self.net.restore(value, seen.image), self._shown)
            record = with_seconds(record, finish=time.perf_counter() - begun)
        return [Shown(item, self._shown, record)]

    def close(self) -> None:
        """Forget the clip; identities go on counting."""
        super().close()
        self._shown = None


class BothSides(Interpolated):
    """The stream of the carry ``interpolate``: masks of each identity are warped from both key frames and averaged."""

    def __init__(self, net: StagedNetwork, schedule: Schedule, carry: Interpolate, lookahead: int | None) -> None:
        super().__init__(net, schedule, carry, lookahead)
        self.tracker = Tracker()
        self.sees_ahead = getattr(net.restore, "head", None) is not None
        self.fuse, self.make_output = blended, lambda maps, image: maps.value()

    def run(self, seen: Seen) -> list[Shown]:
        """Run the network if a clock fires, and return the frames whose outputs are known now."""
        self.tracker.frame += 1
        return super().run(seen)

    def maps_of(self, seen: Seen, value: Any) -> Maps:
        """Decode the instances of a key frame, and match them with those of the one before, moved along the motion since."""
        found = self.net.restore(value, seen.image)
        key, back = self.window.key, self.window.since_key(None if seen.motion is None else seen.motion.coarse())
        expected = None if key is None or back is None else key.maps.moved(back).value()
        return InstanceMaps.of(self.tracker.see(found, expected))

    def rehearse(self, seen: Seen) -> None:
        """Run the network on a frame that belongs to no clip."""
        self.step(seen)


class Warped(BothSides):
    """The stream of the carry ``warp``: each frame is made at once, from the last key frame alone."""

    def __init__(self, net: StagedNetwork, schedule: Schedule, carry: Interpolate, lookahead: int | None) -> None:
        super().__init__(net, schedule, carry, lookahead)
        self.fuse = lambda parts: (blended(parts).value(), parts[0].motion)
        self.make_output = lambda moved, image: explained(*moved)

    def run(self, seen: Seen) -> list[Shown]:
        """Run the network if a clock fires, and return the frame."""
        [(item, output, record)] = super().run(seen)
        return [Shown(item, output, record._replace(propagated="output" if record.propagated else ""))]


def explained(found: Instances, motion: Motion | None) -> Instances:
    """Return the instances of which ``motion``, along which they were moved, explains at least the share ``EXPLAINED``."""
    if motion is None or not len(found):
        return found
    height, width, _ = found.soft.shape
    near = 255 * motion.unexplained_map(height, width)[0, 0] <= RESIDUAL
    inside: Array = found.soft >= INSIDE
    share = (inside & near[..., None]).sum(axis=(0, 1)) / np.maximum(inside.sum(axis=(0, 1)), 1)
    return found.only(share >= EXPLAINED)
