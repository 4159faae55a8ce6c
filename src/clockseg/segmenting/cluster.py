"""A cluster: workers as Ray actors, on this machine or on many that share the videos' and the output's file system.

An actor makes its ``Work`` once and takes steps: paths, times and figures go through Ray, never frames.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from clockseg.clockwork.trace import Progress
from clockseg.errors import DataError, MissingDependency, UsageError
from clockseg.segmenting.workers import Heard, Here, Recipe, Report, Task, sendable

HEARTBEAT_SECONDS = 0.5
"""Between two looks at how far tasks are."""


class Actors:
    """``jobs`` Ray actors of ``cores`` cores each, on the cluster at ``address`` ("auto": the one this machine is part of).

    An actor that dies is replaced, and its task is told to have died. ``MissingDependency`` without Ray; ``DataError`` if
    there is no cluster there; ``UsageError`` if it has not as many cores.
    """

    def __init__(self, recipe: Recipe, jobs: int, *, address: str, cores: int) -> None:
        self._ray = _ray()
        self._begun = _join(self._ray, address)
        self._recipe, self._cores = recipe, cores
        _check_room(self._ray, jobs, cores)
        self._free: deque[Any] = deque(self._begin() for _ in range(jobs))
        self._busy: dict[Any, tuple[int, Any, Report]] = {}

    @property
    def idle(self) -> int:
        """How many wait for a task."""
        return len(self._free)

    def start(self, task: Task, tell: Report) -> None:
        """Hand it to one that waits."""
        actor = self._free.popleft()
        self._busy[actor.take.remote(task)] = task.number, actor, tell

    def hear(self) -> Heard:
        """What came of the next task that ends, in whichever of them."""
        while True:
            ended, _ = self._ray.wait(list(self._busy), timeout=HEARTBEAT_SECONDS)
            if ended:
                return self._settled(ended[0])
            self._tell()

    def close(self) -> None:
        """End them all, at once, and leave the cluster."""
        for actor in (*self._free, *(actor for _, actor, _ in self._busy.values())):
            self._ray.kill(actor)
        self._free, self._busy = deque(), {}
        if self._begun:
            self._ray.shutdown()

    def _begin(self) -> Any:
        # A thread more than the one that works, so that an actor can tell how far it is meanwhile.
        actor = self._ray.remote(_Actor).options(num_cpus=self._cores, max_concurrency=2)
        return actor.remote(self._recipe)

    def _settled(self, reference: Any) -> Heard:
        number, actor, _ = self._busy.pop(reference)
        try:
            heard: Heard = self._ray.get(reference)
        except self._ray.exceptions.RayActorError as error:
            self._ray.kill(actor)
            self._free.append(self._begin())
            return Heard(number, error=RuntimeError(f"its worker was lost ({_first_line(error)})"), died=True)
        self._free.append(actor)
        return heard

    def _tell(self) -> None:
        asked = {actor.progress.remote(): tell for _, actor, tell in self._busy.values()}
        known, _ = self._ray.wait(list(asked), num_returns=len(asked), timeout=HEARTBEAT_SECONDS)
        for reference in known:
            try:
                now: Progress | None = self._ray.get(reference)
            except self._ray.exceptions.RayActorError:
                continue  # its task tells
            if now is not None:
                asked[reference](now)


class _Actor:
    """What runs in a worker of the cluster."""

    def __init__(self, recipe: Recipe) -> None:
        self._here = Here(recipe)
        self._now: Progress | None = None

    def take(self, task: Task) -> Heard:
        """Do a task."""
        self._now = None
        self._here.start(task, self._note)
        heard = self._here.hear()
        return heard if heard.error is None else heard._replace(error=sendable(heard.error))

    def progress(self) -> Progress | None:
        """How far the task at hand is."""
        return self._now

    def _note(self, now: Progress) -> None:
        self._now = now


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MissingDependency("a cluster needs Ray: pip install '.[ray]' in the clone") from error
    return ray


def _join(ray: Any, address: str) -> bool:
    """Connect to the cluster; whether that was needed."""
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
    there = int(ray.cluster_resources().get("CPU", 0))
    if jobs * cores > there:
        raise UsageError(f"{jobs} jobs of {cores} cores each on a cluster of {there}; give fewer --jobs or --threads.")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
