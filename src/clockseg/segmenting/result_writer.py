"""Writing the files of a piece while its session runs: one writer a kind of file, each frame to all of them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Protocol

import cv2
import numpy as np

from clockseg.clockwork.network import StagedNetwork
from clockseg.clockwork.trace import Record
from clockseg.evaluation.values import gives_numbers
from clockseg.files import part_name
from clockseg.segmenting.results import FILES
from clockseg.segmenting.trace_line import trace_line
from clockseg.types import Array, Image, Size
from clockseg.video import (
    Clip,
    Frame,
    Heat,
    LabelWriter,
    OverlayWriter,
    Strip,
    ValueWriter,
    overlay,
    write_npy,
    write_png,
)
from clockseg.video.maps import LARGEST
from clockseg.video.output import Whole
from clockseg.video.overlay import palette

THREADS = 2
"""Of the overlay's encoder, on every machine: what it writes depends on their number."""


class _Writer(Protocol):
    """One kind of file. ``close`` completes it and gives it its name, ``abort`` removes it."""

    def append(self, frame: Frame, output: Array, record: Record) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class ResultWriter(Whole):
    """The files of one piece; ``append`` is for the thread behind the session.

    ``writes``: kinds of ``FILES``; ``every``: the step between the frames taken; ``size``: (w, h) of the whole video's first
    frame, which its label maps and pictures are brought to (None: of the first one here). Leaving a ``with`` block
    completes the files, by an exception removes them. ``problems``: what of the numbers could not be kept.
    ``end_seconds``: when the last frame taken ends, None where frames have no times.
    """

    def __init__(
        self,
        folder: Path,
        clip: Clip,
        writes: tuple[str, ...],
        net: StagedNetwork,
        *,
        every: int,
        size: Size | None = None,
    ) -> None:
        fps = None if clip.fps is None else clip.fps / every
        self.end_seconds: float | None = None
        self._every, self._period_seconds = every, 0.0 if fps is None else float(1 / fps)
        self._writers: list[_Writer] = []
        self._values: ValueWriter | None = None
        self._trace: _Trace | None = None
        try:
            if "labels" in writes:
                self._writers.append(_Video(LabelWriter(folder / FILES["labels"], fps=fps, size=size)))
            if "values" in writes:
                self._values = ValueWriter(folder / FILES["values"], fps=fps, size=size)
                self._writers.append(_Video(self._values))
            if "overlay" in writes:
                self._writers.append(_Overlay(folder / FILES["overlay"], fps, net, size))
            if "png" in writes:
                self._writers.append(_Pictures(folder / FILES["png"], write_png))
            if "npy" in writes:
                self._writers.append(_Pictures(folder / FILES["npy"], write_npy))
            if "trace" in writes:
                self._trace = _Trace(folder / FILES["trace"])
        except BaseException:
            self.abort()
            raise

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be kept as it was, a sentence each."""
        clipped = 0 if self._values is None else self._values.clipped
        return (f"{clipped} numbers were too large for values.mkv and are {LARGEST:g} there",) if clipped else ()

    def append(self, frame: Frame, output: Array, record: Record) -> None:
        """Write one frame; its line of the trace comes last, with the seconds that the rest took."""
        start = time.perf_counter()
        if self._every > 1:
            # It is shown until the next one taken, however long it lasted itself.
            frame = replace(frame, duration=None)
        for writer in self._writers:
            writer.append(frame, output, record)
        if self._trace is not None:
            self._trace.append(frame, record, time.perf_counter() - start)
        if frame.pts_seconds is not None:
            self.end_seconds = frame.pts_seconds + (frame.duration_seconds or self._period_seconds)

    def close(self) -> None:
        """Complete the files and give them their names."""
        for writer in self._writers:
            writer.close()
        if self._trace is not None:
            self._trace.close()

    def abort(self) -> None:
        """Remove what was written."""
        for writer in self._writers:
            writer.abort()
        if self._trace is not None:
            self._trace.abort()


class _Video:
    def __init__(self, video: LabelWriter | ValueWriter) -> None:
        self._video = video
        self.close, self.abort = video.close, video.abort

    def append(self, frame: Frame, output: Array, record: Record) -> None:
        self._video.append(output, frame.pts_seconds, duration_seconds=frame.duration_seconds)


class _Overlay:
    """The picture with the masks or numbers over it, and under it the strip that shows which stages fired."""

    def __init__(self, path: Path, fps: Fraction | None, net: StagedNetwork, size: Size | None) -> None:
        self._stages = [stage.name for stage in net.stages]
        self._strip = None if size is None else Strip(size, self._stages)
        high = None if self._strip is None or size is None else (size[0], size[1] + self._strip.height)
        self._video = OverlayWriter(path, fps=fps, threads=THREADS, size=high)
        self.close, self.abort = self._video.close, self._video.abort
        colours = (net.sidecar and net.sidecar.palette) or palette(255)
        self._draw: Callable[[Image, Array], Image] = (
            Heat() if gives_numbers(net) else partial(overlay, palette=colours)
        )

    def append(self, frame: Frame, output: Array, record: Record) -> None:
        if self._strip is None:
            self._strip = Strip(frame.size, self._stages)
        drawn, strip = self._draw(frame.image, output), self._strip.draw(record.fired, record.fill)
        self._video.append(
            stacked(drawn, strip),
            frame.pts_seconds,
            duration_seconds=frame.duration_seconds,
            pixel_aspect=frame.pixel_aspect,
        )


def stacked(picture: Image, strip: Image) -> Image:
    """The strip under the picture; a picture of another width (the frames changed their size) is scaled to it.

    >>> stacked(np.zeros((10, 20, 3), np.uint8), np.zeros((4, 40, 3), np.uint8)).shape
    (24, 40, 3)
    """
    width = strip.shape[1]
    if picture.shape[1] != width:
        height = max(1, round(picture.shape[0] * width / picture.shape[1]))
        picture = np.asarray(cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
    return np.concatenate([picture, strip])


class _Pictures:
    """A file a frame, by ``write(output, path)``; their ending is the folder's name."""

    def __init__(self, path: Path, write: Callable[[Array, Path], None]) -> None:
        self._path, self._part, self._write = path, part_name(path), write
        self._part.mkdir(exist_ok=True)

    def append(self, frame: Frame, output: Array, record: Record) -> None:
        self._write(output, self._part / f"{frame.index:06d}.{self._path.name}")

    def close(self) -> None:
        self._part.replace(self._path)

    def abort(self) -> None:
        shutil.rmtree(self._part, ignore_errors=True)


class _Trace:
    def __init__(self, path: Path) -> None:
        self._path, self._part = path, part_name(path)
        self._file = self._part.open("w")

    def append(self, frame: Frame, record: Record, encode_seconds: float) -> None:
        self._file.write(trace_line(frame, record, encode_seconds=encode_seconds) + "\n")

    def close(self) -> None:
        self._file.close()
        self._part.replace(self._path)

    def abort(self) -> None:
        self._file.close()
        self._part.unlink(missing_ok=True)
