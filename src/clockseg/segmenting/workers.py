"""Workers run the steps of many clips: in this process, in processes of this machine, or on a cluster.

A task is a function of the ``Work`` that each worker makes for itself, once, from a recipe. Tasks hold paths, times and
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
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, NamedTuple, Protocol, TypeAlias

from clockseg.clockwork.trace import Progress
from clockseg.segmenting.segmentation import Work

Recipe: TypeAlias = Callable[[], Work]
"""Makes a worker's ``Work``; for other processes it must be one that can be pickled."""
OnProgress: TypeAlias = Callable[[Progress], None]
Step: TypeAlias = Callable[[Work, OnProgress], Any]
"""The function of a task: one at the top level of a module, or a ``partial`` of one."""
PROGRESS_SECONDS = 0.5
"""Interval between two progress messages from another process."""


class Task(NamedTuple):
    """One step; ``number`` identifies it in its ``TaskResult``."""

    number: int
    step: Step


class TaskResult(NamedTuple):
    """The ``value`` that a task returned, or the ``error`` it ended with.

    ``died``: the worker ended during the task, and ``error`` says how; another worker has taken its place.
    """

    task: int
    value: Any = None
    error: Exception | None = None
    died: bool = False


class Workers(Protocol):
    """Call ``start`` while ``idle`` is above 0; ``next_result`` waits for the next task that ends; ``close`` ends all workers.

    ``on_progress`` is called in this process.
    """

    @property
    def idle(self) -> int: ...
    def start(self, task: Task, on_progress: OnProgress) -> None: ...
    def next_result(self) -> TaskResult: ...
    def close(self) -> None: ...


class Here:
    """One worker in this process: ``start`` returns when the task has ended.

    >>> here = Here(lambda: None)
    >>> here.start(Task(7, lambda work, on_progress: 1 / 0), print)
    >>> result = here.next_result()
    >>> result.task, type(result.error).__name__
    (7, 'ZeroDivisionError')
    """

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._work: Work | None = None
        self._results: deque[TaskResult] = deque()

    @property
    def idle(self) -> int:
        """1 unless a result is waiting to be fetched."""
        return int(not self._results)

    def start(self, task: Task, on_progress: OnProgress) -> None:
        """Run the task."""
        try:
            self._work = self._work or self._recipe()
            self._results.append(TaskResult(task.number, task.step(self._work, on_progress)))
        except Exception as error:
            self._results.append(TaskResult(task.number, error=error))

    def next_result(self) -> TaskResult:
        """Return the result of the task."""
        return self._results.popleft()

    def close(self) -> None:
        """Do nothing: no task is running."""


class _Worker(NamedTuple):
    process: SpawnProcess
    connection: Connection
    on_progress: OnProgress = lambda now: None


class Processes:
    """``jobs`` processes, each with a ``Work`` of its own. A process that dies is replaced, and its task's result says so.

    The processes end with this one, however it ends.
    """

    def __init__(self, recipe: Recipe, jobs: int) -> None:
        self._recipe, self._context = recipe, multiprocessing.get_context("spawn")
        self._free = [self._begin() for _ in range(jobs)]
        self._busy: dict[int, _Worker] = {}

    @property
    def idle(self) -> int:
        """Number of processes without a task."""
        return len(self._free)

    def start(self, task: Task, on_progress: OnProgress) -> None:
        """Send the task to an idle process."""
        worker = self._free.pop()._replace(on_progress=on_progress)
        self._busy[task.number] = worker
        with contextlib.suppress(OSError):  # it died while idle: next_result says so
            worker.connection.send(task)

    def next_result(self) -> TaskResult:
        """Wait for the next task that ends, in any process."""
        while True:
            connections = {worker.connection: number for number, worker in self._busy.items()}
            first = wait(list(connections))[0]
            number = connections[first]  # type: ignore[index]
            worker = self._busy[number]
            try:
                message: TaskResult | Progress = worker.connection.recv()
            except (EOFError, OSError):
                return self._replace(number, worker)
            if isinstance(message, TaskResult):
                self._free.append(self._busy.pop(number))
                return message
            worker.on_progress(message)

    def close(self) -> None:
        """End all processes at once."""
        for worker in (*self._free, *self._busy.values()):
            worker.process.kill()
            worker.process.join()
            worker.connection.close()
        self._free, self._busy = [], {}

    def _begin(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs, self._recipe), daemon=True, name="clockseg-worker")
        with _without_interrupts():
            process.start()
        theirs.close()
        return _Worker(process, ours)

    def _replace(self, number: int, worker: _Worker) -> TaskResult:
        worker.process.join()
        worker.connection.close()
        del self._busy[number]
        self._free.append(self._begin())
        return TaskResult(number, error=RuntimeError(_cause(worker.process.exitcode)), died=True)


def _cause(code: int | None) -> str:
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"its worker was ended by {signal.Signals(-code).name}"
    return f"its worker ended with code {code}"


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Block Ctrl-C, for good in processes begun meanwhile: it reaches all processes of a terminal, and the first one decides."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Connection, recipe: Recipe) -> None:
    """Run tasks in a worker process until the connection closes."""
    # For systems whose signals can't be blocked.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    here = Here(recipe)
    while True:
        try:
            task: Task = connection.recv()
        except (EOFError, OSError):
            return
        here.start(task, _sending(connection))
        connection.send(sendable(here.next_result()))


def sendable(result: TaskResult) -> TaskResult:
    """Return the result; an error that cannot be pickled, as some libraries' cannot, is replaced by its text.

    >>> sendable(TaskResult(1, error=ValueError("no"))).error
    ValueError('no')
    >>> sendable(TaskResult(1, error=ValueError(lambda: 0))).error.args[0][:12]
    'ValueError: '
    """
    error = result.error
    try:
        again = pickle.loads(pickle.dumps(error))
    except Exception:
        return result._replace(error=RuntimeError(f"{type(error).__name__}: {error}"))
    return result if type(again) is type(error) else result._replace(error=RuntimeError(str(error)))


def _sending(connection: Connection) -> OnProgress:
    last = 0.0

    def on_progress(now: Progress) -> None:
        nonlocal last
        if time.monotonic() - last > PROGRESS_SECONDS:
            last = time.monotonic()
            connection.send(now)

    return on_progress


def _end_with_parent() -> None:
    """End this process when the one that started it has ended: it must not go on writing."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
