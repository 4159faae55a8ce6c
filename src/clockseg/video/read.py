"""Clip: the frames of a video file, an image or a folder of images."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Literal, Self

import av
from av.container import InputContainer

from clockseg._errors import VideoError
from clockseg._types import Image
from clockseg.carry.vectors import Vectors
from clockseg.video._colour import ToRGB
from clockseg.video._decode import ALLOWED, Damage, checked_stream, open_input, pictures, reason, video_stream
from clockseg.video._still import still
from clockseg.video._vectors import OPTIONS, THREADS, exports, vectors_of
from clockseg.video.frame import Frame

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
MAX_PIXELS = 64_000_000


@dataclass(frozen=True)
class _Header:
    """What the container says of itself: hints, none of them relied on."""

    fps: Fraction | None = None
    frames: int | None = None
    duration_seconds: float | None = None
    has_audio: bool = False


class Clip:
    """The frames of one input, in order; iterate as often as you like, each pass decodes afresh.

    ``name`` (the stem), ``path``, ``kind`` ("video" or "images"), ``fps`` (average, None if unknown), ``frames_hint``
    (an estimate for a progress bar), ``duration_seconds``, ``has_audio``; ``size`` (w, h) of the first frame. After a
    pass ``problems`` says what could not be decoded; it is empty if all was well. Iterating raises VideoError only if
    not one frame can be decoded. Made by :func:`open_clip`.
    """

    def __init__(
        self,
        path: Path,
        files: Sequence[Path],
        header: _Header,
        *,
        kind: Literal["video", "images"],
        max_pixels: int,
        vectors: bool = False,
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
        self._files = files
        self._max_pixels = max_pixels
        self._vectors = vectors
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

    @cached_property
    def size(self) -> tuple[int, int]:
        """(width, height) of the first frame, upright; decodes that frame. VideoError if there is none."""
        for frame in self._frames(Damage()):
            return frame.size
        raise self._shut()

    def _frames(self, damage: Damage) -> Iterator[Frame]:
        start = perf_counter()
        for index, image, pts, time_base, vectors in self._images(damage):
            if self._closed:
                return
            yield Frame(index, image, pts, time_base, perf_counter() - start, vectors)
            start = perf_counter()
        if not damage.frames:
            raise self._no_frame(damage)

    def _images(self, damage: Damage) -> Iterator[tuple[int, Image, int | None, Fraction | None, Vectors | None]]:
        to_rgb = ToRGB(self._max_pixels)
        if self.kind == "images":
            stills = (still(file, to_rgb, damage) for file in self._files)
            # A broken file leaves a gap in the numbers, so that frame k is the k-th file.
            yield from ((index, image, None, None, None) for index, image in enumerate(stills) if image is not None)
            return
        with open_input(self.path, max_pixels=self._max_pixels) as container:
            best = video_stream(container)
            asked = self._vectors and best is not None and exports(best)
            stream = checked_stream(self.path, container, self._max_pixels, OPTIONS if asked else None)
            threads = THREADS if asked else "AUTO"
            for index, picture in enumerate(pictures(container, stream, damage, threads=threads)):
                try:
                    image = to_rgb(picture)
                except (av.FFmpegError, ValueError, VideoError) as error:
                    damage.frames -= 1
                    damage.stopped = reason(error)
                    return
                vectors = vectors_of(picture, index, stream) if asked else None
                yield index, image, picture.pts, picture.time_base or stream.time_base, vectors

    def _shut(self) -> VideoError:
        return VideoError(f"{self.path}: the clip is closed. Open it again with open_clip.")

    def _no_frame(self, damage: Damage) -> VideoError:
        why = "; ".join(text for text in damage.sentences() if "ends at" not in text)
        return VideoError(f"{self.path}: no frame in it could be decoded{f' ({why})' if why else ''}. {ALLOWED}")


def open_clip(path: str | os.PathLike[str], *, max_pixels: int = MAX_PIXELS, vectors: bool = False) -> Clip:
    """Opens a video file, an image, or a folder of images (one clip, in natural order) as a :class:`Clip`.

    Pictures of more than ``max_pixels`` are refused before they are decoded. ``vectors``: frames bring what the codec says of
    their motion, where its decoder tells (H.264, MPEG-4, MPEG-2; not HEVC, VP9, AV1); decoding is slower. VideoError if
    there is nothing to decode: missing, empty, unreadable, no media, audio only.

    >>> open_clip("no-such-file.mp4")
    Traceback (most recent call last):
        ...
    clockseg._errors.VideoError: no-such-file.mp4: no such file or folder. Give a video file, an image or a folder of images.
    """
    path = Path(path)
    if path.is_dir():
        return _open_folder(path, max_pixels)
    _check_file(path)
    try:
        with open_input(path, max_pixels=max_pixels) as container:
            return _open_file(path, container, max_pixels, vectors)
    except av.FFmpegError as error:
        raise VideoError(f"{path}: not a video that can be read ({reason(error)}). {ALLOWED}") from error


def _open_file(path: Path, container: InputContainer, max_pixels: int, vectors: bool) -> Clip:
    stream = checked_stream(path, container, max_pixels)
    if container.format.name == "image2" or container.format.name.endswith("_pipe"):
        return Clip(path, [path], _Header(frames=1), kind="images", max_pixels=max_pixels)
    header = _header(container, stream)
    return Clip(path, [path], header, kind="video", max_pixels=max_pixels, vectors=vectors)


def _open_folder(path: Path, max_pixels: int) -> Clip:
    try:
        files = [
            p
            for p in path.iterdir()
            if p.suffix.lower() in IMAGE_SUFFIXES and not p.name.startswith(".") and p.is_file()
        ]
    except OSError as error:
        raise VideoError(f"{path}: cannot be read ({error.strerror}). {ALLOWED}") from error
    if not files:
        suffixes = " ".join(suffix[1:] for suffix in IMAGE_SUFFIXES)
        raise VideoError(
            f"{path}: no image in this folder ({suffixes}). A folder is one clip of images; name videos one by one."
        )
    files.sort(key=lambda file: natural_key(file.name))
    return Clip(path, files, _Header(frames=len(files)), kind="images", max_pixels=max_pixels)


def _check_file(path: Path) -> None:
    """VideoError unless the path is a readable file with something in it."""
    try:
        with path.open("rb") as file:
            empty = not file.read(1)
    except FileNotFoundError as error:
        raise VideoError(f"{path}: no such file or folder. {ALLOWED}") from error
    except (OSError, ValueError) as error:
        raise VideoError(f"{path}: cannot be read ({reason(error)}). {ALLOWED}") from error
    if empty:
        raise VideoError(f"{path}: the file is empty. {ALLOWED}")


def _header(container: InputContainer, stream: av.VideoStream) -> _Header:
    fps = stream.average_rate or stream.guessed_rate or stream.base_rate
    duration = None
    if stream.duration is not None and stream.time_base is not None:
        duration = float(stream.duration * stream.time_base)
    elif container.duration is not None:
        duration = container.duration / av.time_base
    frames = stream.frames or (round(duration * fps) if duration and fps else None)
    return _Header(fps or None, frames, duration, bool(container.streams.audio))


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Sorts names as people count: numbers in them by value.

    >>> sorted(["b10.png", "b9.png", "a.png"], key=natural_key)
    ['a.png', 'b9.png', 'b10.png']
    """
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return [(0, int(part), part) if part[0].isdigit() else (1, 0, part) for part in parts]
