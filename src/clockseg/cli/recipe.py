"""Recipe: the options from which any process can build its ``Work``."""

from __future__ import annotations

import argparse
import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from clockseg.cli.options import changed, engine_options
from clockseg.errors import DataError
from clockseg.files import SourceFiles

if TYPE_CHECKING:
    from clockseg.clockwork.schedule import Schedule
    from clockseg.segmenting.work import Work

OPTIONS = ("every", "limit", "start", "end", "max_pixels", "max_hours", "strip", "classes")
"""Options that ``Work`` takes as they are."""


@dataclass(frozen=True)
class Recipe:
    """The options of ``segment``; call it to build the ``Work`` they ask for.

    ``made``: what another process made of the same options; files that were replaced since give something else.
    """

    args: argparse.Namespace
    made: tuple[Any, ...] | None = None

    def __call__(self) -> Work:
        """Load the network and parse its schedule; ``DataError`` if their files are replaced meanwhile."""
        from clockseg.cli.loading import parse_schedules
        from clockseg.networks.load import files_of, load
        from clockseg.segmenting.results import check_writes
        from clockseg.segmenting.work import Work
        from clockseg.showing.kind import kind_of

        given = self.args
        before = SourceFiles(files_of(given.network)).digest
        net = load(given.network, **engine_options(given))
        writes = check_writes(given.write, kind_of(net))
        [(name, schedule)] = parse_schedules(None if given.schedule is None else [given.schedule], net, given.carry)
        size = None if given.size is None else str(given.size)
        setting = {"network": given.network, "digest": self.digest(schedule), "size": size}
        options = {option: getattr(given, option) for option in OPTIONS}
        work = Work(net, schedule, writes, name=name, setting=setting, **options)
        if SourceFiles(files_of(given.network)).digest != before or self.made not in (None, _made(work)):
            raise DataError(
                f"the files of network {given.network} or of its schedule were replaced during the run; "
                "segment again when they no longer change."
            )
        return work

    def pinned(self, work: Work, *, threads: int | None) -> Recipe:
        """Return the recipe for other processes: with the engine of ``work`` and this many threads."""
        engine = work.net.engine.split()[0] if self.args.engine == "auto" else self.args.engine
        return replace(
            self, args=changed(self.args, engine=engine, threads=self.args.threads or threads), made=_made(work)
        )

    def digest(self, schedule: Schedule) -> str:
        """Return a digest of the network's files, its weights and its sidecar included, and of the files of clocks."""
        from clockseg.clockwork.facts import facts, walk
        from clockseg.networks.load import files_of

        clocks = (one for clock in schedule.clocks for one in walk(clock))
        files = dict.fromkeys(file for one in clocks for file in facts(one).files if file.is_file())
        digest = hashlib.sha256()
        for path in (*files_of(self.args.network), *files):
            with path.open("rb") as file:
                while block := file.read(1 << 16):
                    digest.update(block)
        return digest.hexdigest()[:16]


def _made(work: Work) -> tuple[Any, ...]:
    return work.setting, work.name, str(work.schedule.carry)
