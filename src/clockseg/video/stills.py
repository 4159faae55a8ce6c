"""The pictures in image files: still images, and the frames of animated WebP."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, islice
from pathlib import Path
from typing import NamedTuple

import av
import cv2
import numpy as np

from clockseg.errors import VideoError
from clockseg.types import Array, Image, Size
from clockseg.video.clip import Frame, Span
from clockseg.video.colour import ToRGB, check_pixels
from clockseg.video.decode import Damage, checked_stream, open_input, pictures


def stills(
    files: Sequence[Path], damage: Damage, *, max_pixels: int, unchanged: Callable[[Path], None]
) -> Iterator[Frame]:
    """Yield the pictures of files, upright by their EXIF data. A broken file leaves a gap, so that frame k is the k-th file.

    ``unchanged`` raises for a file that was replaced; it is called after each file is read.
    """
    to_rgb = ToRGB(max_pixels)
    for index, file in enumerate(files):
        image = _still(file, to_rgb, damage)
        unchanged(file)
        if image is not None:
            yield Frame(index, image)


def _still(file: Path, to_rgb: ToRGB, damage: Damage) -> Image | None:
    """The picture, uint8 RGB [h, w, 3]; None if it can't be decoded. ``damage`` is noted."""
    own = Damage()
    try:
        image = _decoded(file, to_rgb, own)
    except (av.FFmpegError, OSError, ValueError, VideoError):
        image = None
    damage.frames += image is not None
    if image is None or own.stopped or own.undecodable or own.damaged:
        damage.files.append(f"{file.name} could not be decoded{'' if image is None else ' whole'}")
    return image


def _decoded(file: Path, to_rgb: ToRGB, damage: Damage) -> Image | None:
    with open_input(file, max_pixels=to_rgb.max_pixels) as container:
        stream = checked_stream(file, container, to_rgb.max_pixels)
        found = list(islice(pictures(container, stream, damage), 1))
    if not found:
        return None
    damage.take(found[0])
    if to_rgb.beside.listed(found[0]):
        return to_rgb(found[0])
    # PyAV doesn't show EXIF orientations with a mirror in them; OpenCV applies all eight.
    decoded = cv2.imdecode(np.fromfile(file, np.uint8), cv2.IMREAD_COLOR)
    return to_rgb(found[0]) if decoded is None else np.asarray(cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB), dtype=np.uint8)


_MS = Fraction(1, 1000)
_ANIMATED = 2
# A frame that says 0 is shown for this long by browsers.
_SHORTEST_MS = 100


class Animation(NamedTuple):
    """What the chunks of the file say: its size, and how long each frame is shown."""

    size: Size
    durations_ms: tuple[int, ...]

    @property
    def seconds(self) -> Fraction:
        """How long all of it is."""
        return sum(self.durations_ms) * _MS


def animation(path: Path) -> Animation | None:
    """What an animated WebP holds; None if the file is anything else."""
    with path.open("rb") as file:
        head = file.read(30)
        if len(head) < 30 or head[:4] != b"RIFF" or head[8:16] != b"WEBPVP8X" or not head[20] & _ANIMATED:
            return None
        size = _number(head[24:27]) + 1, _number(head[27:30]) + 1
        durations = []
        while len(chunk := file.read(8)) == 8:
            length = int.from_bytes(chunk[4:], "little")
            if chunk[:4] == b"ANMF":
                durations.append(_number(file.read(16)[12:15]) or _SHORTEST_MS)
                length -= 16
            file.seek(length + length % 2, 1)
    return Animation(size, tuple(durations)) if durations else None


def animated(path: Path, shown: Animation, damage: Damage, *, span: Span, max_pixels: int) -> Iterator[Frame]:
    """Its frames, decoded so many at once as have ``max_pixels`` together.

    VideoError if one has more, or OpenCV is too old for it.
    """
    check_pixels(*shown.size, max_pixels)
    data, many = np.fromfile(path, np.uint8), max(1, max_pixels // (shown.size[0] * shown.size[1]))
    images: list[Array] = []
    for number, pts in enumerate(accumulate(shown.durations_ms[:-1], initial=0)):
        if number % many == 0:
            images = _decoded_animation(data, number, many)
        if number % many >= len(images):
            damage.stopped = "the file is damaged"
            return
        if span.holds(pts * _MS):
            rgb = np.asarray(cv2.cvtColor(images[number % many], cv2.COLOR_BGRA2RGB), np.uint8)
            damage.frames += 1
            yield Frame(damage.frames - 1, rgb, pts, _MS, duration=shown.durations_ms[number])


def _decoded_animation(data: Array, start: int, count: int) -> list[Array]:
    try:
        _, found = cv2.imdecodeanimation(data[None], start, count)  # OpenCV 4.12 takes a row only
    except AttributeError as error:
        raise VideoError("animated WebP needs OpenCV 4.12 or newer: pip install -U opencv-python-headless") from error
    except cv2.error:
        return []
    return list(found.frames)


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")
