"""The frames of a folder of images or of a single one: still images, and the pages of TIFF files."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

import av
import cv2
import numpy as np

from clockseg.errors import VideoError
from clockseg.files import SourceFiles
from clockseg.types import Array, Image, Size
from clockseg.video.clip import Clip, Frame
from clockseg.video.colour import Decoded, ToRGB, check_pixels
from clockseg.video.decode import ALLOWED, Damage, checked_stream, ends_early, open_input, pictures

_IMAGES = "avif bmp dib dpx hdr j2k jfif jp2 jpe jpeg jpg pbm pcx pfm pgm png pnm ppm qoi ras sgi tga tif tiff webp xwd"
IMAGE_SUFFIXES = tuple(f".{name}" for name in _IMAGES.split())
"""Suffixes of images in a folder; any other image can be given by its name."""
MOST_FOLDERS = 1000
"""Subfolders in which images are looked for, to name one in the error of a folder without images."""


class Images(Clip):
    """The pictures of image ``files``, and all pages of a TIFF, upright by their EXIF data.

    Frames are numbered by files and pages, and what is broken leaves a gap.
    """

    kind = "images"

    def __init__(self, path: Path, files: Sequence[Path], *, max_pixels: int) -> None:
        super().__init__(path, SourceFiles(files))
        self._images, self._max_pixels = files, max_pixels
        self.frames_hint = len(files) if len(files) > 1 else len(pages(files[0]))

    def _decoded(self, damage: Damage) -> Iterator[Frame]:
        to_rgb = ToRGB(self._max_pixels)
        for index, (file, page) in enumerate((one, page) for one in self._images for page in pages(one)):
            image = _still(file, page, to_rgb, damage)
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


# FFmpeg decodes the first page of a TIFF alone.
_BYTE_ORDERS = {b"II*\0": "<", b"MM\0*": ">"}
_SUBFILE_TYPE, _WIDTH, _HEIGHT = 254, 256, 257
_COPY_OR_MASK = 1 | 4
_SHORT = 3
# Of a value of each type; all others take one byte.
_BYTES = {_SHORT: 2, 4: 4, 5: 8, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8}
_MOST_PAGES = 10_000


class Page(NamedTuple):
    """A page of a TIFF: its number, from 0, (w, h), and True if its description is cut off."""

    number: int = 0
    size: Size = (0, 0)
    cut: bool = False


def pages(file: Path) -> list[Page]:
    """Return the pages of a TIFF, without smaller copies of pages and masks; a single one for any other file."""
    if not file.is_file():  # a pipe would wait for ever
        return [Page()]
    found: list[Page] = []
    number = 0
    with file.open("rb") as data:
        order = _BYTE_ORDERS.get(data.read(4))
        try:
            for number, fields in enumerate(_directories(data, order) if order else (), start=1):
                if not fields.get(_SUBFILE_TYPE, 0) & _COPY_OR_MASK:
                    found.append(Page(number - 1, (fields.get(_WIDTH, 0), fields.get(_HEIGHT, 0))))
        except struct.error:
            found.append(Page(number, cut=True))
    return found or [Page()]


def _directories(data: BinaryIO, order: str) -> Iterator[dict[int, int]]:
    """Yield the fields of each directory of a TIFF (TIFF 6.0, section 2), with the first number that each stores.

    ``struct.error`` if a directory, or values that it points to, lie beyond the end of the file.
    """
    size = os.fstat(data.fileno()).st_size
    at = _number(data.read(4), order)
    seen: set[int] = set()
    while at and at not in seen and len(seen) < _MOST_PAGES:
        seen.add(at)
        data.seek(at)
        count = _number(data.read(2), order)
        entries = [struct.unpack(f"{order}HHI4s", data.read(12)) for _ in range(count)]
        at = _number(data.read(4), order)
        for _, kind, values, field in entries:
            length = values * _BYTES.get(kind, 1)
            if length > len(field) and _number(field, order) + length > size:
                raise struct.error
        yield {tag: _number(field[:2] if kind == _SHORT else field, order) for tag, kind, _, field in entries}


def _number(data: bytes, order: str) -> int:
    [number] = struct.unpack(order + ("H" if len(data) == 2 else "I"), data)
    return int(number)


def _still(file: Path, page: Page, to_rgb: ToRGB, damage: Damage) -> Image | Decoded | None:
    """Decode a picture to uint8 RGB [h, w, 3]; None if that fails. Losses are recorded in ``damage``."""
    own = Damage()
    try:
        image = _decoded(file, page, to_rgb, own) if file.is_file() else None
    except (av.FFmpegError, cv2.error, OSError, ValueError, VideoError):
        image = None
    damage.frames += image is not None
    if image is None or page.cut or own.stopped or own.undecodable or own.damaged or ends_early(file):
        name = f"page {page.number + 1} of {file.name}" if page.number else file.name
        damage.files.append(f"{name} could not be decoded{'' if image is None else ' whole'}")
    return image


def _decoded(file: Path, page: Page, to_rgb: ToRGB, damage: Damage) -> Image | Decoded | None:
    if page.number:
        # FFmpeg's option for it fails.
        check_pixels(*page.size, to_rgb.max_pixels)
        _, found = cv2.imreadmulti(str(file), page.number, 1, flags=cv2.IMREAD_COLOR)
        return _rgb(found[0]) if found else None
    with open_input(file, max_pixels=to_rgb.max_pixels) as container:
        stream = checked_stream(file, container, to_rgb.max_pixels)
        found = list(islice(pictures(container, stream, damage), 1))
    if not found:
        return None
    damage.take(found[0])
    if to_rgb.side_data(found[0]) is not None:
        return to_rgb(found[0])
    # PyAV doesn't show EXIF orientations with a mirror in them; OpenCV applies all eight.
    decoded = cv2.imdecode(np.fromfile(file, np.uint8), cv2.IMREAD_COLOR)
    return to_rgb(found[0]) if decoded is None else _rgb(decoded)


def _rgb(image: Array) -> Image:
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB), np.uint8)


def is_animated_webp(path: Path) -> bool:
    """Return True for an animated WebP, by the flag in its header."""
    with path.open("rb") as file:
        head = file.read(21)
    return head[:4] == b"RIFF" and head[8:16] == b"WEBPVP8X" and bool(head[20:] and head[20] & 2)
