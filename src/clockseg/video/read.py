"""Opening of a video file, an image or a folder of images as a clip."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import av

from clockseg.errors import UsageError, VideoError
from clockseg.files import MAX_PIXELS, SourceFiles
from clockseg.video.clip import WHOLE, Clip, Span
from clockseg.video.decode import ALLOWED, open_input, reason
from clockseg.video.images import Images, image_files, is_animated_webp
from clockseg.video.movie import Movie


def open_clip(
    path: str | os.PathLike[str], *, max_pixels: int = MAX_PIXELS, vectors: bool = False, span: Span | None = None
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
        return _images(path, image_files(path), max_pixels, span)
    # Before anything is read: what is replaced from now on is noticed.
    files = SourceFiles([path])
    _check_file(path)
    try:
        with open_input(path, max_pixels=max_pixels) as container:
            movie = Movie(path, files, container, max_pixels=max_pixels, vectors=vectors, span=span)
            form = container.format.name
    except av.FFmpegError as error:
        raise VideoError(f"{path}: not a video that can be read ({reason(error)}). {ALLOWED}") from error
    if form != "image2" and not form.endswith("_pipe"):
        return movie
    if form == "webp_pipe" and is_animated_webp(path):
        raise VideoError(f"{path}: animated WebP needs PyAV 19 or newer (Python 3.12): pip install -U av")
    return _images(path, [path], max_pixels, span)


def _images(path: Path, files: list[Path], max_pixels: int, span: Span) -> Images:
    if span != WHOLE:
        raise UsageError(f"{path}: images have no times, so nothing is {span} in them. Leave start and end out.")
    return Images(path, files, max_pixels=max_pixels)


def source_identity(path: str | os.PathLike[str]) -> str:
    """Return the ``Clip.identity`` that the clip at ``path`` would have now, without opening it."""
    path = Path(path)
    try:
        files = image_files(path) if path.is_dir() else [path]
    except VideoError:
        files = []
    return SourceFiles(files).digest


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
