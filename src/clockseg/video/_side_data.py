"""What comes beside a picture: how it is turned, how bright it gets, how it moves."""

from __future__ import annotations

import gc

import av
from av.sidedata.sidedata import SideData, SideDataContainer, Type

_MOST_BYTES = 256_000_000


class Beside:
    """Reads side data without keeping the pictures.

    A picture that PyAV was asked for its side data refers to itself, and stays until Python's collector comes by, which may
    be after hundreds; here it is called once such pictures hold 256 MB.
    """

    def __init__(self) -> None:
        self._bytes = 0

    def get(self, picture: av.VideoFrame, kind: Type) -> SideData | None:
        """The data of this kind, or None."""
        listed = self._of(picture)
        return None if listed is None else listed.get(kind)

    def listed(self, picture: av.VideoFrame) -> bool:
        """False where the picture carries data of a kind newer than this PyAV, such as EXIF: PyAV then shows none of it."""
        return self._of(picture) is not None

    def _of(self, picture: av.VideoFrame) -> SideDataContainer | None:
        self._bytes += 2 * picture.width * picture.height
        if self._bytes > _MOST_BYTES:
            self._bytes = 0
            gc.collect()
        try:
            found: SideDataContainer = picture.side_data
        except ValueError:
            return None
        return found
