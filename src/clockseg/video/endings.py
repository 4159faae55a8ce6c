"""Files that are cut short in formats whose decoders do not notice it."""

from __future__ import annotations

from pathlib import Path


def ends_early(path: Path) -> bool:
    """Return True for a GIF, JPEG, QOI or Sun raster file that ends before its end marker; False for all other files.

    >>> Path("no-such-file.gif").exists() or ends_early(Path(__file__))
    False
    """
    data = path.read_bytes()
    if data.startswith(b"GIF8"):
        return not _whole_gif(data)
    if data.startswith(b"\xff\xd8\xff"):
        return not _whole_jpeg(data)
    if data.startswith(b"qoif"):
        return not data.endswith(b"\0\0\0\0\0\0\0\1")
    if data.startswith(b"\x59\xa6\x6a\x95"):
        return len(data) < 32 + int.from_bytes(data[16:20], "big") + int.from_bytes(data[28:32], "big")
    return False


def _whole_jpeg(data: bytes) -> bool:
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


def _whole_gif(data: bytes) -> bool:
    """Return True if the blocks of the file lead to its trailer (GIF89a specification, 27)."""
    try:
        at = 13 + _colours(data[10])
        while data[at] != 0x3B:
            at += 11 + _colours(data[at + 9]) if data[at] == 0x2C else 2
            while data[at]:
                at += 1 + data[at]
            at += 1
    except IndexError:
        return False
    return True


def _colours(flags: int) -> int:
    """Return the bytes of the colour table that follows these flags."""
    return 3 << 1 + (flags & 7) if flags & 0x80 else 0
