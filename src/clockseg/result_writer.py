"""Writing a result folder while the session runs: one writer a kind of file, each frame to all of them."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Protocol

import cv2
import numpy as np

from clockseg._types import Image, Labels
from clockseg.palette import Colour, palette
from clockseg.results import FILES, trace_line
from clockseg.stages import StagedNetwork
from clockseg.trace import Record
from clockseg.video import Clip, Frame, LabelWriter, OverlayWriter, Strip, overlay, write_png
from clockseg.video._part import part_name
from clockseg.video._whole import Whole


class _Writer(Protocol):
    """One kind of file. ``close`` completes it and gives it its name, ``abort`` removes it."""

    def append(self, frame: Frame, labels: Labels, record: Record) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class ResultWriter(Whole):
    """The files of one result; ``append`` is for the thread behind the session.

    ``writes``: kinds of ``FILES``; ``every``: the step between the frames taken; ``limited``: whether the clip goes on
    after the last of them, so that its sound is cut there. Leaving a ``with`` block completes the files, by an
    exception removes them. ``problems``: what of the sound could not be kept.
    """

    def __init__(
        self, folder: Path, clip: Clip, writes: tuple[str, ...], net: StagedNetwork, *, every: int, limited: bool
    ) -> None:
        fps = None if clip.fps is None else clip.fps / every
        self._writers: list[_Writer] = []
        self._overlay: _Overlay | None = None
        self._trace: _Trace | None = None
        try:
            if "labels" in writes:
                self._writers.append(_LabelVideo(LabelWriter(folder / FILES["labels"], fps=fps)))
            if "overlay" in writes:
                self._overlay = _Overlay(folder / FILES["overlay"], clip, net, every=every, limited=limited)
                self._writers.append(self._overlay)
            if "png" in writes:
                self._writers.append(_Pngs(folder / FILES["png"]))
            if "trace" in writes:
                self._trace = _Trace(folder / FILES["trace"])
        except BaseException:
            self.abort()
            raise

    @property
    def problems(self) -> tuple[str, ...]:
        """What of the sound could not be kept, a sentence each."""
        return () if self._overlay is None else self._overlay.video.problems

    def append(self, frame: Frame, labels: Labels, record: Record) -> None:
        """Write one frame; its line of the trace comes last, with the seconds that the rest took."""
        start = time.perf_counter()
        for writer in self._writers:
            writer.append(frame, labels, record)
        if self._trace is not None:
            self._trace.append(frame, record, time.perf_counter() - start)

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


class _LabelVideo:
    def __init__(self, video: LabelWriter) -> None:
        self._video = video
        self.close, self.abort = video.close, video.abort

    def append(self, frame: Frame, labels: Labels, record: Record) -> None:
        self._video.append(labels, frame.pts_seconds)


class _Overlay:
    """The picture with the masks over it, and under it the strip that shows which stages fired."""

    def __init__(self, path: Path, clip: Clip, net: StagedNetwork, *, every: int, limited: bool) -> None:
        fps = None if clip.fps is None else clip.fps / every
        sound = clip.path if clip.has_audio and clip.kind == "video" else None
        self.video = OverlayWriter(path, fps=fps, audio_from=sound)
        self.abort = self.video.abort
        self._stages = [stage.name for stage in net.stages]
        self._palette: tuple[Colour, ...] = (net.sidecar and net.sidecar.palette) or palette(255)
        self._strip: Strip | None = None
        self._limited, self._period_seconds = limited, 0.0 if fps is None else float(1 / fps)
        self._end_seconds: float | None = None

    def append(self, frame: Frame, labels: Labels, record: Record) -> None:
        if self._strip is None:
            self._strip = Strip(frame.size, self._stages)
        drawn, strip = overlay(frame.image, labels, self._palette), self._strip.draw(record.fired, record.fill)
        self.video.append(stacked(drawn, strip), frame.pts_seconds)
        if frame.pts_seconds is not None:
            self._end_seconds = frame.pts_seconds + self._period_seconds

    def close(self) -> None:
        self.video.close(audio_end_seconds=self._end_seconds if self._limited else None)


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


class _Pngs:
    def __init__(self, path: Path) -> None:
        self._path, self._part = path, part_name(path)
        self._part.mkdir(exist_ok=True)

    def append(self, frame: Frame, labels: Labels, record: Record) -> None:
        write_png(labels, self._part / f"{frame.index:06d}.png")

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
