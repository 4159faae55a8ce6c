"""The pictures in image files: still images, and the pages of TIFF files."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

import av
import cv2
import numpy as np

from clockseg.errors import VideoError
from clockseg.types import Array, Image, Size
from clockseg.video.clip import Frame
from clockseg.video.colour import ToRGB, check_pixels
from clockseg.video.decode import Damage, checked_stream, ends_early, open_input, pictures

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
    """Return the pages of a TIFF, without smaller copies of pages and masks; a single one for any other file.

    >>> pages(Path("no-such-file.tif"))
    [Page(number=0, size=(0, 0), cut=False)]
    """
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


def stills(
    files: Sequence[Path], damage: Damage, *, max_pixels: int, unchanged: Callable[[Path], None]
) -> Iterator[Frame]:
    """Yield the pictures of files, and all pages of a TIFF, upright by their EXIF data.

    Frames are numbered by files and pages, and what is broken leaves a gap. ``unchanged`` raises for a file that was replaced;
    it is called after each file is read.
    """
    to_rgb = ToRGB(max_pixels)
    for index, (file, page) in enumerate((one, page) for one in files for page in pages(one)):
        image = _still(file, page, to_rgb, damage)
        unchanged(file)
        if image is not None:
            yield Frame(index, image, file=file.name)


def _still(file: Path, page: Page, to_rgb: ToRGB, damage: Damage) -> Image | None:
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


def _decoded(file: Path, page: Page, to_rgb: ToRGB, damage: Damage) -> Image | None:
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
    if to_rgb.side_data.of(found[0]) is not None:
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
