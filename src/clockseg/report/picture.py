"""The video that a page shows under the masks: a small copy of the frames embedded in it, or a file next to it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import cv2
import numpy as np

from clockseg.errors import ClocksegError, VideoError
from clockseg.report.page import packed
from clockseg.report.run import Run
from clockseg.types import Array, Image, Size
from clockseg.video import Clip, Span, open_clip
from clockseg.video.decode import open_input
from clockseg.video.drawing import OverlayWriter

Choice = Literal["auto", "embed", "reference", "none"]
"""Ways to show the video; "auto" embeds short ones."""
EMBEDDED_FRAMES = 3000
"""The most frames that "auto" embeds, two minutes at 25 FPS."""
EMBEDDED_BYTES = 32_000_000
"""The most bytes of an overlay that is embedded as it is."""
SIDE = 720
"""The largest side of a copy in pixels."""
_LEAST_SIDE = 64
"""Browsers' decoders refuse pictures of a few pixels; these are enlarged."""
_COPY = {"crf": "26", "g": "24"}
"""Encoder options of a copy: small, and with a key frame every second or so, so that a browser seeks in it exactly."""
_PLAYED = {"h264": ("yuv420p", "yuvj420p"), "vp8": ("yuv420p",), "vp9": ("yuv420p",), "av1": ("yuv420p",)}


class Picture(NamedTuple):
    """A video for a page: ``data``, an MP4, or ``url``, or neither if there is none.

    ``seconds``: float64 [frames], the time of each frame in it. ``size`` (w, h): of the visible part, at its top left.
    ``drawn``: True if the video contains the masks, and below them the strip that shows which stages fired.
    """

    seconds: Array
    size: tuple[int, int]
    data: bytes = b""
    url: str = ""
    drawn: bool = False

    def facts(self) -> dict[str, Any]:
        """Return plain values for the page, without ``data``."""
        return {
            "seconds": packed(self.seconds.astype(np.float64)),
            "width": self.size[0],
            "height": self.size[1],
            "embedded": bool(self.data),
            "url": self.url,
            "drawn": self.drawn,
        }


def picture(run: Run, page: Path, choice: Choice, warn: Callable[[str], None]) -> Picture:
    """Return the video that ``page`` shows; ``warn`` gets a sentence if it is not the original video."""
    size = tuple(run.trace[0]["size"]) if run.trace else (16, 9)
    if choice == "none":
        return Picture(run.seconds, size)
    embed = choice == "embed" or (choice == "auto" and run.frames <= EMBEDDED_FRAMES)
    if run.source is not None and run.trace:
        try:
            if embed:
                return _copy(run)
            if (found := _referenced(run, page)) is not None:
                return found
            warn(f"{run.source.name}: browsers do not play it")
        except ClocksegError as error:
            warn(f"its video cannot be used ({error})")
    elif run.summary.get("live"):
        warn("the frames of a live run can't be found in its source")
    else:
        warn("the video was moved or replaced since the run" if run.trace else "without a trace its frames are unknown")
    if run.file("overlay") is not None:
        warn("the page shows the overlay, which already contains the masks")
        return _overlay(run, page, size, embed=embed)
    return Picture(run.seconds, size)


def _copy(run: Run) -> Picture:
    """Return a small copy of the frames."""
    first, span = run.trace[0], None
    if first["pts"] is not None and first["time_base"]:
        span = Span(start=first["pts"] * Fraction(first["time_base"]))
    with open_clip(run.source or "", span=span) as clip:
        if clip.size != tuple(first["size"]):
            raise VideoError(f"{clip.path}: {clip.size} is not the size that was segmented. Give that video.")
        data = copy(_frames(clip, run.trace), run.seconds, clip.pixel_aspect)
        return Picture(run.seconds, _shown(clip), data)


def _frames(clip: Clip, trace: Iterable[dict[str, Any]]) -> Iterator[Image]:
    """Yield the pictures of the frames in a trace; ``VideoError`` if one is missing: then the clip is another video."""
    frames = iter(clip)
    for line in trace:
        number, pts = line["frame"], line["pts"]
        found = next((frame for frame in frames if frame.index >= number), None)
        if found is None or (found.index, found.pts) != (number, pts):
            raise VideoError(f"{clip.path}: it has no frame {number} at {pts}. Give the video that was segmented.")
        yield found.image


def copy(images: Iterable[Image], seconds: Array, aspect: Fraction = Fraction(1)) -> bytes:
    """Return an MP4 of pictures, uint8 RGB [h, w, 3] each, at ``seconds`` (float64, increasing); ``aspect``: of a pixel.

    All get the size of the first, scaled down; one of another size is stretched, as label maps on disk are.
    """
    size: Size | None = None
    # The index can only be moved to the front in a file with a name.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "frames.mp4"
        with OverlayWriter(path, options=_COPY) as writer:
            for image, time in zip(images, seconds, strict=False):
                size = size or copy_size((image.shape[1], image.shape[0]), aspect)
                writer.append(np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8), float(time))
        return path.read_bytes()


def copy_size(size: Size, aspect: Fraction = Fraction(1)) -> Size:
    """Return the size of a copy of pictures of ``size`` (w, h): even, with square pixels, neither large nor tiny.

    >>> copy_size((1920, 1080)), copy_size((1, 1))
    ((720, 404), (64, 64))
    """
    wide = size[0] * float(aspect)
    scale = min(1.0, SIDE / max(wide, size[1]))
    if min(wide, size[1]) * scale < _LEAST_SIDE:
        scale = _LEAST_SIDE / min(wide, size[1])
    # A strip of one pixel would become too long.
    width, height = (max(2, 2 * round(min(side * scale, 2 * SIDE) / 2)) for side in (wide, size[1]))
    return width, height


def _shown(clip: Clip) -> tuple[int, int]:
    return max(1, round(clip.size[0] * clip.pixel_aspect)), clip.size[1]


def _referenced(run: Run, page: Path) -> Picture | None:
    """Return the source itself if browsers play it and its frames have times."""
    if run.source is None or run.source.is_dir() or run.times is None:
        return None
    with open_clip(run.source) as clip:
        if clip.kind != "video" or not _played(run.source):
            return None
        return Picture(run.times, _shown(clip), url=relative_url(run.source, page))


def _played(path: Path) -> bool:
    with open_input(path) as container:
        stream = next(iter(container.streams.video), None)
        known = {"mov", "matroska", "webm"} & set(container.format.name.split(","))
        return bool(known) and stream is not None and stream.pix_fmt in _PLAYED.get(stream.codec.canonical_name, ())


def _overlay(run: Run, page: Path, size: Any, *, embed: bool) -> Picture:
    """Return the overlay, with the display time of each of its frames: it has no B-frames."""
    path = run.folder / "overlay.mp4"
    with open_input(path) as container:
        stream = container.streams.video[0]
        times = [float(packet.pts * packet.time_base) for packet in container.demux(stream) if packet.pts is not None]
        size = size if run.trace else (stream.width, stream.height)
    found = Picture(np.array(times) if len(times) == run.frames else run.seconds, size, drawn=True)
    if embed and path.stat().st_size <= EMBEDDED_BYTES:
        return found._replace(data=path.read_bytes())
    return found._replace(url=relative_url(path, page))


def relative_url(path: Path, page: Path) -> str:
    """Return the URL of ``path`` relative to ``page``.

    >>> relative_url(Path("/a/my video?.mp4"), Path("/a/out/report.html"))
    '../my%20video%3F.mp4'
    """
    return quote(os.fsencode(os.path.relpath(path.resolve(), page.resolve().parent)))
