"""The pictures in image files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import av
import cv2
import numpy as np

from clockseg.errors import VideoError
from clockseg.types import Image
from clockseg.video._colour import ToRGB
from clockseg.video._decode import Damage, checked_stream, open_input, pictures
from clockseg.video.frame import Frame


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
