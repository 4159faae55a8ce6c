"""Animated WebP, decoded by OpenCV: FFmpeg can decode it only since version 9."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from clockseg.errors import VideoError
from clockseg.types import Array, Size
from clockseg.video._colour import check_pixels
from clockseg.video._decode import Damage
from clockseg.video.frame import Frame
from clockseg.video.span import Span

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
            images = _decoded(data, number, many)
        if number % many >= len(images):
            damage.stopped = "the file is damaged"
            return
        if span.holds(pts * _MS):
            rgb = np.asarray(cv2.cvtColor(images[number % many], cv2.COLOR_BGRA2RGB), np.uint8)
            damage.frames += 1
            yield Frame(damage.frames - 1, rgb, pts, _MS, duration=shown.durations_ms[number])


def _decoded(data: Array, start: int, count: int) -> list[Array]:
    try:
        _, found = cv2.imdecodeanimation(data[None], start, count)  # OpenCV 4.12 takes a row only
    except AttributeError as error:
        raise VideoError("animated WebP needs OpenCV 4.12 or newer: pip install -U opencv-python-headless") from error
    except cv2.error:
        return []
    return list(found.frames)


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")
