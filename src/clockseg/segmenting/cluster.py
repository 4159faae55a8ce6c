"""Workers as Ray actors, on this machine or on many that share the file system of the videos and of the output.

An actor makes its ``Work`` once and takes tasks: paths, times and figures go through Ray, never frames.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from clockseg.clockwork.trace import Progress
from clockseg.errors import DataError, MissingDependency, UsageError, install
from clockseg.segmenting.workers import Here, OnProgress, Recipe, Task, TaskResult, sendable

POLL_SECONDS = 0.5
"""Interval at which the progress of tasks is asked for."""


class Actors:
    """``jobs`` Ray actors of ``cores`` cores each, on the cluster at ``address`` ("auto": the one this machine is part of).

    An actor that dies is replaced, and its task's result says so. ``MissingDependency`` without Ray; ``DataError`` if there
    is no cluster at the address; ``UsageError`` if it has too few cores.
    """

    def __init__(self, recipe: Recipe, jobs: int, *, address: str, cores: int) -> None:
        self._ray = _ray()
        self._connected = _connect(self._ray, address)
        self._recipe, self._cores = recipe, cores
        _check_room(self._ray, jobs, cores)
        self._free: deque[Any] = deque(self._begin() for _ in range(jobs))
        self._busy: dict[Any, tuple[int, Any, OnProgress]] = {}

    @property
    def idle(self) -> int:
        """Number of actors without a task."""
        return len(self._free)

    def start(self, task: Task, on_progress: OnProgress) -> None:
        """Send the task to an idle actor."""
        actor = self._free.popleft()
        self._busy[actor.take.remote(task)] = task.number, actor, on_progress

    def next_result(self) -> TaskResult:
        """Wait for the next task that ends, in any actor."""
        while True:
            ended, _ = self._ray.wait(list(self._busy), timeout=POLL_SECONDS)
            if ended:
                return self._fetch(ended[0])
            self._report()

    def close(self) -> None:
        """End all actors at once, and disconnect from the cluster."""
        for actor in (*self._free, *(actor for _, actor, _ in self._busy.values())):
            self._ray.kill(actor)
        self._free, self._busy = deque(), {}
        if self._connected:
            self._ray.shutdown()

    def _begin(self) -> Any:
        # One thread more than the one that works, so that an actor can report its progress meanwhile.
        actor = self._ray.remote(_Actor).options(num_cpus=self._cores, max_concurrency=2)
        return actor.remote(self._recipe)

    def _fetch(self, reference: Any) -> TaskResult:
        number, actor, _ = self._busy.pop(reference)
        try:
            result: TaskResult = self._ray.get(reference)
        except self._ray.exceptions.RayActorError as error:
            self._ray.kill(actor)
            self._free.append(self._begin())
            lost = RuntimeError(f"its worker was lost ({_first_line(error)})")
            return TaskResult(number, error=lost, died=True)
        self._free.append(actor)
        return result

    def _report(self) -> None:
        asked = {actor.progress.remote(): on_progress for _, actor, on_progress in self._busy.values()}
        known, _ = self._ray.wait(list(asked), num_returns=len(asked), timeout=POLL_SECONDS)
        for reference in known:
            try:
                now: Progress | None = self._ray.get(reference)
            except self._ray.exceptions.RayActorError:
                continue  # the result of its task says so
            if now is not None:
                asked[reference](now)


class _Actor:
    """The code that runs in a worker of the cluster."""

    def __init__(self, recipe: Recipe) -> None:
        self._here = Here(recipe)
        self._now: Progress | None = None

    def take(self, task: Task) -> TaskResult:
        """Run a task."""
        self._now = None
        self._here.start(task, self._note)
        return sendable(self._here.next_result())

    def progress(self) -> Progress | None:
        """Return the progress of the current task."""
        return self._now

    def _note(self, now: Progress) -> None:
        self._now = now


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MissingDependency(f"a cluster needs Ray: {install('ray')}") from error
    return ray


def _connect(ray: Any, address: str) -> bool:
    """Connect to the cluster; return False if this process was connected already."""
    if ray.is_initialized():
        return False
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False, namespace="clockseg")
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise DataError(
            f"there is no Ray cluster at {address!r} ({_first_line(error)}). Start one with: ray start --head"
        ) from error
    return True


def _check_room(ray: Any, jobs: int, cores: int) -> None:
    available = int(ray.cluster_resources().get("CPU", 0))
    if jobs * cores > available:
        raise UsageError(
            f"{jobs} jobs of {cores} cores each on a cluster of {available}; give fewer --jobs or --threads."
        )


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
