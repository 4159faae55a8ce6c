"""Output files: timestamps, temporary names until a file is complete, and cleanup after failures."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import av
from av.container import OutputContainer

from clockseg.errors import VideoError
from clockseg.files import whole
from clockseg.types import Size
from clockseg.video.decode import reason

BACKWARDS_SECONDS = 1
"""A longer jump back is taken for a transition between joined recordings."""


class Timestamps:
    """Assigns each frame a strictly increasing time in units of ``time_base``.

    A frame without a time comes where the one before ends: after its duration, else one frame period (1 / ``fps``). A time
    not after the one before becomes the next unit; one that jumps back by over a second (joined recordings) comes there too,
    and those after it are moved alike; so are all if the first is before 0, which containers can't say.
    """

    def __init__(self, time_base: Fraction, *, fps: Fraction | None) -> None:
        self.time_base = time_base
        self.period = 1 / (fps or Fraction(25))
        self._shift = Fraction(0)
        self._seconds: Fraction | None = None
        self._units: int | None = None
        self._duration_seconds: float | None = None

    @property
    def last_duration(self) -> int:
        """Duration of the last frame in units of the time base, at least one: as given, else one period."""
        return max(1, round(Fraction(self._duration_seconds or self.period) / self.time_base))

    def next(self, pts_seconds: float | None, duration_seconds: float | None = None) -> int:
        """Return the time of the next frame in units of the time base; ``duration_seconds``: its duration, if known."""
        self._seconds = self._place(pts_seconds)
        self._duration_seconds = duration_seconds
        units = round(self._seconds / self.time_base)
        self._units = units if self._units is None else max(units, self._units + 1)
        return self._units

    def _place(self, pts_seconds: float | None) -> Fraction:
        if self._seconds is None:
            first = Fraction(pts_seconds or 0)
            self._shift = max(-first, Fraction(0))
            return first + self._shift
        following = self._seconds + Fraction(self._duration_seconds or self.period)
        if pts_seconds is None:
            return following
        seconds = Fraction(pts_seconds) + self._shift
        if self._seconds - seconds > BACKWARDS_SECONDS:
            self._shift += following - seconds
            return following
        return seconds


class CloseOrAbort(ABC):
    """Leaving a ``with`` block closes; leaving it by an exception aborts, and so does a ``close`` that fails."""

    @abstractmethod
    def close(self) -> None:
        """Complete the work."""

    @abstractmethod
    def abort(self) -> None:
        """Remove everything that was done."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            return self.abort()
        try:
            self.close()
        except BaseException:
            self.abort()
            raise


class Container(NamedTuple):
    """A container format with its options, and the seconds of its unit of time: as it counts, and as FFmpeg's muxer is told."""

    name: str
    options: dict[str, str]
    unit: Fraction
    told: Fraction


CONTAINERS = {
    # FFmpeg's muxer knows milliseconds only: it is given microseconds as if they were, and the unit in the file is corrected.
    ".mkv": Container("matroska", {}, Fraction(1, 1_000_000), Fraction(1, 1000)),
    # The index in front; and the movie's clock as fine as the pictures', or the time of the first is rounded.
    ".mp4": Container(
        "mp4", {"movflags": "+faststart", "movie_timescale": "90000"}, Fraction(1, 90_000), Fraction(1, 90_000)
    ),
}
# Matroska's TimestampScale, in nanoseconds, as FFmpeg writes it near the beginning.
_MILLISECONDS, _MICROSECONDS = bytes.fromhex("2ad7b1830f4240"), bytes.fromhex("2ad7b1830003e8")
_HEAD_BYTES = 4096


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise errors of the system or FFmpeg while writing as a VideoError that names the file."""
    try:
        yield
    except VideoError:
        raise
    except (av.FFmpegError, OSError) as error:
        raise VideoError(
            f"{path}: cannot be written ({reason(error)}). Give a folder that can be written and has room."
        ) from error


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """Combine ``clockseg.files.whole`` and ``writing``."""
    with writing(path), whole(path) as part:
        yield part


@contextmanager
def partial_file(path: Path, ending: str) -> Iterator[OutputContainer]:
    """Yield a container of ``CONTAINERS``; the file gets its name where the block ends well, and is removed otherwise.

    VideoError if it can't be written.
    """
    kind = CONTAINERS[ending]
    with written(path) as temporary:
        # FFmpeg opens the file only at the first packet; better to fail now.
        temporary.open("wb").close()
        # No random identifiers and no version strings: the same input gives the same bytes.
        options = {"fflags": "+bitexact", **kind.options}
        container: OutputContainer = av.open(f"file:{temporary}", "w", format=kind.name, container_options=options)
        try:
            yield container
        except BaseException:
            with suppress(av.FFmpegError, OSError):
                container.close()
            raise
        container.close()
        if kind.unit != kind.told:
            with temporary.open("r+b") as file:
                file.seek(file.read(_HEAD_BYTES).index(_MILLISECONDS))
                file.write(_MICROSECONDS)


class FrameWriter(CloseOrAbort):
    """A video file with one stream, which starts with the first frame; without any frame there is no file.

    ``fps``: the rate of frames without a time (None: 25); ``size``: (w, h) of all frames, None: of the first one.
    ``_ending``: of ``CONTAINERS``.
    """

    _ending: str

    def __init__(
        self, path: str | os.PathLike[str], *, fps: Fraction | float | None = None, size: Size | None = None
    ) -> None:
        self._path, self._kind, self._size = Path(path), CONTAINERS[self._ending], size
        self._fps = Fraction(fps or 25).limit_denominator(100_000)
        self._stream: av.VideoStream | None = None
        self._open = ExitStack()
        self._container = self._open.enter_context(partial_file(self._path, self._ending))
        self._times = Timestamps(self._kind.unit, fps=self._fps)

    def _started(self, codec: str, pixels: str, size: Size, *, options: dict[str, str], threads: int) -> av.VideoStream:
        """Add the stream."""
        stream: av.VideoStream = self._container.add_stream(codec, rate=self._fps, options=options)
        stream.width, stream.height = size
        stream.pix_fmt = pixels
        stream.codec_context.time_base, stream.codec_context.thread_count = self._kind.told, threads
        return stream

    def _put(self, frame: av.VideoFrame, pts_seconds: float | None, duration_seconds: float | None) -> None:
        frame.pts, frame.time_base = self._times.next(pts_seconds, duration_seconds), self._kind.told
        self._mux(frame)

    def _mux(self, frame: av.VideoFrame | None) -> None:
        for packet in () if self._stream is None else self._stream.encode(frame):
            # The last frame's duration would otherwise be lost, and the file end a frame early.
            packet.duration = self._times.last_duration
            self._container.mux(packet)

    def close(self) -> None:
        """Complete the file and give it its name."""
        if self._stream is None:
            self.abort()
            return
        with writing(self._path):
            self._mux(None)
        self._open.close()

    def abort(self) -> None:
        """Remove what was written; an older file of the same name stays as it was."""
        aborted = RuntimeError("aborted")
        self._open.__exit__(type(aborted), aborted, None)
