"""A stream takes the frames of a video and returns their outputs in order, at once or some frames later."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from clockseg.carry.interpolate import Interpolate
from clockseg.carry.motion import Motion, Sight
from clockseg.carry.warp import Warp
from clockseg.clocks.scene_cut import scene_cut
from clockseg.clocks.spec import parse_schedule
from clockseg.clockwork.facts import facts
from clockseg.clockwork.network import StagedNetwork, same
from clockseg.clockwork.schedule import Schedule, ScheduleLike, schedule_for
from clockseg.clockwork.session import Session
from clockseg.clockwork.trace import Record
from clockseg.errors import UsageError
from clockseg.execution.machine import cores
from clockseg.showing.labelling import Labeller
from clockseg.showing.maps import Maps, Part, keeping
from clockseg.showing.seeing import Seen, Shown, Stream, Watching, with_seconds
from clockseg.showing.window import Due, Window

INTERPOLATED = "interpolated"
"""``Record.propagated`` of a frame whose output was made from the key frames around it."""
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


def stream(
    net: StagedNetwork,
    schedule: ScheduleLike | str,
    *,
    lookahead: int | None = None,
) -> Stream:
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

    ``schedule``: as for a ``Session``, also text.

    With the carry ``interpolate``, outputs come late: up to one interval between key frames is read ahead, and
    the motion of up to ``AHEAD`` frames is estimated in a thread while the network runs. Don't change arrays once they are given.

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
        self._smooth, self._lookahead, self._usual = carry.keys == 2, lookahead, 0.0
        self.window = Window(self._smooth)
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
        frame = _Frame(seen.item, seen.image, record)
        shown: list[Shown] = []
        if record.fill:
            shown += self._show(self.window.end())
        begun = time.perf_counter()
        self.key_maps = scores.value if any(record.fired) else None
        maps = None if self.key_maps is None else self.maps_of(seen, scores.value)
        due = self.window.add(frame, None if record.fill else seen.motion, maps)
        frame.record = with_seconds(record, motion=seen.seconds + time.perf_counter() - begun)
        shown += self._show(due)
        most = _fitting(MOST_FRAMES, seen.image) if self._lookahead is None else self._lookahead
        return shown + self._show(self.window.overdue(most))

    def maps_of(self, seen: Seen, value: Any) -> Maps:
        """Return the maps of a key frame, from the value that ``finish`` reads."""
        return Maps.of(value)

    def end(self) -> list[Shown]:
        """End the clip: the frames after the last key frame are made from it alone."""
        shown = self._show(self.window.end())
        self.close()
        return shown

    def close(self) -> None:
        """Forget the clip, and end the threads."""
        super().close()
        self.window, self._usual = Window(self._smooth), 0.0
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
        shown = []
        for frame, output, fuse, finish in made:
            record = with_seconds(frame.record, fuse=fuse * share, finish=finish * share)
            shown.append(
                Shown(frame.item, output, record._replace(propagated="" if any(record.fired) else INTERPOLATED))
            )
        return shown

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
