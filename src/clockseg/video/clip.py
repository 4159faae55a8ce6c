"""Clip: the frames of a video file, an image or a folder of images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Literal, Self

import av
from av.container import InputContainer

from clockseg._errors import VideoError
from clockseg._types import Image, Size
from clockseg.carry.vectors import Vectors
from clockseg.video._colour import ToRGB, display_matrix, turned
from clockseg.video._decode import ALLOWED, Damage, checked_stream, open_input, pictures, reason, video_stream
from clockseg.video._spanned import place_for, within
from clockseg.video._still import still
from clockseg.video._vectors import OPTIONS, THREADS, exports, vectors_of
from clockseg.video.frame import Frame
from clockseg.video.span import Span


@dataclass(frozen=True)
class Header:
    """What the container says of itself: hints, none of them relied on."""

    fps: Fraction | None = None
    frames: int | None = None
    duration_seconds: float | None = None
    has_audio: bool = False
    pixel_aspect: Fraction = Fraction(1)


class Clip:
    """The frames of one input, in order; iterate as often as you like, each pass decodes afresh.

    ``name`` (the stem), ``path``, ``kind`` ("video" or "images"), ``fps`` (average, None if unknown), ``frames_hint``
    (an estimate for a progress bar), ``duration_seconds``, ``has_audio``; ``size`` (w, h) and ``pixel_aspect`` of the first
    frame. After a
    pass ``problems`` says what could not be decoded; it is empty if all was well. Iterating raises VideoError only if
    not one frame can be decoded. Made by :func:`open_clip`.
    """

    def __init__(
        self,
        path: Path,
        files: Sequence[Path],
        header: Header,
        *,
        kind: Literal["video", "images"],
        max_pixels: int,
        vectors: bool = False,
        span: Span | None = None,
        stream: int | None = None,
    ) -> None:
        self.path = path
        self.kind: Literal["video", "images"] = kind
        # "." and ".." have no name of their own; a link keeps the name it was given by.
        named = path.resolve() if path.name in ("", "..") else path
        self.name = named.name if path.is_dir() else named.stem
        self.fps = header.fps
        self.frames_hint = header.frames
        self.duration_seconds = header.duration_seconds
        self.has_audio = header.has_audio
        self._pixel_aspect = header.pixel_aspect
        self._files = files
        self._max_pixels = max_pixels
        self._vectors = vectors
        self._span, self._stream = span or Span(), stream
        self._damage = Damage()
        self._closed = False

    def __iter__(self) -> Iterator[Frame]:
        if self._closed:
            raise self._shut()
        self._damage = Damage()
        return self._frames(self._damage)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends a pass that is under way, in whatever thread, at its next frame."""
        self._closed = True

    @property
    def problems(self) -> tuple[str, ...]:
        """What the last pass could not decode, a sentence each."""
        return self._damage.sentences()

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) of the first frame, upright; decodes that frame. VideoError if there is none."""
        return self._first[0]

    @property
    def pixel_aspect(self) -> Fraction:
        """The width of a pixel by its height, of the first frame, upright; decodes that frame."""
        return self._first[1]

    @cached_property
    def _first(self) -> tuple[Size, Fraction]:
        for frame in self._frames(Damage()):
            return frame.size, frame.pixel_aspect
        raise self._shut()

    def _frames(self, damage: Damage) -> Iterator[Frame]:
        start = perf_counter()
        for frame in self._stills(damage) if self.kind == "images" else self._decoded(damage):
            if self._closed:
                return
            yield replace(frame, decode_seconds=perf_counter() - start)
            start = perf_counter()
        if not damage.frames:
            raise self._no_frame(damage)

    def _stills(self, damage: Damage) -> Iterator[Frame]:
        to_rgb = ToRGB(self._max_pixels)
        images = (still(file, to_rgb, damage) for file in self._files)
        # A broken file leaves a gap in the numbers, so that frame k is the k-th file.
        yield from (Frame(index, image) for index, image in enumerate(images) if image is not None)

    def _decoded(self, damage: Damage) -> Iterator[Frame]:
        to_rgb = ToRGB(self._max_pixels)
        place = None if self._span.start is None else place_for(self._opened, self._span.start)
        with self._opened() as (container, stream):
            if place is not None:
                container.seek(place, stream=stream)
            asked = self._vectors and exports(stream)
            found = pictures(container, stream, damage, threads=THREADS if asked else "AUTO")
            if self._span != Span():
                found = within(found, self._span, damage, period=1 / (self.fps or Fraction(25)))
            for index, picture in enumerate(found):
                try:
                    image = to_rgb(picture)
                except (av.FFmpegError, ValueError, VideoError) as error:
                    damage.frames -= 1
                    damage.stopped = reason(error)
                    return
                vectors = vectors_of(picture, index, stream) if asked else None
                yield self._frame(index, image, picture, stream, vectors)

    def _frame(
        self, index: int, image: Image, picture: av.VideoFrame, stream: av.VideoStream, vectors: Vectors | None
    ) -> Frame:
        aspect = 1 / self._pixel_aspect if turned(display_matrix(picture)) else self._pixel_aspect
        base = picture.time_base or stream.time_base
        return Frame(
            index, image, picture.pts, base, vectors=vectors, duration=picture.duration or None, pixel_aspect=aspect
        )

    @contextmanager
    def _opened(self) -> Iterator[tuple[InputContainer, av.VideoStream]]:
        """The file opened anew, and the stream to decode."""
        with open_input(self.path, max_pixels=self._max_pixels) as container:
            wanted = video_stream(container, self._stream)
            options = OPTIONS if self._vectors and wanted is not None and exports(wanted) else None
            yield container, checked_stream(self.path, container, self._max_pixels, options, number=self._stream)

    def _shut(self) -> VideoError:
        return VideoError(f"{self.path}: the clip is closed. Open it again with open_clip.")

    def _no_frame(self, damage: Damage) -> VideoError:
        why = "; ".join(text for text in damage.sentences() if "ends at" not in text)
        if self._span != Span():
            return VideoError(
                f"{self.path}: no frame in it {self._span}{f' ({why})' if why else ''}. Give another part."
            )
        return VideoError(f"{self.path}: no frame in it could be decoded{f' ({why})' if why else ''}. {ALLOWED}")
