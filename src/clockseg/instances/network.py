"""Instance networks: one stage, whose output is decoded into ``Instances``, which are followed from frame to frame.

The network runs on key frames, and masks are held, warped, or made from both sides in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from clockseg.carry.interpolate import Interpolate
from clockseg.carry.motion import Motion
from clockseg.carry.warp import Warp
from clockseg.clockwork.network import Stage, StagedNetwork, same
from clockseg.clockwork.schedule import Schedule
from clockseg.clockwork.session import Session
from clockseg.errors import UsageError
from clockseg.graph.part import IMAGE
from clockseg.graph.sidecar import Input, Sidecar
from clockseg.instances.heads import Head
from clockseg.instances.matching import Tracker
from clockseg.instances.sets import INSIDE, InstanceMaps, Instances
from clockseg.showing.maps import Maps, blended
from clockseg.showing.stream import Interpolated, Seen, Shown, Stream, with_seconds
from clockseg.types import Array, Image, Size

STAGE = "network"
"""The name of the only stage."""
EXPLAINED = 0.5
"""Share of a moved mask that motion has to explain; with less, the instance ends."""
RESIDUAL = 24
"""Grey levels of the motion-compensated residual up to which motion explains a pixel."""


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
