"""Workers: what carries out the steps of many clips, here, in processes of this machine, or on a cluster.

A task is a function of the ``Work`` that each worker makes for itself, once, from a recipe; tasks hold paths, times and
figures, never frames.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, NamedTuple, Protocol, TypeAlias

from clockseg.clockwork.trace import Progress
from clockseg.segmenting.segmentation import Work

Recipe: TypeAlias = Callable[[], Work]
"""Makes a worker's ``Work``; for other processes it must be one that can be pickled."""
Report: TypeAlias = Callable[[Progress], None]
Step: TypeAlias = Callable[[Work, Report], Any]
"""What a task does: a function at the top of a module, or a ``partial`` of one."""
TELL_SECONDS = 0.5
"""Between two reports of a task's progress from another process."""


class Task(NamedTuple):
    """One step; ``number`` is its name in what is heard of it."""

    number: int
    step: Step


class Heard(NamedTuple):
    """What came of a task: its ``value``, or the ``error`` it ended with.

    ``died``: the worker ended in the middle of it, and ``error`` says how; another one has taken its place.
    """

    task: int
    value: Any = None
    error: Exception | None = None
    died: bool = False


class Workers(Protocol):
    """``start`` a task while ``idle`` is above 0, ``hear`` waits for the next that ends; ``close`` ends all, whatever they do.

    ``tell`` is called, in this process, with how far the task is, now and then.
    """

    @property
    def idle(self) -> int: ...
    def start(self, task: Task, tell: Report) -> None: ...
    def hear(self) -> Heard: ...
    def close(self) -> None: ...


class Here:
    """One worker, this process: ``start`` returns when the task has ended.

    >>> here = Here(lambda: None)
    >>> here.start(Task(7, lambda work, tell: 1 / 0), print)
    >>> heard = here.hear()
    >>> heard.task, type(heard.error).__name__
    (7, 'ZeroDivisionError')
    """

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._work: Work | None = None
        self._heard: deque[Heard] = deque()

    @property
    def idle(self) -> int:
        """1 where nothing is waiting to be heard."""
        return int(not self._heard)

    def start(self, task: Task, tell: Report) -> None:
        """Do it."""
        try:
            self._work = self._work or self._recipe()
            self._heard.append(Heard(task.number, task.step(self._work, tell)))
        except Exception as error:
            self._heard.append(Heard(task.number, error=error))

    def hear(self) -> Heard:
        """What came of it."""
        return self._heard.popleft()

    def close(self) -> None:
        """Nothing is running."""


class _Worker(NamedTuple):
    process: SpawnProcess
    connection: Connection
    tell: Report = lambda now: None


class Processes:
    """``jobs`` processes, each with a ``Work`` of its own. One that dies is replaced, and its task is told to have died.

    They end with this process, however it ends.
    """

    def __init__(self, recipe: Recipe, jobs: int) -> None:
        self._recipe, self._context = recipe, multiprocessing.get_context("spawn")
        self._free = [self._begin() for _ in range(jobs)]
        self._busy: dict[int, _Worker] = {}

    @property
    def idle(self) -> int:
        """How many wait for a task."""
        return len(self._free)

    def start(self, task: Task, tell: Report) -> None:
        """Hand it to one that waits."""
        worker = self._free.pop()._replace(tell=tell)
        self._busy[task.number] = worker
        with contextlib.suppress(OSError):  # it died while it waited: hear tells
            worker.connection.send(task)

    def hear(self) -> Heard:
        """What came of the next task that ends, in whichever of them."""
        while True:
            connections = {worker.connection: number for number, worker in self._busy.items()}
            first = wait(list(connections))[0]
            number = connections[first]  # type: ignore[index]
            worker = self._busy[number]
            try:
                heard: Heard | Progress = worker.connection.recv()
            except (EOFError, OSError):
                return self._buried(number, worker)
            if isinstance(heard, Heard):
                self._free.append(self._busy.pop(number))
                return heard
            worker.tell(heard)

    def close(self) -> None:
        """End them all, at once."""
        for worker in (*self._free, *self._busy.values()):
            worker.process.kill()
            worker.process.join()
            worker.connection.close()
        self._free, self._busy = [], {}

    def _begin(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs, self._recipe), daemon=True, name="clockseg-worker")
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def _buried(self, number: int, worker: _Worker) -> Heard:
        worker.process.join()
        worker.connection.close()
        del self._busy[number]
        self._free.append(self._begin())
        return Heard(number, error=RuntimeError(_how(worker.process.exitcode)), died=True)


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"its worker was ended by {signal.Signals(-code).name}"
    return f"its worker ended with code {code}"


def _serve(connection: Connection, recipe: Recipe) -> None:
    """The life of a worker process."""
    # Ctrl-C reaches all processes of a terminal; the first one decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    here: Here | None = None
    while True:
        try:
            task: Task = connection.recv()
        except (EOFError, OSError):
            return
        here = here or Here(recipe)
        here.start(task, _telling(connection))
        heard = here.hear()
        connection.send(heard if heard.error is None else Heard(task.number, error=sendable(heard.error)))


def sendable(error: Exception) -> Exception:
    """The error, or, of a library whose errors can't be sent to another process, its text.

    >>> sendable(ValueError("no")), sendable(ValueError(lambda: 0)).args[0][:12]
    (ValueError('no'), 'ValueError: ')
    """
    try:
        again = pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error if type(again) is type(error) else RuntimeError(str(error))


def _telling(connection: Connection) -> Report:
    last = 0.0

    def tell(now: Progress) -> None:
        nonlocal last
        if time.monotonic() - last > TELL_SECONDS:
            last = time.monotonic()
            connection.send(now)

    return tell


def _end_with_parent() -> None:
    """Whatever this process is doing, it must not go on writing when the one that started it is gone."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
