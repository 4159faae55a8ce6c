"""Recipe: all that makes a worker's network, schedule and job from the command line, so that any process can make its own."""

from __future__ import annotations

import argparse
import hashlib
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from clockseg import __version__

if TYPE_CHECKING:
    from clockseg.segmenting.segmentation import Work


@dataclass(frozen=True)
class Recipe:
    """The options of ``segment`` that decide what comes out; called, it gives the ``Work`` they ask for."""

    network: str
    engine: str
    precision: str
    threads: int | None
    size: Any
    schedule: str | None
    carry: str | None
    write: tuple[str, ...] | None
    every: int
    limit: int | None
    flicker: bool
    start: Fraction | None
    end: Fraction | None
    stream: int | None
    max_pixels: int
    max_hours: float

    def __call__(self) -> Work:
        """The network, ready to run, with its schedule and its job."""
        from clockseg.cli._options import parse_schedules
        from clockseg.evaluation.deviation import gives_numbers
        from clockseg.networks.load import load
        from clockseg.segmenting.job import Job
        from clockseg.segmenting.results import check_writes
        from clockseg.segmenting.segmentation import Work

        net = load(self.network, engine=self.engine, precision=self.precision, threads=self.threads, size=self.size)
        writes = check_writes(self.write, values=gives_numbers(net))
        [(name, schedule)] = parse_schedules(None if self.schedule is None else [self.schedule], net, self.carry)
        job = Job(
            writes,
            self.every,
            self.limit,
            self.flicker,
            name,
            self.start,
            self.end,
            self.stream,
            self.max_pixels,
            self.max_hours,
            setting=f"{self.digest()} {self.size}",
        )
        return Work(net, schedule, job)

    def pinned(self, work: Work, *, threads: int | None) -> Recipe:
        """The same for other processes: the engine that ``work`` runs in, on so many threads."""
        engine = work.net.engine.split()[0] if self.engine == "auto" else self.engine
        return replace(self, engine=engine, threads=self.threads or threads)

    def setting(self, work: Work) -> dict[str, Any]:
        """What decides the bytes that come out, as plain values, for the manifest."""
        said = work.job.facts()
        del said["setting"], said["name"], said["max_pixels"], said["max_hours"]
        return {
            "network": self.network,
            "digest": self.digest(),
            "engine": work.net.engine,
            "size": None if self.size is None else str(self.size),
            "schedule": work.job.name,
            "carry": str(work.schedule.carry),
            **said,
            "clockseg": __version__,
        }

    def digest(self) -> str:
        """Of the network's file and its sidecar."""
        from clockseg.networks.load import path_of

        path = path_of(self.network)
        files = [file for file in (path, path.with_suffix(".json")) if file.is_file()]
        return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def recipe(args: argparse.Namespace) -> Recipe:
    """The recipe that the options ask for."""
    return Recipe(**{field.name: getattr(args, field.name) for field in fields(Recipe)})
