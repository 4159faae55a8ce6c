"""Feed: a thread that connects to a source, puts its frames in line, and connects again when it is gone."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

from clockseg.errors import UsageError, VideoError
from clockseg.live.connection import Connection, Gone, NotThere
from clockseg.live.line import Line
from clockseg.video import InputChanged

Pause = Callable[[float], bool]
Connect = Callable[[Pause], AbstractContextManager[Connection]]
State = Literal["connecting", "live", "ended", "failed"]


@dataclass(frozen=True)
class Backoff:
    """Waits that grow by ``factor`` from ``first_seconds`` to ``most_seconds``, each shortened by up to the share ``jitter``.

    The jitter keeps what lost one server at one moment from coming back to it at one moment.

    >>> [Backoff(0.5, 2.0, 3.0, jitter=0.0).seconds(tries) for tries in range(4)]
    [0.5, 1.0, 2.0, 3.0]
    """

    first_seconds: float = 0.5
    factor: float = 2.0
    most_seconds: float = 30.0
    jitter: float = 0.25

    def __post_init__(self) -> None:
        if not (0 < self.first_seconds <= self.most_seconds and self.factor >= 1 and 0 <= self.jitter < 1):
            raise UsageError(f"{self}; give waits above 0 that do not shrink, and a jitter from 0 to below 1.")

    def seconds(self, tries: int, chance: float | None = None) -> float:
        """The wait after ``tries`` tries in a row that came to nothing; ``chance``: 0..1 (None: drawn)."""
        # A power of a long outage would overflow.
        full = min(self.most_seconds, self.first_seconds * self.factor ** min(tries, 64))
        return full * (1 - self.jitter * (random.random() if chance is None else chance))


class Feed:
    """One source; ``start`` it, and frames come into ``line`` until it is over, is given up, or ``stop``.

    ``connect`` opens it. When it is gone or can't be opened, it is tried again after ``backoff``; ``tries`` times in a row
    without a frame, then it is given up. ``on_message`` is called, in the thread, with a sentence for whoever watches.
    ``state``, ``fps`` (as it says itself), ``arrived`` (frames), ``connections`` that gave frames, ``trouble`` (the last thing
    that went wrong) and, of one that was given up, ``error``.
    """

    def __init__(
        self,
        connect: Connect,
        line: Line,
        *,
        backoff: Backoff | None = None,
        tries: int = 10,
        on_message: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self.state: State = "connecting"
        self.fps: float | None = None
        self.arrived = self.connections = 0
        self.trouble = ""
        self.error: Exception | None = None
        self._connect, self._line, self._on_message = connect, line, on_message
        self._backoff, self._tries = backoff or Backoff(), tries
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clockseg-feed", daemon=True)

    @property
    def reconnects(self) -> int:
        """Number of reconnections."""
        return max(0, self.connections - 1)

    @property
    def done(self) -> bool:
        """True if no more frames will come."""
        return self.state in ("ended", "failed")

    def start(self) -> None:
        """Connect, in its thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end; no frame comes after the next."""
        self._stop.set()

    def join(self, seconds: float) -> None:
        """Wait until it has ended, but not longer: a read that waits for its source does not keep the process."""
        if self._thread.is_alive():
            self._thread.join(max(0.0, seconds))

    def _run(self) -> None:
        try:
            self._through_connections()
            self.state = "ended"
        except Exception as error:  # it goes to whoever runs the network
            self.error, self.trouble, self.state = error, str(error), "failed"

    def _through_connections(self) -> None:
        tries = 0
        while not self._stop.is_set():
            before = self.arrived
            over = self._once()
            if over or self._stop.is_set():
                return
            tries = 0 if self.arrived > before else tries
            if tries >= self._tries:
                raise VideoError(f"{self.trouble}; given up (reconnect: {self._tries})")
            wait = self._backoff.seconds(tries)
            tries += 1
            self._on_message(f"{self.trouble}; trying again in {wait:.1f} s")
            self._pause(wait)

    def _once(self) -> bool:
        """Run one connection to its end; return True if there is nothing to come back for."""
        self.state = "connecting"
        try:
            with self._connect(self._pause) as connection:
                self._through(connection)
                self.trouble = connection.why() or "it ended"
                return connection.over()
        except (Gone, InputChanged):
            raise
        except VideoError as error:
            if isinstance(error, NotThere) and not self.connections:
                raise
            self.trouble = str(error)
            return False

    def _through(self, connection: Connection) -> None:
        began = self.arrived
        self.fps = None if connection.fps is None else float(connection.fps)
        for arrived in connection.frames:
            if self.arrived == began:
                self.connections += 1
                self.state, self.trouble = "live", ""
                if self.reconnects:
                    self._on_message("it is back")
            self.arrived += 1
            self._line.put(arrived._replace(connection=self.connections - 1), stopped=self._stop.is_set)
            if self._stop.is_set():
                return

    def _pause(self, seconds: float) -> bool:
        return self._stop.wait(max(0.0, seconds))
