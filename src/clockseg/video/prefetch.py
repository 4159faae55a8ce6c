"""Decoding in a thread ahead of whoever takes the frames."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class _Item(Generic[T]):
    value: T


@dataclass(frozen=True)
class _End:
    error: BaseException | None = None


def prefetch(frames: Iterable[T], *, depth: int = 8) -> Generator[T, None, None]:
    """Yields the same items, made in a thread of their own up to ``depth`` ahead of the consumer.

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
