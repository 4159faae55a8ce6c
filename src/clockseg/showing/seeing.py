"""What a stream knows of a frame before the network runs: its picture in grey and the motion since the frame before."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from clockseg.carry.motion import Motion, Sight
from clockseg.carry.warp import Estimator, Warp, working_size
from clockseg.clockwork.carry import Of
from clockseg.clockwork.clock import PICTURE
from clockseg.clockwork.facts import facts, walk
from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.schedule import Schedule
from clockseg.showing.labelling import Labeller
from clockseg.showing.maps import KeyMaps
from clockseg.types import Size
from clockseg.video.planar import rgb


class Seen(NamedTuple):
    """A frame that ``Stream.see`` has prepared for ``Stream.run``.

    ``vectors``: the codec's motion vectors. ``item``: returned with the output. ``sight``: the motion estimator's data of the
    frame; ``motion``: since the previous frame; both None without motion estimation or a previous frame. ``seconds``: the time
    that this took.
    """

    image: Any
    vectors: Any
    item: Any
    sight: Any = None
    motion: Motion | None = None
    seconds: float = 0.0


def reads_pictures(schedule: Schedule) -> bool:
    """Return True if a clock reads frames, or may do so since it declares neither what it watches nor a period.

    >>> from clockseg.clockwork.schedule import schedule_for, skip_frame
    >>> reads_pictures(schedule_for(skip_frame(2), 3)), reads_pictures(schedule_for(lambda tick: tick.image.any(), 3))
    (False, True)
    """
    clocks = [one for clock in schedule.clocks for one in walk(clock) if not facts(one).parts]
    undeclared = any(not hasattr(one, "watches") and facts(one).period is None for one in clocks)
    return undeclared or any(PICTURE in watched for watched in schedule.watched)


class Watching:
    """A stream that estimates motion before its session runs, so that a thread may do it ahead, and from decoded pictures.

    The session converts to RGB only the frames that the network or a clock reads.
    """

    def __init__(self, net: StagedNetwork, schedule: Schedule, estimator: Estimator) -> None:
        self.net, self.schedule, self.now = net, schedule, Seen(None, None, None)
        # Functions of the caller may not be thread-safe, and read arrays only.
        self.sees_ahead = Labeller(net).graph is not None
        self._reads_pictures = reads_pictures(schedule)
        self._estimator = estimator
        self._last: Sight | None = None
        self._known: tuple[Any, Size, tuple[float, float]] = (None, (0, 0), (1.0, 1.0))

    def see(self, image: Any, *, vectors: Any = None, item: Any = None) -> Seen:
        """Prepare a frame, and estimate its motion since the frame before."""
        begun = time.perf_counter()
        seen = self.looked(image, vectors, item)
        before, self._last = self._last, seen.sight
        if before is not None and before.grey.shape == seen.sight.grey.shape:
            seen = seen._replace(motion=self._estimator.observe(before, seen.sight))
        return seen._replace(seconds=time.perf_counter() - begun)

    def looked(self, image: Any, vectors: Any, item: Any) -> Seen:
        """Return the frame with its sight. ``prepare`` runs only for the first frame of each size."""
        shape = np.shape(image)
        if self._known[0] != shape:
            own = rgb(image)
            self._known = shape, *working_size(self.net.prepare(own), own)
        _, size, share = self._known
        return Seen(image, vectors, item, self._estimator.see(image, share, vectors, size=size))

    def moving(self, of: Of) -> Warp:
        """Return the carry of the session: it takes the motion that was estimated."""
        return Moving(self._estimator, of, now=lambda: self.now)


@dataclass(frozen=True)
class Moving(Warp):
    """A carry for which ``now`` returns the current frame, already seen. It keeps the maps of key frames as they are."""

    reads_prepared: ClassVar[bool] = False
    now: Callable[[], Seen] = field(default=lambda: Seen(None, None, None), compare=False, repr=False)

    def see(self, prepared: Any, image: Any, vectors: Any) -> Sight:
        found: Sight = self.now().sight
        return found

    def observe(self, before: Sight, now: Sight) -> Motion:
        found = self.now().motion
        return self.motion.observe(before, now) if found is None else found

    def move(self, value: Any, motion: Motion | None) -> Any:
        return value if isinstance(value, KeyMaps) else super().move(value, motion)
