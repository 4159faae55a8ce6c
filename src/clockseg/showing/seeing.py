"""Streams that return each output at once, and what a stream knows of a frame before the network runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from clockseg.carry.motion import Motion, Sight
from clockseg.carry.warp import Estimator, Warp, working_size
from clockseg.clockwork.carry import Carry, Of, identity
from clockseg.clockwork.clock import PICTURE
from clockseg.clockwork.facts import facts, walk
from clockseg.clockwork.network import StagedNetwork, same
from clockseg.clockwork.schedule import Schedule
from clockseg.clockwork.session import Session
from clockseg.clockwork.trace import Record
from clockseg.showing.labelling import Labeller
from clockseg.showing.maps import KeyMaps
from clockseg.types import Size
from clockseg.video.colour import rgb


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


class Shown(NamedTuple):
    """The output of one frame: the ``item`` that was pushed with the frame, the network's ``output``, and the record."""

    item: Any
    output: Any
    record: Record


class Stream:
    """A network running over one video: ``push`` and ``end`` together return every frame once, in order.

    This one is for carries that need earlier frames only: it returns each output at once. ``session`` runs the network.
    ``sees_ahead``: True if another thread may call ``see`` for the next frames while ``run`` runs. ``key_maps``: the network's
    maps of the last frame; None if it was not a key frame, or if this stream does not keep maps.
    """

    sees_ahead = False
    key_maps: Any = None

    def __init__(self, net: StagedNetwork, schedule: Schedule, session: Session) -> None:
        self.net, self.schedule, self.session = net, schedule, session

    def see(self, image: Any, *, vectors: Any = None, item: Any = None) -> Seen:
        """Prepare a frame and estimate its motion, without the network; call it in order. ``item`` comes back with the output."""
        return Seen(rgb(image), vectors, item)

    def run(self, seen: Seen) -> list[Shown]:
        """Run a frame that was seen, and return the frames whose outputs are known now."""
        output = self.step(seen)
        return [Shown(seen.item, output, with_seconds(self.session.record, motion=seen.seconds))]

    def step(self, seen: Seen) -> Any:
        """Run the session on a frame that was seen, and return its output."""
        return self.session(seen.image, vectors=seen.vectors)

    def push(self, image: Any, *, vectors: Any = None, item: Any = None) -> list[Shown]:
        """See a frame and run it."""
        return self.run(self.see(image, vectors=vectors, item=item))

    def end(self) -> list[Shown]:
        """End the clip, and return the frames that are left. The next frame begins another clip."""
        self.close()
        return []

    def close(self) -> None:
        """Forget the clip: outputs of waiting frames are not made."""
        self.session.reset()

    def compile(self, seen: Seen) -> None:
        """Compile everything for frames of this size, unless done before, so that compiling is not part of measured times."""
        memory = self.session.memory
        if memory is None or memory.shape != np.shape(seen.image):
            self.rehearse(seen)
            self.session.reset()

    def rehearse(self, seen: Seen) -> None:
        """Run everything on a frame that belongs to no clip."""
        self.step(seen)


def reads_pictures(schedule: Schedule) -> bool:
    """Return True if a clock reads frames, or may do so since it declares neither what it watches nor a period.

    >>> from clockseg.clocks.rates import skip_frame
    >>> from clockseg.clockwork.schedule import schedule_for
    >>> reads_pictures(schedule_for(skip_frame(2), 3)), reads_pictures(schedule_for(lambda tick: tick.image.any(), 3))
    (False, True)
    """
    clocks = [one for clock in schedule.clocks for one in walk(clock) if not facts(one).parts]
    undeclared = any(facts(one).watches is None and facts(one).period is None for one in clocks)
    return undeclared or any(PICTURE in watched for watched in schedule.watched)


class Watching(Stream):
    """The stream of ``warp``, which estimates motion before its session runs, so that a thread may do it ahead, and from decoded pictures.

    The session runs the network ``own``, whose ``prepare`` is that of ``net``, and moves ``of`` along the motion that was estimated
    (None: nothing). It converts to RGB only the frames that the network or a clock reads.
    """

    def __init__(
        self,
        net: StagedNetwork,
        schedule: Schedule,
        estimator: Estimator,
        own: StagedNetwork,
        of: Of | None,
    ) -> None:
        carry: Carry = identity if of is None else Moving(estimator, of, now=lambda: self.now)
        own = replace(own, prepare=lambda image: net.prepare(rgb(image)))
        super().__init__(net, schedule, Session(own, replace(schedule, carry=carry)))
        self.now = Seen(None, None, None)
        # Functions of the caller may not be thread-safe, and read arrays only.
        self.sees_ahead = Labeller(net).graph is not None
        self._takes_decoded = (self.sees_ahead or own.restore is same) and not reads_pictures(schedule)
        self._estimator = estimator
        self._last: Sight | None = None
        self._known: tuple[Any, Size, tuple[float, float]] = (None, (0, 0), (1.0, 1.0))

    def see(self, image: Any, *, vectors: Any = None, item: Any = None) -> Seen:
        """Prepare a frame, and estimate its motion since the frame before. ``prepare`` runs only for the first of each size."""
        begun, shape, motion = time.perf_counter(), np.shape(image), None
        if self._known[0] != shape:
            own = rgb(image)
            self._known = shape, *working_size(self.net.prepare(own), own)
        _, size, share = self._known
        sight = self._estimator.see(image, share, vectors, size=size)
        before, self._last = self._last, sight
        if before is not None and before.grey.shape == sight.grey.shape:
            motion = self.observed(before, sight)
        return Seen(image, vectors, item, sight, motion, time.perf_counter() - begun)

    def observed(self, before: Sight, now: Sight) -> Motion | None:
        """Return the motion from a frame back to the one before; None if there is none to follow."""
        return self._estimator.observe(before, now)

    def step(self, seen: Seen) -> Any:
        """Run the session on a frame that was seen, in RGB if a clock or a function of the caller reads it, and return its output."""
        self.now = seen
        return self.session(seen.image if self._takes_decoded else rgb(seen.image))

    def close(self) -> None:
        """Forget the clip."""
        super().close()
        self._last = None


def with_seconds(record: Record, *, motion: float = 0.0, fuse: float = 0.0, finish: float = 0.0) -> Record:
    """Return the record with these seconds added to its own."""
    spent = record.seconds
    more = replace(spent, motion=spent.motion + motion, fuse=spent.fuse + fuse, finish=spent.finish + finish)
    return record._replace(seconds=more)


@dataclass(frozen=True)
class Moving(Warp):
    """A carry for which ``now`` returns the current frame, already seen. It keeps the maps of key frames as they are."""

    now: Callable[[], Seen] = field(default=lambda: Seen(None, None, None), compare=False, repr=False)

    def see(self, prepare: Callable[[], Any], image: Any, vectors: Any) -> Sight:
        found: Sight = self.now().sight
        return found

    def observe(self, before: Sight, now: Sight) -> Motion:
        found = self.now().motion
        return self.motion.observe(before, now) if found is None else found

    def move(self, value: Any, motion: Motion | None) -> Any:
        return value if isinstance(value, KeyMaps) else super().move(value, motion)
