"""Recorder: what a live run leaves in a result folder, written in a thread behind it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from clockseg.clockwork.network import StagedNetwork
from clockseg.evaluation.values import gives_numbers
from clockseg.instances.network import gives_instances
from clockseg.live.channel import Shown
from clockseg.live.source import Source
from clockseg.segmenting.results import FILES, ResultFolder, check_writes
from clockseg.segmenting.writer import ResultWriter, trace_line
from clockseg.video import Background, Clip
from clockseg.video.clip import Header
from clockseg.video.decode import Damage


class Recorder:
    """The result folder of one source: the trace, and what of ``write`` (kinds of files, as of ``segment``) is asked for.

    ``put`` every frame that was run, then ``close`` with the summary: only then the files get their names; or ``abort``.
    Memory does not grow: where the encoder can't keep up, ``put`` waits.
    """

    def __init__(
        self, folder: Path, source: Source, net: StagedNetwork, *, write: Sequence[str] = (), overwrite: bool = False
    ) -> None:
        checked = check_writes(("trace", *write), values=gives_numbers(net), instances=gives_instances(net))
        self._writes = tuple(kind for kind in checked if kind != "trace")  # the trace of a live run has more fields
        self._source, self._net = source, net
        read = Path(source.given if source.kind == "file" else os.devnull)
        self._result = ResultFolder.begin(folder, read, overwrite=overwrite)
        self._made = self._result.part / "live"
        self._background: Background[[Shown]] | None = None

    @property
    def folder(self) -> Path:
        """Folder of the files."""
        return self._result.path

    def put(self, shown: Shown, fps: float) -> None:
        """Write one more frame; ``fps``: the approximate frame rate of the source."""
        if self._background is None:
            self._made.mkdir()
            clip = Clip(
                Path(self._source.stem), Header(fps=Fraction(fps).limit_denominator(1000)), _no_frames, kind="video"
            )
            self._out = ResultWriter(self._made, clip, self._writes, self._net, every=1)
            self._trace = (self._made / FILES["trace"]).open("w")
            self._background = Background(self._append)
        self._background.put(shown)

    def close(self, summary: dict[str, Any]) -> None:
        """Complete the files and rename them into place; without a frame there are none."""
        if self._background is None:
            self.abort()
            return
        try:
            self._background.close()
            self._out.close()
            self._trace.close()
            self._result.publish(self._made, summary)
        except BaseException:
            self.abort()
            raise
        self._background = None

    def abort(self) -> None:
        """Remove the files."""
        if self._background is not None:
            self._background.abort()
            self._out.abort()
            self._trace.close()
        self._result.abandon()

    def _append(self, shown: Shown) -> None:
        start = time.perf_counter()
        self._out.append(shown.frame, shown.output, shown.record)
        line = trace_line(shown.frame, shown.record, encode_seconds=time.perf_counter() - start)
        times = {
            "arrived_seconds": round(shown.arrived_seconds, 6),
            "latency_seconds": None if shown.latency_seconds is None else round(shown.latency_seconds, 6),
            "dropped": shown.dropped,
        }
        self._trace.write(json.dumps(json.loads(line) | times) + "\n")


def _no_frames(damage: Damage) -> Iterator[Any]:
    return iter(())
