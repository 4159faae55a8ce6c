"""The frames of a folder of images or of a single one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import av
import cv2
import numpy as np

from clockseg.errors import VideoError
from clockseg.files import SourceFiles
from clockseg.types import Image
from clockseg.video.clip import Clip, Frame
from clockseg.video.colour import ToRGB
from clockseg.video.decode import ALLOWED, Damage, checked_stream, ends_early, open_input, pictures

_IMAGES = "avif bmp dib dpx hdr j2k jfif jp2 jpe jpeg jpg pbm pcx pfm pgm png pnm ppm qoi ras sgi tga tif tiff webp xwd"
IMAGE_SUFFIXES = tuple(f".{name}" for name in _IMAGES.split())
"""Suffixes of images in a folder; any other image can be given by its name."""
MOST_FOLDERS = 1000
"""Subfolders in which images are looked for, to name one in the error of a folder without images."""


class Images(Clip):
    """The pictures of image ``files``, upright by their EXIF data. Frames are numbered by files; a broken one leaves a gap."""

    kind = "images"

    def __init__(self, path: Path, files: Sequence[Path], *, max_pixels: int) -> None:
        super().__init__(path, SourceFiles(files))
        self._images, self._max_pixels = files, max_pixels
        self.frames_hint = len(files)

    def _decoded(self, damage: Damage) -> Iterator[Frame]:
        to_rgb = ToRGB(self._max_pixels)
        for index, file in enumerate(self._images):
            image = _still(file, to_rgb, damage)
            self._files.check(file)
            if image is not None:
                yield Frame(index, image, file=file.name)


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


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key under which numbers in names sort by value.

    >>> sorted(["b10.png", "b9.png", "a.png"], key=natural_key)
    ['a.png', 'b9.png', 'b10.png']
    """
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return [(0, int(part), part) if part[0].isdigit() else (1, 0, part) for part in parts]


def _still(file: Path, to_rgb: ToRGB, damage: Damage) -> Image | None:
    """Decode a picture to uint8 RGB [h, w, 3]; None if that fails. Losses are recorded in ``damage``."""
    own = Damage()
    try:
        # A pipe would wait for ever.
        image = _decoded(file, to_rgb, own) if file.is_file() else None
    except (av.FFmpegError, cv2.error, OSError, ValueError, VideoError):
        image = None
    damage.frames += image is not None
    if image is None or own.stopped or own.undecodable or own.damaged or ends_early(file):
        damage.files.append(f"{file.name} could not be decoded{'' if image is None else ' whole'}")
    damage.files += own.files
    return image


def _decoded(file: Path, to_rgb: ToRGB, damage: Damage) -> Image | None:
    with open_input(file, max_pixels=to_rgb.max_pixels) as container:
        stream = checked_stream(file, container, to_rgb.max_pixels)
        found = next(pictures(container, stream, damage), None)
        if found is None:
            return None
        # FFmpeg decodes the first page alone. OpenCV counts none if the description of the first is cut off.
        pages = cv2.imcount(str(file)) if stream.codec_context.name == "tiff" else 1
        damage.undecodable += pages == 0
        if pages > 1:
            damage.files.append(f"{file.name} has {pages} pages, of which the first is read; give each as a file")
    damage.take(found)
    if to_rgb.side_data.of(found) is not None:
        return to_rgb(found)
    # PyAV doesn't show EXIF orientations with a mirror in them; OpenCV applies all eight.
    decoded = cv2.imdecode(np.fromfile(file, np.uint8), cv2.IMREAD_COLOR)
    return to_rgb(found) if decoded is None else np.asarray(cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB), np.uint8)


def is_animated_webp(path: Path) -> bool:
    """Return True for an animated WebP, by the flag in its header."""
    with path.open("rb") as file:
        head = file.read(21)
    return head[:4] == b"RIFF" and head[8:16] == b"WEBPVP8X" and bool(head[20:] and head[20] & 2)
