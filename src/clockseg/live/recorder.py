"""Writes the result folder of a live source, in a thread."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.trace import Record
from clockseg.live.channel import Shown
from clockseg.live.source import Source
from clockseg.segmenting.results import ResultFolder, check_writes
from clockseg.segmenting.writer import ResultWriter
from clockseg.showing.kind import kind_of
from clockseg.video import Background, Frame


class Recorder:
    """The result folder of one source, with its trace and the kinds of files in ``write`` (as of ``segment``).

    ``put`` every frame that was run, then ``publish``. If the encoder can't keep up, ``put`` waits, so that memory does not
    grow. Leaving a ``with`` block removes what was not published.
    """

    def __init__(
        self, folder: Path, source: Source, net: StagedNetwork, *, write: Sequence[str] = (), overwrite: bool = False
    ) -> None:
        self._writes = check_writes(("trace", *write), kind_of(net))
        self._net = net
        read = Path(source.given if source.kind == "file" else os.devnull)
        ResultFolder(folder).check_free(overwrite=overwrite)
        self._result = ResultFolder.begin(folder, read)
        self._made = self._result.part / "live"
        self._open = ExitStack()
        self._writing: Background[Frame, Any, Record, Mapping[str, Any]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        try:
            self._open.__exit__(*raised)
        finally:
            self._result.abandon()

    def put(self, shown: Shown, fps: float) -> None:
        """Write one more frame; ``fps``: the approximate frame rate of the source."""
        if self._writing is None:
            self._made.mkdir()
            out = ResultWriter(self._made, self._writes, self._net, fps=Fraction(fps).limit_denominator(1000))
            self._writing = self._open.enter_context(Background(self._open.enter_context(out).append))
        latency = shown.latency_seconds
        times = {
            "arrived_seconds": round(shown.arrived_seconds, 6),
            "latency_seconds": None if latency is None else round(latency, 6),
            "dropped": shown.dropped,
        }
        self._writing.put(shown.frame, shown.output, shown.record, times)

    def publish(self, summary: Mapping[str, Any]) -> Path | None:
        """Complete the files, rename them into place, and return their folder; None if there was no frame."""
        if self._writing is None:
            return None
        self._open.close()
        self._result.publish(self._made, dict(summary))
        return self._result.path
