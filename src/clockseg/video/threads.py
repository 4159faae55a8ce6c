"""Threads that decode ahead of the network and encode behind it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from queue import Queue, SimpleQueue
from time import perf_counter
from typing import Generic, ParamSpec, TypeVar

from clockseg.video.output import CloseOrAbort

P = ParamSpec("P")


class Background(CloseOrAbort, Generic[P]):
    """Calls ``work`` in a thread of its own, in order, once for each ``put``.

    ``put`` returns at once unless ``depth`` calls are waiting. What ``work`` raises is raised by the next ``put`` or by
    ``close``, and nothing more is done. ``seconds`` is the time spent in ``work``. Leaving a ``with`` block closes,
    leaving it by an exception aborts. Arrays put here must not be changed afterwards.

    >>> seen = []
    >>> with Background(seen.append) as background:
    ...     background.put(1)
    ...     background.put(2)
    >>> seen
    [1, 2]
    """

    def __init__(self, work: Callable[P, object], *, depth: int = 8) -> None:
        self._work = work
        self._waiting: Queue[Callable[[], object] | None] = Queue(max(1, depth))
        self._error: BaseException | None = None
        self._dropped = False
        self.seconds = 0.0
        self._thread = threading.Thread(target=self._run, name="clockseg-encode", daemon=True)
        self._thread.start()

    def put(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Schedule one call."""
        self._raise()
        self._waiting.put(lambda: self._work(*args, **kwargs))

    def close(self) -> None:
        """Wait for the scheduled calls, end the thread, and raise an error that occurred in it."""
        self._end()
        self._raise()

    def abort(self) -> None:
        """Drop the waiting calls, and end the thread once the current call is done."""
        self._dropped = True
        self._end()

    def _end(self) -> None:
        if self._thread.is_alive():
            self._waiting.put(None)
            self._thread.join()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while (call := self._waiting.get()) is not None:
            if self._error is None and not self._dropped:
                self._timed(call)

    def _timed(self, call: Callable[[], object]) -> None:
        start = perf_counter()
        try:
            call()
        except BaseException as error:
            self._error = error
        self.seconds += perf_counter() - start


T = TypeVar("T")


@dataclass(frozen=True)
class _Item(Generic[T]):
    value: T


@dataclass(frozen=True)
class _End:
    error: BaseException | None = None


def prefetch(frames: Iterable[T], *, depth: int = 8) -> Generator[T, None, None]:
    """Yield the same items, produced in a thread up to ``depth`` ahead of the consumer.

    An exception there is raised here, in its place in the order. The thread starts with the first item asked for, and
    has ended when the iterator is exhausted or closed.

    >>> list(prefetch(range(3)))
    [0, 1, 2]
    """
    ready: SimpleQueue[_Item[T] | _End] = SimpleQueue()
    room = threading.Semaphore(max(1, depth))
    stop = threading.Event()
    thread = threading.Thread(target=_fill, args=(frames, ready, room, stop), name="clockseg-decode", daemon=True)
    thread.start()
    try:
        while isinstance(item := ready.get(), _Item):
            room.release()
            yield item.value
        if item.error is not None:
            raise item.error
    finally:
        stop.set()
        room.release()
        thread.join()


def _fill(
    frames: Iterable[T], ready: SimpleQueue[_Item[T] | _End], room: threading.Semaphore, stop: threading.Event
) -> None:
    error: BaseException | None = None
    try:
        # Room is waited for before an item is made, so that no more than `depth` are ever held.
        room.acquire()
        for frame in frames:
            ready.put(_Item(frame))
            room.acquire()
            if stop.is_set():
                break
    except BaseException as caught:
        error = caught
    ready.put(_End(error))
