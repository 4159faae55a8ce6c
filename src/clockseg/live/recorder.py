"""Recorder: what a live run leaves in a result folder, written in a thread behind it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from clockseg.clockwork.network import StagedNetwork
from clockseg.evaluation.values import gives_numbers
from clockseg.live.channel import Shown
from clockseg.live.source import Source
from clockseg.segmenting.results import FILES, ResultFolder, check_writes
from clockseg.segmenting.writer import ResultWriter, trace_line
from clockseg.video import Background, Clip
from clockseg.video.clip import Header


class Recorder:
    """The result folder of one source: the trace, and what of ``write`` (kinds of files, as of ``segment``) is asked for.

    ``put`` every frame that was run, then ``close`` with the summary: only then the files get their names; or ``abort``.
    Memory does not grow: where the encoder can't keep up, ``put`` waits.
    """

    def __init__(
        self, folder: Path, source: Source, net: StagedNetwork, *, write: Sequence[str] = (), overwrite: bool = False
    ) -> None:
        self._writes = check_writes(("trace", *write), values=gives_numbers(net))
        self._source, self._net = source, net
        read = Path(source.given if source.kind == "file" else os.devnull)
        self._result = ResultFolder.begin(folder, read, overwrite=overwrite)
        self._made = self._result.part / "live"
        self._files: _Files | None = None

    @property
    def folder(self) -> Path:
        """Folder of the files."""
        return self._result.path

    def put(self, shown: Shown, fps: float) -> None:
        """One more frame; ``fps``: how many come a second, about."""
        if self._files is None:
            self._made.mkdir()
            header = Header(fps=Fraction(fps).limit_denominator(1000))
            clip = Clip(Path(self._source.stem), header, lambda damage: iter(()), kind="video")
            self._files = _Files(self._made, clip, self._writes, self._net)
        self._files.put(shown)

    def close(self, summary: dict[str, Any]) -> None:
        """Complete the files and give them their names; without a frame there are none."""
        if self._files is None:
            self.abort()
            return
        try:
            self._files.close()
            self._result.publish(self._made, summary)
            self._files = None
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        """Remove what was written."""
        if self._files is not None:
            self._files.abort()
        self._result.abandon()


class _Files:
    """The files of one source and the thread that writes them."""

    def __init__(self, made: Path, clip: Clip, writes: Sequence[str], net: StagedNetwork) -> None:
        self._out = ResultWriter(made, clip, tuple(kind for kind in writes if kind != "trace"), net, every=1)
        self._trace = (made / FILES["trace"]).open("w")
        self._background = Background(self._append)
        self.put = self._background.put

    def close(self) -> None:
        self._background.close()
        self._out.close()
        self._trace.close()

    def abort(self) -> None:
        self._background.abort()
        self._out.abort()
        self._trace.close()

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
