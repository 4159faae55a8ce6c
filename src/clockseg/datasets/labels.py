"""Label maps on disk: PNG files whose grey values or palette indices are class ids, or ids that are mapped to those."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clockseg.errors import DataError
from clockseg.types import Labels

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MOST_PIXELS = 64_000_000
_PALETTE = 3
_COLOURS = {
    2: "colours: a picture of the labels, whose colours can't be told from ids",
    _PALETTE: "a palette: programs don't agree on whether its ids or its colours are meant",
    4: "grey with transparency",
    6: "colours with transparency: a picture of the labels, whose colours can't be told from ids",
}


def read_labels_png(path: Path) -> Labels:
    """Read a label map from a PNG of one byte per pixel: the grey value is the class id, uint8 [h, w].

    ``DataError`` for anything else, so that colours, palette indices or scaled values are not taken for ids, and for a
    file that is cut off or damaged, which decoders accept in part.

    >>> read_labels_png(Path("nowhere.png"))
    Traceback (most recent call last):
        ...
    clockseg.errors.DataError: label nowhere.png can't be read (No such file or directory).
    """
    return _read(path, palette=False)


def read_index_png(path: Path) -> Labels:
    """Read a label map from a PNG with a palette, as in PASCAL and DAVIS: the *index* is the class id, uint8 [h, w].

    Use this only for data sets whose ids are known to be indices. A grey PNG is read as by ``read_labels_png``, because some
    copies of these data sets have lost the palette. ``DataError`` as there.

    >>> read_index_png(Path("nowhere.png"))
    Traceback (most recent call last):
        ...
    clockseg.errors.DataError: label nowhere.png can't be read (No such file or directory).
    """
    return _read(path, palette=True)


@dataclass(frozen=True)
class Mapped:
    """Reads label maps whose stored ids differ from the class ids: ``table[stored id]`` is the class id, 256 bytes.

    A table, because ids that are replaced one after the other may be replaced twice.

    >>> list(Mapped.of({0: 255, 7: 0}, others=None).table[:9])
    [255, 1, 2, 3, 4, 5, 6, 0, 8]
    """

    table: bytes
    read: Callable[[Path], Labels] = read_labels_png

    @classmethod
    def of(
        cls, ids: Mapping[int, int], *, others: int | None, read: Callable[[Path], Labels] = read_labels_png
    ) -> Mapped:
        """Map stored ids to class ids; ``others``: the class id of all other stored ids, None to keep those."""
        return cls(bytes(ids.get(id, id if others is None else others) for id in range(256)), read)

    def __call__(self, path: Path) -> Labels:
        """Read the label map in a file, uint8 [h, w]."""
        return np.frombuffer(self.table, np.uint8)[self.read(path)]


def _read(path: Path, *, palette: bool) -> Labels:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"label {path} can't be read ({error.strerror}).") from None
    width, height = _checked(data, path, palette)
    labels = _decoded(data, path)
    if labels.shape != (height, width):
        raise DataError(f"label {path} decodes to {labels.shape[1]}x{labels.shape[0]}, it says {width}x{height}.")
    return labels


def _checked(data: bytes, path: Path, palette: bool) -> tuple[int, int]:
    """Return width and height after checking that every chunk is intact and there are enough pixels of a supported kind."""
    if not data.startswith(SIGNATURE):
        raise DataError(f"label {path} is not a PNG; label maps are PNG files of one grey byte per pixel.")
    kinds, pixels, at = [], [], len(SIGNATURE)
    while at < len(data) and b"IEND" not in kinds:
        length, kind = struct.unpack_from(">I4s", data, at) if at + 8 <= len(data) else (0, b"")
        body = data[at + 4 : at + 8 + length]
        if len(body) < 4 + length or data[at + 8 + length : at + 12 + length] != struct.pack(">I", zlib.crc32(body)):
            raise _damaged(path)
        kinds.append(kind)
        pixels += [body[4:]] if kind == b"IDAT" else []
        at += 12 + length
    if kinds[:1] != [b"IHDR"] or kinds[-1] != b"IEND" or len(data) < 33:
        raise _damaged(path)
    width, height, depth = _header(data, path, palette)
    _check_pixels(b"".join(pixels), height * (-(-width * depth // 8) + 1), path)
    return width, height


def _check_pixels(packed: bytes, expected: int, path: Path) -> None:
    """Check that no pixels are missing; decoders would leave the rest grey."""
    try:
        found = len(zlib.decompressobj().decompress(packed, expected + 1))
    except zlib.error:
        raise _damaged(path) from None
    if found < expected:  # more where rows are interlaced
        raise _damaged(path)


def _damaged(path: Path) -> DataError:
    return DataError(f"label {path} is cut off or damaged; write it again.")


def _header(data: bytes, path: Path, palette: bool) -> tuple[int, int, int]:
    width, height, depth, colour = struct.unpack_from(">IIBB", data, 16)
    indexed = palette and colour == _PALETTE
    if colour != 0 and not indexed:
        raise DataError(f"label {path} holds {_COLOURS.get(colour, 'no grey')}. Write the class ids as 8-bit grey.")
    if depth != 8 and not indexed:
        raise DataError(f"label {path} has {depth} bits a pixel; write the class ids as 8-bit grey.")
    if not 0 < width * height <= MOST_PIXELS:
        raise DataError(
            f"label {path} says it is {width}x{height}; at most {MOST_PIXELS} pixels are read. Scale it down."
        )
    return width, height, depth


def _decoded(data: bytes, path: Path) -> Labels:
    import av

    from clockseg.video.decode import open_for_reading

    try:
        with open_for_reading(io.BytesIO(data), format="png_pipe") as container:
            frame = next(container.decode(video=0))
    except (av.FFmpegError, StopIteration, IndexError) as error:
        raise DataError(f"label {path} can't be decoded ({error}); write it again.") from None
    if frame.format.name not in ("gray", "pal8"):
        raise DataError(f"label {path} decodes to {frame.format.name}, not to one byte a pixel.")
    # Of a palette picture: its indices and its palette.
    found = frame.to_ndarray()
    return np.ascontiguousarray(found[0] if frame.format.name == "pal8" else found, np.uint8)
