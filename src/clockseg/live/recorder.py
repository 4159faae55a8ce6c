"""Writes the result folder of a live source, in a thread."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from clockseg.clockwork.network import StagedNetwork
from clockseg.live.channel import Shown
from clockseg.live.source import Source
from clockseg.segmenting.results import ResultFolder, check_writes
from clockseg.segmenting.writer import ResultWriter
from clockseg.showing.kind import kind_of
from clockseg.video import Background


class Recorder:
    """The result folder of one source, with its trace and the kinds of files in ``write`` (as of ``segment``).

    ``put`` every frame that was run, then ``close`` with the summary, which gives the files their names, or ``abort``. If the
    encoder can't keep up, ``put`` waits, so that memory does not grow.
    """

    def __init__(
        self, folder: Path, source: Source, net: StagedNetwork, *, write: Sequence[str] = (), overwrite: bool = False
    ) -> None:
        self._writes = check_writes(("trace", *write), kind_of(net))
        self._net = net
        read = Path(source.given if source.kind == "file" else os.devnull)
        self._result = ResultFolder.begin(folder, read, overwrite=overwrite)
        self._made = self._result.part / "live"
        self._open = ExitStack()
        self._background: Background[[Shown]] | None = None

    @property
    def folder(self) -> Path:
        """Folder of the files."""
        return self._result.path

    def put(self, shown: Shown, fps: float) -> None:
        """Write one more frame; ``fps``: the approximate frame rate of the source."""
        if self._background is None:
            self._made.mkdir()
            out = ResultWriter(self._made, self._writes, self._net, fps=Fraction(fps).limit_denominator(1000))
            writing = Background(partial(_append, self._open.enter_context(out)))
            self._background = self._open.enter_context(writing)
        self._background.put(shown)

    def close(self, summary: dict[str, Any]) -> None:
        """Complete the files and rename them into place; without a frame there are none."""
        try:
            self._open.close()
            if self._background is not None:
                self._result.publish(self._made, summary)
        finally:
            # Nothing is left to remove where the files got their names.
            self._result.abandon()

    def abort(self) -> None:
        """Remove the files."""
        aborted = RuntimeError("aborted")
        self._open.__exit__(type(aborted), aborted, None)
        self._result.abandon()


def _append(out: ResultWriter, shown: Shown) -> None:
    times = {
        "arrived_seconds": round(shown.arrived_seconds, 6),
        "latency_seconds": None if shown.latency_seconds is None else round(shown.latency_seconds, 6),
        "dropped": shown.dropped,
    }
    out.append(shown.frame, shown.output, shown.record, times)
