"""Streams: frames come in real time, and what counts is the newest output that is finished.

Frame t comes t / FPS seconds after frame 0, and its deadline is (t + 1) / FPS, when the next one comes: until then the
picture is the newest there is, and whoever reads the labels as frame t + 1 comes has nothing better than those of frame t.
At each deadline the newest finished output stands for frame t, whatever frame it was computed from. So a network that
takes at most a frame's time scores as if it took none, and all that is lost beyond that is lost to time.

The network takes the newest frame that has come as soon as it is free; frames that were overtaken are dropped, and a
schedule counts the frames it sees. Frame 0 is run before the stream begins and not scored, so that there is an output at
every deadline and all networks are scored on the same frames.

After the streaming accuracy of Li, Wang, Ramanan: Towards Streaming Perception (ECCV 2020), which scores at t / FPS, where
even a network that keeps up shows the frame before.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from clockseg.clockwork.network import Part, StagedNetwork, Value
from clockseg.errors import UsageError
from clockseg.execution.pipeline import Runner


class Timer(Protocol):
    """Clock of a stream, in seconds."""

    def now(self) -> float:
        """Seconds since some moment."""
        ...

    def wait(self, until: float) -> None:
        """Return when ``now`` is at least ``until``."""
        ...


class WallTimer:
    """Real time."""

    def now(self) -> float:
        """Seconds of the machine's monotonic clock."""
        return time.perf_counter()

    def wait(self, until: float) -> None:
        """Sleep."""
        time.sleep(max(0.0, until - self.now()))


class VirtualTimer:
    """A timer that stands still but for what waits and ``spend``: streams of given durations, exact and at once.

    >>> timer = VirtualTimer()
    >>> timer.wait(2.0)
    >>> timer.spend(0.5)
    >>> timer.now()
    2.5
    """

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        """Seconds spent and waited so far."""
        return self._now

    def wait(self, until: float) -> None:
        """Be there at once."""
        self._now = max(self._now, until)

    def spend(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds


def with_durations(net: StagedNetwork, timer: VirtualTimer, seconds: Mapping[str, float]) -> StagedNetwork:
    """``net`` whose parts take the given seconds of a virtual timer, by their names (``STAGE.body``, ..; others take 0).

    >>> from clockseg.clockwork.network import Stage
    >>> timer = VirtualTimer()
    >>> with_durations(StagedNetwork("one", (Stage("a", str.upper),)), timer, {"a.body": 1.5})("x"), timer.now()
    ('X', 1.5)
    """

    def spending(name: str, part: Part) -> Part:
        def call(*values: Value) -> Value:
            timer.spend(seconds.get(name, 0.0))
            return part(*values)

        return call

    return net.map(spending)


class Shown(NamedTuple):
    """An output of a stream: of which frame, when it was started and finished, in seconds from the start of the stream.

    ``newest`` and ``oldest``: the newest and the oldest frame that a stage's part in it was computed from.
    """

    frame: int
    start: float
    finish: float
    newest: int
    oldest: int
    output: Any


@dataclass(frozen=True)
class Stream:
    """Outputs of a network on a stream of ``frames`` frames at ``fps``, in order; the first is that of frame 0."""

    fps: float
    frames: int
    outputs: tuple[Shown, ...]

    def at_deadlines(self) -> list[Shown]:
        """The newest finished output at the deadline of each frame from 1 on."""
        finishes, frames = [one.finish for one in self.outputs], [one.frame for one in self.outputs]
        # Of frame t at most: what takes no time may finish frame t + 1 at the very deadline of frame t, when it comes.
        counts = (
            min(bisect_right(finishes, (t + 1) / self.fps), bisect_right(frames, t)) for t in range(1, self.frames)
        )
        return [self.outputs[count - 1] for count in counts]

    @property
    def dropped(self) -> int:
        """Frames that were never run, because a newer one had come."""
        return self.frames - len(self.outputs)

    def ages(self) -> list[float]:
        """At each deadline, the seconds since the newest frame came that what is shown was computed from; 1 / fps at best."""
        return [(t + 1 - one.newest) / self.fps for t, one in enumerate(self.at_deadlines(), start=1)]

    def oldest_ages(self) -> list[float]:
        """The same for the oldest frame that any stage's part in it was computed from."""
        return [(t + 1 - one.oldest) / self.fps for t, one in enumerate(self.at_deadlines(), start=1)]


def stream(runner: Runner, images: Sequence[Any], fps: float, *, timer: Timer | None = None) -> Stream:
    """Run ``runner`` on ``images`` that come at ``fps`` by ``timer`` (None: real time); its session starts anew.

    >>> from clockseg.clockwork.schedule import frame_oracle
    >>> from clockseg.clockwork.session import Session
    >>> from clockseg.clockwork.network import Stage
    >>> timer = VirtualTimer()
    >>> net = with_durations(StagedNetwork("one", (Stage("a", str.upper),)), timer, {"a.body": 1.5})
    >>> found = stream(Runner(Session(net, frame_oracle)), "abcdef", fps=1, timer=timer)
    >>> [one.output for one in found.at_deadlines()], found.dropped, found.ages()
    (['A', 'B', 'C', 'C', 'E'], 1, [2.0, 2.0, 2.0, 3.0, 2.0])
    """
    if not images or not (fps > 0 and math.isfinite(fps)):
        raise UsageError(f"{len(images)} frames at {fps} FPS; give at least one frame, at a number of FPS above 0.")
    timing = timer or WallTimer()
    runner.session.reset()
    origins: list[int] = []
    outputs = [_run(runner, images, 0, origins, timing, begin=0.0)._replace(start=0.0, finish=0.0)]
    begin = timing.now()
    arrivals = [begin + t / fps for t in range(len(images))]
    while outputs[-1].frame < len(images) - 1:
        newest = bisect_right(arrivals, timing.now()) - 1
        if newest > outputs[-1].frame:
            outputs.append(_run(runner, images, newest, origins, timing, begin))
        else:
            timing.wait(arrivals[newest + 1])
    return Stream(fps, len(images), tuple(outputs))


def _run(runner: Runner, images: Sequence[Any], frame: int, origins: list[int], timing: Timer, begin: float) -> Shown:
    """Run one frame; ``origins``: the frames that were run since the last fill, from which records count."""
    start = timing.now() - begin
    output = runner.session(images[frame])
    finish = timing.now() - begin
    record = runner.session.record
    if record.fill:
        origins.clear()
    origins.append(frame)
    runner.between()
    return Shown(frame, start, finish, origins[max(record.reflects)], origins[min(record.reflects)], output)
