"""Threads that decode ahead of the network and encode behind it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any, Generic, ParamSpec, TypeVar

from clockseg.video.output import CloseOrAbort

P = ParamSpec("P")
T = TypeVar("T")
_END: Any = object()


class Background(CloseOrAbort, Generic[P]):
    """Calls ``work`` in a thread of its own, in order, once for each ``put``.

    ``put`` returns at once unless ``depth`` calls are waiting. What ``work`` raises is raised by the next ``put`` or by
    ``close``, and nothing more is done. ``seconds`` is the time spent in ``work``. Leaving a ``with`` block closes,
    leaving it by an exception aborts. Arrays put here must not be changed afterwards.
    """

    def __init__(self, work: Callable[P, object], *, depth: int = 8) -> None:
        self._work, self._room = work, threading.Semaphore(max(1, depth))
        self._error: BaseException | None = None
        self.seconds = 0.0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="clockseg-encode")

    def put(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Schedule one call."""
        self._raise()
        self._room.acquire()
        self._thread.submit(self._call, *args, **kwargs)

    def close(self) -> None:
        """Wait for the scheduled calls, end the thread, and raise an error that occurred in it."""
        self._thread.shutdown()
        self._raise()

    def abort(self) -> None:
        """Drop the waiting calls, and end the thread once the current call is done."""
        self._thread.shutdown(cancel_futures=True)

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _call(self, *args: P.args, **kwargs: P.kwargs) -> None:
        self._room.release()
        if self._error is not None:
            return
        start = perf_counter()
        try:
            self._work(*args, **kwargs)
        except BaseException as error:
            self._error = error
        self.seconds += perf_counter() - start


def prefetch(frames: Iterable[T], *, depth: int = 8) -> Generator[T, None, None]:
    """Yield the same items, produced in a thread up to ``depth`` ahead of the consumer.

    An exception there is raised here, in its place in the order. The thread starts with the first item asked for, and
    has ended when the iterator is exhausted or closed.
    """
    coming = iter(frames)
    thread = ThreadPoolExecutor(1, thread_name_prefix="clockseg-decode")
    try:
        waiting = deque(thread.submit(next, coming, _END) for _ in range(max(1, depth)))
        while (item := waiting.popleft().result()) is not _END:
            waiting.append(thread.submit(next, coming, _END))
            yield item
    finally:
        thread.shutdown(cancel_futures=True)
