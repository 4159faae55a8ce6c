"""The pages of TIFF files, of which FFmpeg decodes the first alone."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from clockseg.types import Size

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
