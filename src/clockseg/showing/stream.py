"""A stream takes the frames of a video and returns their outputs in order, at once or some frames later.

Motion is estimated as a frame is seen, before the network runs on it.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from clockseg.carry.motion import Motion, Sight
from clockseg.carry.warp import Estimator, Interpolate, Warp, working_size
from clockseg.clocks.maps import scene_cut
from clockseg.clocks.spec import parse_schedule
from clockseg.clockwork.carry import Carry, Of, identity
from clockseg.clockwork.clock import PICTURE, facts, walk
from clockseg.clockwork.network import StagedNetwork, same
from clockseg.clockwork.schedule import Schedule, ScheduleLike, schedule_for
from clockseg.clockwork.session import Session
from clockseg.clockwork.trace import Record
from clockseg.errors import UsageError
from clockseg.execution.machine import cores
from clockseg.showing.labelling import Labeller
from clockseg.showing.maps import KeyMaps, Maps, Part, keeping
from clockseg.showing.window import INTERPOLATED, Due, Window
from clockseg.types import Size
from clockseg.video.colour import rgb

MOST_FRAMES = 240
"""The most frames that wait for the next key frame, if ``MOST_BYTES`` allows as many."""
MOST_BYTES = 400_000_000
"""The most bytes of pictures that wait for the next key frame."""
LEAST_FRAMES = 8
"""The number of frames that may always wait, however large their pictures are."""
AHEAD = 16
"""The most frames whose motion ``run`` estimates ahead of the network: more than lie between two key frames."""
MOST_THREADS = 4
"""The most threads that make outputs concurrently."""


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
    """Return True if a clock reads frames, or may do so since it declares neither what it watches nor a period."""
    clocks = [one for clock in schedule.clocks for one in walk(clock) if not facts(one).parts]
    undeclared = any(facts(one).watches is None and facts(one).period is None for one in clocks)
    return undeclared or any(PICTURE in watched for watched in schedule.watched)


class Watching(Stream):
    """The stream of ``warp``, which estimates motion before its session runs, so that a thread may do it ahead, and from decoded pictures.

    The session runs the network ``own``, whose ``prepare`` is that of ``net``, and moves ``of`` along the motion that was estimated
    (None: nothing). It converts to RGB only the frames that the network or a clock reads.
    """

    def __init__(
        self, net: StagedNetwork, schedule: Schedule, estimator: Estimator, own: StagedNetwork, of: Of | None
    ) -> None:
        carry: Carry = identity if of is None else Moving(estimator, of)
        own = replace(own, prepare=lambda image: net.prepare(rgb(image)))
        super().__init__(net, schedule, Session(own, replace(schedule, carry=carry)))
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
        return self.session(seen.image if self._takes_decoded else rgb(seen.image), vectors=seen)

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
    """A carry along the motion that was estimated as frames were seen. It keeps the maps of key frames as they are."""

    def see(self, prepare: Callable[[], Any], image: Any, vectors: Any) -> Any:
        """Return the frame as ``Seen``, which a session under this carry gets in place of the codec's vectors."""
        return vectors

    def observe(self, before: Any, now: Any) -> Motion:
        """Return the motion of the frame; it is estimated only if a frame is followed by one of another shot."""
        return self.motion.observe(before.sight, now.sight) if now.motion is None else now.motion

    def move(self, value: Any, motion: Motion | None) -> Any:
        """Return ``value``, warped unless it is maps of a key frame."""
        return value if isinstance(value, KeyMaps) else super().move(value, motion)


@dataclass
class _Frame:
    """A waiting frame: its image, which ``restore`` needs, and its record so far."""

    item: Any
    image: Any
    record: Record


class Interpolated(Watching):
    """The stream of ``interpolate``: the network runs on key frames, and each frame is made from those before and after it."""

    def __init__(self, net: StagedNetwork, schedule: Schedule, carry: Interpolate, lookahead: int | None) -> None:
        scores = replace(net, finish=keeping(net.fused), restore=same, conclude=None)
        # If all stages fire together, on every n-th frame, no stage's held value is read, so nothing is warped between firings.
        periods = {facts(clock).period for clock in schedule.clocks}
        fixed = len(periods) == 1 and None not in periods
        super().__init__(net, schedule, carry.motion, own=scores, of=None if fixed else "output")
        self._lookahead, self._usual, self.window = lookahead, 0.0, Window(smooth=carry.keys == 2)
        labels = Labeller(net)
        self.fuse: Callable[[Sequence[Part]], Any] = labels.fuse
        self.make_output: Callable[[Any, Any], Any] = labels
        self._workers: ThreadPoolExecutor | None = None

    def observed(self, before: Sight, now: Sight) -> Motion | None:
        """Return the motion from a frame back to the one before; None where a shot begins."""
        motion = self._estimator.observe(before, now)
        cut, self._usual = scene_cut(motion, None, None, self._usual)
        return None if cut else motion

    def run(self, seen: Seen) -> list[Shown]:
        """Run the network if a clock fires, and return the frames whose outputs are known now."""
        if seen.motion is None:
            # In a new shot, nothing of the last one is worth keeping.
            self.session.refill()
        scores, record = self.step(seen), self.session.record
        fired = any(record.fired)
        frame = _Frame(seen.item, seen.image, record._replace(propagated="" if fired else INTERPOLATED))
        shown = self._show(self.window.end()) if record.fill else []
        begun = time.perf_counter()
        self.key_maps = scores.value if fired else None
        maps = self.maps_of(seen, scores.value) if fired else None
        due = self.window.add(frame, None if record.fill else seen.motion, maps)
        frame.record = with_seconds(frame.record, motion=seen.seconds + time.perf_counter() - begun)
        shown += self._show(due)
        most = _fitting(MOST_FRAMES, seen.image) if self._lookahead is None else self._lookahead
        return shown + self._show(self.window.overdue(most))

    def maps_of(self, seen: Seen, value: Any) -> Maps:
        """Return the maps of a key frame, from the value that ``finish`` reads."""
        return Maps.of(value)

    def end(self) -> list[Shown]:
        """End the clip: the frames after the last key frame are made from it alone."""
        return self._show(self.window.end()) + super().end()

    def close(self) -> None:
        """Forget the clip, and end the threads."""
        super().close()
        self.window, self._usual = Window(self.window.smooth), 0.0
        if self._workers is not None:
            self._workers.shutdown()
            self._workers = None

    def rehearse(self, seen: Seen) -> None:
        """Run everything on a frame that belongs to no clip."""
        maps = self.maps_of(seen, self.step(seen).value)
        self.make_output(self.fuse([Part(maps)]), seen.image)

    def _show(self, due: Iterable[Due]) -> list[Shown]:
        """Make the outputs, several at once; warping and averaging count as fusing, labelling as finishing."""
        begun = time.perf_counter()
        if self.sees_ahead and self._workers is None:
            self._workers = ThreadPoolExecutor(max_workers=min(MOST_THREADS, cores()))
        made = list(map(self._make, due) if self._workers is None else self._workers.map(self._make, due))
        total = sum(fuse + finish for *_, fuse, finish in made)
        # Concurrent outputs took less time than the sum.
        share = (time.perf_counter() - begun) / total if total else 1.0
        return [
            Shown(frame.item, output, with_seconds(frame.record, fuse=fuse * share, finish=finish * share))
            for frame, output, fuse, finish in made
        ]

    def _make(self, due: Due) -> tuple[_Frame, Any, float, float]:
        frame, parts = due
        begun = time.perf_counter()
        maps = self.fuse(parts)
        fused = time.perf_counter()
        output = self.make_output(maps, frame.image)
        return frame, output, fused - begun, time.perf_counter() - fused


def _fitting(frames: int, image: Any) -> int:
    """Return how many frames like ``image`` may wait, at most ``frames``: as many as ``MOST_BYTES`` allow, but ``LEAST_FRAMES``."""
    return max(LEAST_FRAMES, min(frames, MOST_BYTES // max(1, getattr(image, "nbytes", 1))))


def stream(net: StagedNetwork, schedule: ScheduleLike | str, *, lookahead: int | None = None) -> Stream:
    """Return the stream of a network under a schedule: with delay under the carry ``interpolate``, else without.

    ``lookahead``: the most frames by which an output may be late; None: as many as it takes to reach the next key frame,
    within bounded memory. If the network's ``restore`` has a method ``stream``, as that of instance networks, it makes the stream.
    """
    if not isinstance(net, StagedNetwork):
        raise UsageError(f'{net!r} is not a network; load it first, such as clockseg.load("street").')
    found = schedule_for(parse_schedule(schedule) if isinstance(schedule, str) else schedule, len(net))
    own = getattr(net.restore, "stream", None)
    if own is not None:
        made: Stream = own(net, found, lookahead)
        return made
    if isinstance(found.carry, Interpolate):
        return Interpolated(net, found, found.carry, lookahead)
    if type(found.carry) is Warp:
        return Watching(net, found, found.carry.motion, own=net, of=found.carry.of)
    return Stream(net, found, Session(net, found))


def run(net: StagedNetwork, images: Iterable[Any], schedule: ScheduleLike | str) -> Iterator[tuple[Any, Record]]:
    """Yield the output and the record of each frame of one clip, in order.

    ``schedule``: as for a ``Session``, also text. With the carry ``interpolate``, outputs come late: up to one interval between
    key frames is read ahead, and the motion of up to ``AHEAD`` frames is estimated in a thread while the network runs. Don't
    change arrays once they are given.

    >>> from clockseg import Stage, StagedNetwork
    >>> [output for output, record in run(StagedNetwork("one", (Stage("a", str.upper),)), "ab", "frame_oracle")]
    ['A', 'B']
    """
    with closing(stream(net, schedule)) as frames:
        ahead = isinstance(frames, Interpolated) and frames.sees_ahead
        for seen in _seen_ahead(frames, images) if ahead else map(frames.see, images):
            yield from [shown[1:] for shown in frames.run(seen)]
        yield from [shown[1:] for shown in frames.end()]


def _seen_ahead(frames: Stream, images: Iterable[Any]) -> Iterator[Seen]:
    """Yield the frames of a clip as seen, in a thread that is up to ``AHEAD`` frames ahead; images are read in this one."""
    ahead, process = deque[Future[Seen]](), os.getpid()

    def seen() -> Seen:
        if os.getpid() != process:
            raise UsageError("a run that began before a fork can't go on in the forked process. Begin it there.")
        return ahead.popleft().result()

    with ThreadPoolExecutor(max_workers=1) as seeing:
        for image in images:
            ahead.append(seeing.submit(frames.see, image))
            if len(ahead) > _fitting(AHEAD, image):
                yield seen()
        while ahead:
            yield seen()
