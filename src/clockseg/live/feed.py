"""The frames of one source: a thread connects to it and queues them, and those that would be late are dropped."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Literal, get_args

from clockseg.errors import UsageError, VideoError
from clockseg.live.sources import Arrived, Connection
from clockseg.video import InputChanged

Pause = Callable[[float], bool]
Connect = Callable[[Pause, Callable[[], object]], AbstractContextManager[Connection]]
State = Literal["connecting", "live", "ended", "failed"]
Drop = Literal["latest", "all"]
MOST = 64
"""The most frames that may wait, whatever the latency: they are whole pictures."""
_FASTEST = 60
"""The frame rate up to which no frame is dropped that could still be in time."""
_ALL = 8


def backoff(tries: int) -> float:
    """Return the seconds to wait after ``tries`` failed tries in a row: doubling from 0.5 to 30, less up to a quarter at random.

    The randomness keeps sources that lost one server at the same moment from returning to it at the same moment.
    """
    # A power of a long outage would overflow.
    return min(30.0, 0.5 * 2.0 ** min(tries, 64)) * random.uniform(0.75, 1.0)


class Feed:
    """One source: from ``start`` on its frames are queued, until it ends, is given up, or ``stop`` is called.

    ``connect`` opens it. A source whose first connection brings no frame is given up at once. One that has worked is
    reconnected, after ``wait(tries)`` seconds, until ``tries`` attempts in a row have brought no frame. ``on_message`` is
    called, in the thread, with a sentence for the user. ``state``, ``fps`` (as the source states it), ``arrived`` (frames),
    ``connections`` that brought frames, ``trouble`` (the last problem) and, of a source that was given up, ``error``.

    ``drop``: "latest", where a frame waits at most ``latency_seconds`` if there is a newer one: then all but the newest are
    dropped (0: the newest is always next); or "all", where every frame is run, and a full queue makes the decoder wait.
    ``changed`` is notified of every frame, and may be that of other sources too. ``dropped`` counts the dropped ones.
    """

    def __init__(
        self,
        connect: Connect,
        drop: Drop,
        *,
        latency_seconds: float,
        changed: threading.Condition,
        tries: int = 10,
        wait: Callable[[int], float] = backoff,
        on_message: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        if drop not in get_args(Drop):
            raise UsageError(f"drop {drop!r}; give {' or '.join(get_args(Drop))}.")
        self.state: State = "connecting"
        self.fps: float | None = None
        self.arrived = self.connections = self.dropped = 0
        self.trouble = ""
        self.error: Exception | None = None
        self.drop, self.latency_seconds = drop, latency_seconds
        self._room = _ALL if drop == "all" else min(MOST, int(latency_seconds * _FASTEST) + 1)
        self._waiting: deque[Arrived] = deque()
        self._connect, self._changed, self._on_message = connect, changed, on_message
        self._tries, self._wait = tries, wait
        self._stop, self._ready = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="clockseg-feed", daemon=True)

    def __len__(self) -> int:
        """The number of frames that wait."""
        return len(self._waiting)

    @property
    def reconnects(self) -> int:
        """Number of reconnections."""
        return max(0, self.connections - 1)

    @property
    def done(self) -> bool:
        """True if no more frames will come."""
        return self.state in ("ended", "failed")

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def ready(self) -> None:
        """Signal that the network has run a frame: a file or a recording, which waits for this, begins to play."""
        self._ready.set()

    def stop(self) -> None:
        """Ask the thread to end; at most one more frame comes."""
        self._stop.set()
        self._ready.set()

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended, at most so many seconds: a read that waits for its source does not keep the process."""
        if self._thread.is_alive():
            self._thread.join(max(0.0, seconds))

    def put(self, arrived: Arrived) -> None:
        """Add a frame; with "all", wait until there is room for it, or until the thread is asked to end."""
        with self._changed:
            if self.drop == "all":
                while len(self) >= self._room and not self._stop.is_set():
                    self._changed.wait(0.2)
            elif len(self) >= self._room:
                self._drop_oldest()
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
            if now - self._waiting[0].seconds > self.latency_seconds:
                self.give_up()
            taken = self._waiting.popleft()
            self._changed.notify_all()
            return taken

    def give_up(self) -> None:
        """Drop all waiting frames but the newest, unless every frame is run."""
        with self._changed:
            while self.drop == "latest" and len(self) > 1:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        self._waiting.popleft()
        self.dropped += 1

    def _run(self) -> None:
        tries = 0
        try:
            while not (self._stop.is_set() or self._connected()):
                if not self.connections:
                    raise VideoError(self.trouble or "it ended before its first frame")
                tries = tries + 1 if self.state == "connecting" else 1
                why = self.trouble or "it ended"
                if tries > self._tries:
                    raise VideoError(f"{why}; given up (reconnect: {self._tries})")
                wait = self._wait(tries - 1)
                self._on_message(f"{why}; trying again in {wait:.1f} s")
                self._pause(wait)
            self.state = "ended"
        except Exception as error:  # raised where the network runs
            self.error, self.trouble, self.state = error, str(error), "failed"

    def _connected(self) -> bool:
        """Run one connection to its end; return True if there is nothing to come back for."""
        self.state, over = "connecting", False
        try:
            with self._connect(self._pause, self._ready.wait) as connection:
                self._take(connection)
                self.trouble, over = connection.why(), connection.over()
        except InputChanged:
            raise
        except VideoError as error:
            self.trouble = str(error)
        return over or self._stop.is_set()

    def _take(self, connection: Connection) -> None:
        self.fps = None if connection.fps is None else float(connection.fps)
        for arrived in connection.frames:
            if self.state == "connecting":
                self.connections += 1
                self.state, self.trouble = "live", ""
                if self.reconnects:
                    self._on_message("it is back")
            self.arrived += 1
            self.put(arrived._replace(connection=self.connections - 1))
            if self._stop.is_set():
                return

    def _pause(self, seconds: float) -> bool:
        return self._stop.wait(max(0.0, seconds))
