"""Label maps on disk: PNG files whose grey values or palette indices are class ids, or ids that are mapped to those."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clockseg.errors import DataError
from clockseg.types import Labels

MOST_PIXELS = 64_000_000
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY, _PALETTE = 0, 3
_KINDS = {2: "colours", _PALETTE: "a palette", 4: "grey with transparency", 6: "colours with transparency"}
"""The channels that a PNG has besides grey, by its colour type."""


def read_labels_png(path: Path, *, palette: bool = False) -> Labels:
    """Read a label map from a PNG of one byte per pixel: the grey value is the class id, uint8 [h, w].

    ``palette``: read a PNG with a palette too, whose *index* is the class id. ``DataError`` for anything else, so that colours,
    palette indices or scaled values are not taken for ids, and for a file that is cut off or damaged.

    >>> read_labels_png(Path("nowhere.png"))
    Traceback (most recent call last):
        ...
    clockseg.errors.DataError: label nowhere.png can't be read (No such file or directory).
    """
    import av

    from clockseg.video.decode import open_for_reading

    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"label {path} can't be read ({error.strerror}).") from None
    if not data.startswith(_SIGNATURE):
        raise DataError(f"label {path} is not a PNG; label maps are PNG files of one grey byte per pixel.")
    damaged = DataError(f"label {path} is cut off or damaged; write it again.")
    if len(data) < 33:
        raise damaged
    _check_header(data, path, palette)
    try:
        with open_for_reading(io.BytesIO(data), format="png_pipe") as container:
            # Strict, because FFmpeg's default is to show the intact part of a damaged picture.
            container.streams.video[0].codec_context.options = {"err_detect": "crccheck+explode", "strict": "strict"}
            frame = next(container.decode(video=0))
    except (av.FFmpegError, StopIteration, IndexError):
        raise damaged from None
    found = frame.to_ndarray()
    # Of a picture with a palette: its indices and its colours.
    return np.ascontiguousarray(found[0] if frame.format.name == "pal8" else found, np.uint8)


def read_index_png(path: Path) -> Labels:
    """Read a label map as in PASCAL and DAVIS: ids are indices of a palette, or grey in copies that have lost it."""
    return read_labels_png(path, palette=True)


@dataclass(frozen=True)
class Mapped:
    """Reads label maps whose stored ids differ from the class ids.

    ``ids``: the class id of each stored id; ``others``: that of all other stored ids, None to keep those.
    """

    ids: Mapping[int, int]
    others: int | None = None
    read: Callable[[Path], Labels] = read_labels_png

    @property
    def table(self) -> Labels:
        """The class id of every stored id, uint8 [256]."""
        return np.array([self.ids.get(id, id if self.others is None else self.others) for id in range(256)], np.uint8)

    def __call__(self, path: Path) -> Labels:
        """Read the label map in a file, uint8 [h, w]."""
        return self.table[self.read(path)]


def _check_header(data: bytes, path: Path, palette: bool) -> None:
    width, height, depth, colour = struct.unpack_from(">IIBB", data, 16)
    indexed = palette and colour == _PALETTE
    if colour != _GREY and not indexed:
        raise DataError(
            f"label {path} holds {_KINDS.get(colour, 'no grey')}, from which ids can't be told. Write the class ids as 8-bit grey."
        )
    if depth != 8 and not indexed:
        raise DataError(f"label {path} has {depth} bits per pixel; write the class ids as 8-bit grey.")
    if not 0 < width * height <= MOST_PIXELS:
        raise DataError(
            f"label {path} has {width}x{height} pixels; at most {MOST_PIXELS} pixels are read. Scale it down."
        )
