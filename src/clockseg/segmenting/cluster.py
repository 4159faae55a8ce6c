"""Workers as Ray actors, on this machine or on many that share the file system of the videos and of the output.

Paths, times and figures go through Ray, never frames.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from clockseg.clockwork.trace import Progress
from clockseg.errors import DataError, MissingDependency, UsageError, first_line, install
from clockseg.segmenting.work import OnProgress
from clockseg.segmenting.workers import Pool, Ran, Recipe, Serving, Step, WorkerLost

POLL_SECONDS = 0.5
"""Interval at which the progress of a step is asked for."""


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
    """An actor of the cluster, as a worker."""

    def __init__(self, ray: Any, recipe: Recipe, cores: int) -> None:
        self._ray = ray
        # One thread more than the one that works, so that an actor can report its progress meanwhile.
        self._actor = ray.remote(_Remote).options(num_cpus=cores, max_concurrency=2).remote(recipe)

    def run(self, step: Step, on_progress: OnProgress) -> Ran:
        """Run a step there."""
        try:
            reference = self._actor.take.remote(step)
            while not self._ray.wait([reference], timeout=POLL_SECONDS)[0]:
                now: Progress | None = self._ray.get(self._actor.progress.remote())
                if now is not None:
                    on_progress(now)
            ran: Ran = self._ray.get(reference)
        except self._ray.exceptions.RayActorError as error:
            raise WorkerLost(f"its worker was lost ({first_line(error)})") from error
        return ran

    def close(self) -> None:
        """Kill the actor."""
        self._ray.kill(self._actor)


class _Remote(Serving):
    """The code that runs in an actor."""

    _now: Progress | None = None

    def take(self, step: Step) -> Ran:
        """Run a step."""
        self._now = None
        return self.run(step, partial(setattr, self, "_now"))

    def progress(self) -> Progress | None:
        """Return the progress of the current step."""
        return self._now
