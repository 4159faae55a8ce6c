"""The queue of frames between a decoder and the network, which drops the ones that would be late."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

from clockseg.errors import UsageError
from clockseg.video import Frame

Drop = Literal["latest", "all"]
MOST = 64
"""The most frames that may wait, whatever the latency: they are whole pictures."""
_FASTEST = 60
"""The frame rate up to which no frame is dropped that could still be in time."""
_ALL = 8


class Arrived(NamedTuple):
    """A frame, the time at which it was decoded (of ``time.perf_counter``), and the number of its connection, from 0."""

    frame: Frame
    seconds: float
    connection: int = 0


class Line:
    """Frames between the thread that decodes one source and the one that runs the network.

    ``drop``: "latest", where a frame waits at most ``latency_seconds`` if there is a newer one: then all but the newest are
    dropped (0: the newest is always next); or "all", where every frame is run, and a full line makes the decoder wait.
    ``changed`` is notified of every frame. ``dropped`` counts the dropped ones.
    """

    def __init__(self, drop: Drop, *, latency_seconds: float, changed: threading.Condition) -> None:
        if drop not in get_args(Drop):
            raise UsageError(f"drop {drop!r}; give {' or '.join(get_args(Drop))}.")
        self.drop, self.latency_seconds, self.dropped = drop, latency_seconds, 0
        self._room = _ALL if drop == "all" else min(MOST, int(latency_seconds * _FASTEST) + 1)
        self._waiting: deque[Arrived] = deque()
        self._changed = changed

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, arrived: Arrived, *, stopped: Callable[[], bool] = lambda: False) -> None:
        """Add a frame; with "all", wait until there is room for it, or until ``stopped`` returns True."""
        with self._changed:
            if self.drop == "all":
                while len(self._waiting) >= self._room and not stopped():
                    self._changed.wait(0.2)
            elif len(self._waiting) >= self._room:
                self._waiting.popleft()
                self.dropped += 1
            self._waiting.append(arrived)
            self._changed.notify_all()

    def oldest(self) -> float | None:
        """Return the arrival time of the frame that has waited longest; None if none waits."""
        with self._changed:
            return self._waiting[0].seconds if self._waiting else None

    def take(self, now: float) -> Arrived | None:
        """Remove and return the next frame to run at the moment ``now``; None if none waits."""
        with self._changed:
            if not self._waiting:
                return None
            if self.drop == "latest" and now - self._waiting[0].seconds > self.latency_seconds:
                self.give_up()
            taken = self._waiting.popleft()
            self._changed.notify_all()
            return taken

    def give_up(self) -> None:
        """Drop all waiting frames but the newest."""
        with self._changed:
            while len(self._waiting) > 1:
                self._waiting.popleft()
                self.dropped += 1
