"""Opening of a video file, an image or a folder of images as a clip."""

from __future__ import annotations

import os
import re
import stat
from functools import partial
from itertools import islice
from pathlib import Path

import av
from av.container import InputContainer

from clockseg.errors import UsageError, VideoError
from clockseg.files import MAX_PIXELS, SourceFiles
from clockseg.video.clip import WHOLE, Clip, Header, Span
from clockseg.video.decode import ALLOWED, checked_stream, open_input, reason
from clockseg.video.movie import Movie
from clockseg.video.stills import is_animated_webp, pages, stills

_IMAGES = "avif bmp dib dpx hdr j2k jfif jp2 jpe jpeg jpg pbm pcx pfm pgm png pnm ppm qoi ras sgi tga tif tiff webp xwd"
IMAGE_SUFFIXES = tuple(f".{name}" for name in _IMAGES.split())
"""Suffixes of images in a folder; any other image can be given by its name."""
MOST_FOLDERS = 1000
"""Subfolders in which images are looked for, to name one in the error of a folder without images."""


def open_clip(
    path: str | os.PathLike[str],
    *,
    max_pixels: int = MAX_PIXELS,
    vectors: bool = False,
    span: Span | None = None,
) -> Clip:
    """Open a video file, an image, or a folder of images (one clip, in natural order) as a :class:`Clip`.

    Pictures of more than ``max_pixels`` are refused before they are decoded. ``vectors``: frames bring what the codec says of
    their motion, where its decoder tells (H.264, MPEG-4, MPEG-2; not HEVC, VP9, AV1); decoding is slower. ``span``: the part
    of a video to decode, from the key frame before it where the container can seek, else from the beginning; frame 0 is then
    its first. Of several video streams FFmpeg's choice of the best is decoded. VideoError if there is nothing to decode:
    missing, empty, unreadable, no media, audio only; UsageError for a span of images, which have no times.

    >>> open_clip("no-such-file.mp4")
    Traceback (most recent call last):
        ...
    clockseg.errors.VideoError: no-such-file.mp4: no such file or folder. Give a video file, an image or a folder of images.
    """
    path, span = Path(path), span or WHOLE
    if path.is_dir():
        _check_timed(path, span)
        return _images(path, image_files(path), max_pixels)
    # Before anything is read: what is replaced from now on is noticed.
    files = SourceFiles([path])
    _check_file(path)
    try:
        with open_input(path, max_pixels=max_pixels) as container:
            header = _header(container, checked_stream(path, container, max_pixels), span)
            form = container.format.name
    except av.FFmpegError as error:
        raise VideoError(f"{path}: not a video that can be read ({reason(error)}). {ALLOWED}") from error
    if form == "image2" or form.endswith("_pipe"):
        if form == "webp_pipe" and is_animated_webp(path):
            raise VideoError(f"{path}: animated WebP needs PyAV 19 or newer (Python 3.12): pip install -U av")
        _check_timed(path, span)
        return _images(path, [path], max_pixels)
    movie = Movie(path, max_pixels, header.fps, vectors=vectors, span=span)
    return Clip(path, header, movie.frames, files=files, kind="video", span=span)


def _images(path: Path, files: list[Path], max_pixels: int) -> Clip:
    sources = SourceFiles(files)
    source = partial(stills, files, max_pixels=max_pixels, unchanged=sources.check)
    count = len(files) if len(files) > 1 else len(pages(files[0]))
    return Clip(path, Header(frames=count), source, files=sources, kind="images")


def _check_timed(path: Path, span: Span) -> None:
    if span != WHOLE:
        raise UsageError(f"{path}: images have no times, so nothing is {span} in them. Leave start and end out.")


def source_identity(path: str | os.PathLike[str]) -> str:
    """Return the ``Clip.identity`` that the clip at ``path`` would have now, without opening it.

    >>> source_identity("no-such-file.mp4") == source_identity("other/no-such-file.mp4")
    True
    """
    path = Path(path)
    try:
        files = image_files(path) if path.is_dir() else [path]
    except VideoError:
        files = []
    return SourceFiles(files).digest


def image_files(path: Path) -> list[Path]:
    """Return the images in a folder, in natural order; ``VideoError`` if there is none."""
    try:
        files = [file for file in path.iterdir() if _is_image(file.name) and not file.is_dir()]
    except OSError as error:
        raise VideoError(f"{path}: cannot be read ({error.strerror}). {ALLOWED}") from error
    if not files:
        suffixes = " ".join(suffix[1:] for suffix in IMAGE_SUFFIXES)
        raise VideoError(f"{path}: no image in this folder ({suffixes}). {_folders_to_give(path)}")
    files.sort(key=lambda file: natural_key(file.name))
    return files


def _is_image(name: str) -> bool:
    return Path(name).suffix.lower() in IMAGE_SUFFIXES and not name.startswith(".")


def _folders_to_give(path: Path) -> str:
    """Return advice on a folder without images: the first of its subfolders that contains some, if any does."""
    for folder, _, names in islice(os.walk(path), MOST_FOLDERS):
        if any(map(_is_image, names)):
            return f"A subfolder contains images: give {folder}, and others like it, by name."
    return "Give a folder that contains images; clockseg segment also takes one that contains videos."


def _check_file(path: Path) -> None:
    """Raise VideoError unless the path is a readable file that is not empty."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise VideoError(
                f"{path}: not a file but a pipe, a socket or a device, which can be read only once; a clip is read several times. "
                "Save it as a file, or use clockseg live."
            )
        with path.open("rb") as file:
            empty = not file.read(1)
    except FileNotFoundError as error:
        raise VideoError(f"{path}: no such file or folder. {ALLOWED}") from error
    except (OSError, ValueError) as error:
        raise VideoError(f"{path}: cannot be read ({reason(error)}). {ALLOWED}") from error
    if empty:
        raise VideoError(f"{path}: the file is empty. {ALLOWED}")


def _header(container: InputContainer, stream: av.VideoStream, span: Span) -> Header:
    rates = (stream.average_rate, stream.guessed_rate, stream.base_rate)
    # Of a stream without times the average is FFmpeg's own default.
    fps = next(filter(None, rates if stream.start_time is not None else rates[1:]), None)
    duration, start = None, 0.0
    if stream.time_base is not None:
        duration = None if stream.duration is None else float(stream.duration * stream.time_base)
        start = float((stream.start_time or 0) * stream.time_base)
    if duration is None and container.duration is not None:
        duration = container.duration / av.time_base
    frames: int | None = stream.frames or None
    if duration is not None and span != WHOLE:
        duration, frames = span.length_seconds(start, duration), None
    frames = frames or (round(duration * fps) if duration and fps else None)
    return Header(fps or None, frames, duration, bool(container.streams.audio))


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key under which numbers in names sort by value.

    >>> sorted(["b10.png", "b9.png", "a.png"], key=natural_key)
    ['a.png', 'b9.png', 'b10.png']
    """
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return [(0, int(part), part) if part[0].isdigit() else (1, 0, part) for part in parts]
