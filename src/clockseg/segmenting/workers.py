"""Workers run the steps of many clips: in this process, in processes of this machine, or on a cluster.

A step is a function of the ``Work`` that each worker makes for itself, once, from a recipe. Steps and their results hold paths,
times and figures, never frames. Machines of a cluster share the file system of the videos and of the output.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from typing import Any, Protocol, TypeAlias

from clockseg.errors import ClocksegError, DataError, MissingDependency, UsageError, first_line, install
from clockseg.evaluation.tally import Progress
from clockseg.segmenting.figures import PieceResult
from clockseg.segmenting.work import OnProgress, Work

Recipe: TypeAlias = Callable[[], Work]
"""Makes a worker's ``Work``; for other processes it must be one that can be pickled."""
Step: TypeAlias = Callable[[Work, OnProgress], Any]
"""A function at the top level of a module, or a ``partial`` of one."""
TRIES = 3
"""Attempts at a step whose worker is lost during it."""


class Here:
    """Runs each step in this thread: ``submit`` returns when it has ended."""

    jobs = 1

    def __init__(self, work: Work) -> None:
        self._work = work

    def submit(self, step: Step, on_progress: OnProgress) -> Future[Any]:
        """Run the step."""
        future = Future[Any]()
        try:
            future.set_result(step(self._work, on_progress))
        except Exception as error:
            future.set_exception(error)
        return future

    def close(self) -> None:
        """Do nothing: no step is running."""


class WorkerLost(ClocksegError):
    """A worker ended during a step."""


Ran: TypeAlias = tuple[Any, Exception | None]
"""The value of a step, or the error that it raised."""


class Worker(Protocol):
    """Runs one step at a time elsewhere: ``WorkerLost`` if it ends during the step. ``close`` ends it at once."""

    def run(self, step: Step, on_progress: OnProgress) -> Ran: ...
    def close(self) -> None: ...


class Pool:
    """``jobs`` workers, each of which ``begin`` makes. One that is lost is replaced, and its step is tried again.

    ``on_progress`` is called in this process, in a thread for each worker.
    """

    def __init__(self, begin: Callable[[], Worker], jobs: int) -> None:
        self.jobs, self._begin = jobs, begin
        self._workers = [begin() for _ in range(jobs)]
        self._free = SimpleQueue[int]()
        for number in range(jobs):
            self._free.put(number)
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="clockseg-worker")
        self._replacing, self._closed = threading.Lock(), False

    def submit(self, step: Step, on_progress: OnProgress) -> Future[Any]:
        """Run the step in the next worker that is free."""
        return self._threads.submit(self._run, step, on_progress)

    def close(self) -> None:
        """End all workers at once."""
        with self._replacing:
            self._closed = True
            for worker in self._workers:
                worker.close()
        self._threads.shutdown()

    def _run(self, step: Step, on_progress: OnProgress) -> Any:
        number, tries = self._free.get(), 0
        try:
            while True:
                try:
                    value, error = self._workers[number].run(step, on_progress)
                except WorkerLost:
                    tries += 1
                    if not self._replaced(number) or tries == TRIES:
                        raise
                else:
                    if error is not None:
                        raise error
                    return value
        finally:
            self._free.put(number)

    def _replaced(self, number: int) -> bool:
        """Replace a lost worker; return False if all are being closed."""
        with self._replacing:
            if not self._closed:
                self._workers[number].close()
                self._workers[number] = self._begin()
            return not self._closed


Workers: TypeAlias = Here | Pool
"""Run up to ``jobs`` steps at once; ``submit`` returns the future result of one, and ``close`` ends all at once."""


class Process:
    """A process of this machine, which ends with this one, however it ends."""

    def __init__(self, recipe: Recipe) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, recipe), daemon=True, name="clockseg-worker")
        with _without_interrupts():
            self._process.start()
        theirs.close()

    def run(self, step: Step, on_progress: OnProgress) -> Ran:
        """Run a step there."""
        with contextlib.suppress(OSError):  # it died while idle: there is nothing to receive
            self._connection.send(step)
        while True:
            try:
                message: Progress | Ran = self._connection.recv()
            except (EOFError, OSError):
                self._process.join()
                raise WorkerLost(_cause(self._process.exitcode)) from None
            if not isinstance(message, Progress):
                return message
            on_progress(message)

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.join()
        self._connection.close()


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
    """Run steps in a worker process until the connection closes."""
    # For systems whose signals can't be blocked.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    serving = Serving(recipe)
    while True:
        try:
            step: Step = connection.recv()
        except (EOFError, OSError):
            return
        connection.send(serving.run(step, connection.send))


def _end_with_parent() -> None:
    """End this process when the one that started it has ended: it must not go on writing."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


class Serving:
    """The part of a worker that is in another process: it makes its ``Work`` at the first step.

    >>> serving = Serving(lambda: None)
    >>> serving.run(lambda work, on_progress: 7, print), serving.run(lambda work, on_progress: 1 / 0, print)
    ((7, None), (None, ClocksegError('ZeroDivisionError: division by zero')))
    """

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._work: Work | None = None

    def run(self, step: Step, on_progress: OnProgress = lambda now: None) -> Ran:
        """Run a step; an error from outside clockseg, which may not go through a pipe, is replaced by its text."""
        try:
            self._work = self._work or self._recipe()
            return step(self._work, on_progress), None
        except ClocksegError as error:
            return None, error
        except Exception as error:
            return None, ClocksegError(f"{type(error).__name__}: {error}")


class Cluster(Pool):
    """``jobs`` Ray actors of ``cores`` cores each, on the cluster at ``address`` ("auto": the one this machine is part of).

    ``MissingDependency`` without Ray; ``DataError`` if there is no cluster at the address; ``UsageError`` if it has too few
    cores.
    """

    def __init__(self, recipe: Recipe, jobs: int, *, address: str, cores: int) -> None:
        try:
            import ray
        except ImportError as error:
            raise MissingDependency(f"a cluster needs Ray: {install('ray')}") from error
        self._ray, self._connected = ray, not ray.is_initialized()
        if self._connected:
            try:
                ray.init(address=address, log_to_driver=False, configure_logging=False, namespace="clockseg")
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise DataError(
                    f"there is no Ray cluster at {address!r} ({first_line(error)}). Start one with: ray start --head"
                ) from error
        available = int(ray.cluster_resources().get("CPU", 0))
        if jobs * cores > available:
            raise UsageError(
                f"{jobs} jobs of {cores} cores each on a cluster of {available}; give fewer --jobs or --threads."
            )
        super().__init__(lambda: _Actor(ray, recipe, cores), jobs)

    def close(self) -> None:
        """End all actors at once, and disconnect from the cluster."""
        super().close()
        if self._connected:
            self._ray.shutdown()


class _Actor:
    """An actor of the cluster, as a worker. It tells the progress of a piece when that is done."""

    def __init__(self, ray: Any, recipe: Recipe, cores: int) -> None:
        self._ray = ray
        self._actor = ray.remote(Serving).options(num_cpus=cores).remote(recipe)

    def run(self, step: Step, on_progress: OnProgress) -> Ran:
        """Run a step there."""
        try:
            ran: Ran = self._ray.get(self._actor.run.remote(step))
        except self._ray.exceptions.RayActorError as error:
            raise WorkerLost(f"its worker was lost ({first_line(error)})") from error
        if isinstance(ran[0], PieceResult):
            tally = ran[0].figures.tally
            on_progress(Progress("", tally.frames, None, tally))
        return ran

    def close(self) -> None:
        """Kill the actor."""
        self._ray.kill(self._actor)
