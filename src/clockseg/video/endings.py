"""Files that are cut short in formats whose decoders do not notice it."""

from __future__ import annotations

import re
from mmap import ACCESS_READ, mmap
from pathlib import Path


def ends_early(path: Path) -> bool:
    """Return True for a file that ends before its end marker or inside a frame; False for a format that is not known here.

    Known are GIF, JPEG and Motion JPEG, PNG and APNG, QOI, Sun raster, IVF and YUV4MPEG.

    >>> ends_early(Path(__file__))
    False
    """
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        whole = next((whole for start, whole in _WHOLE.items() if data[: len(start)] == start), None)
        try:
            return whole is not None and not whole(data)
        except IndexError:
            return True


def _whole_jpeg(data: mmap) -> bool:
    """Return True if there is an end-of-image marker outside of the metadata (ITU-T T.81, B.1.1)."""
    at = 2
    while 0 <= at < len(data) - 1:
        marker = data[at + 1]
        if data[at] != 0xFF or marker < 0x80 or 0xD0 <= marker <= 0xD7 or marker == 0xFF:
            at = data.find(b"\xff", at + 1)  # inside a scan
        elif marker == 0xD9:
            return True
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return False


def _whole_mjpeg(data: mmap) -> bool:
    """Return True if the last of several JPEGs in a row is whole; there may be other bytes after it."""
    last = max(data.rfind(b"\xff\xd8\xff"), 0)
    return _whole_jpeg(data) and data.rfind(b"\xff\xd9") > last


def _whole_gif(data: mmap) -> bool:
    """Return True if the blocks of the file lead to its trailer (GIF89a specification, 27)."""
    at = 13 + _colours(data[10])
    while data[at] != 0x3B:
        at += 11 + _colours(data[at + 9]) if data[at] == 0x2C else 2
        while data[at]:
            at += 1 + data[at]
        at += 1
    return True


def _colours(flags: int) -> int:
    """Return the bytes of the colour table that follows these flags."""
    return 3 << 1 + (flags & 7) if flags & 0x80 else 0


def _whole_png(data: mmap) -> bool:
    at = 8
    while data[at + 4 : at + 8] != b"IEND":
        at += 12 + int.from_bytes(data[at : at + 4], "big")
        if at >= len(data):
            return False
    return at + 12 <= len(data)


def _whole_raster(data: mmap) -> bool:
    return len(data) >= 32 + int.from_bytes(data[16:20], "big") + int.from_bytes(data[28:32], "big")


def _whole_ivf(data: mmap) -> bool:
    at = 32
    while at < len(data):
        at += 12 + int.from_bytes(data[at : at + 4], "little")
    return at == len(data)


def _whole_yuv4mpeg(data: mmap) -> bool:
    """Return True if the file ends with a frame; all have the size of the first."""
    found = [match.start() for match, _ in zip(re.finditer(b"FRAME", data), range(2), strict=False)]
    return len(found) < 2 or (len(data) - found[0]) % (found[1] - found[0]) == 0


_WHOLE = {
    b"GIF8": _whole_gif,
    b"\xff\xd8\xff": _whole_mjpeg,
    b"\x89PNG": _whole_png,
    b"qoif": lambda data: data[-8:] == b"\0\0\0\0\0\0\0\1",
    b"\x59\xa6\x6a\x95": _whole_raster,
    b"DKIF": _whole_ivf,
    b"YUV4MPEG2 ": _whole_yuv4mpeg,
}
