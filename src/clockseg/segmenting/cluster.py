"""Workers as Ray actors, on this machine or on many that share the file system of the videos and of the output.

Paths, times and figures go through Ray, never frames.
"""

from __future__ import annotations

from typing import Any

from clockseg.clockwork.trace import Progress
from clockseg.errors import DataError, MissingDependency, UsageError, first_line, install
from clockseg.segmenting.pieces import PieceResult
from clockseg.segmenting.work import OnProgress
from clockseg.segmenting.workers import Pool, Ran, Recipe, Serving, Step, WorkerLost


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
