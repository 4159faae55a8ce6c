"""Pictures: what a page shows of a source, encoded once for all who watch it, and no more often than eyes need."""

from __future__ import annotations

import json
import threading
import time
from typing import Any, NamedTuple

import cv2
import numpy as np

from clockseg.live.board import Board, Newest
from clockseg.types import Array
from clockseg.video import Heat

WIDEST = 960
"""Pixels; a page needs no more, and a JPEG of it takes a few milliseconds."""
MOST_FPS = 15
WAIT_SECONDS = 5.0
"""After so long without a new frame, a page is told how its source does all the same."""


class _Encoded(NamedTuple):
    number: int
    at: float
    size: tuple[int, int]
    picture: bytes
    masks: bytes


class Pictures:
    """``message`` is what a page gets: the length of a JSON text (4 bytes, big endian), the text, a JPEG, and a grey PNG.

    The text tells the bytes of both, ``number`` (of the frame), ``moments`` since the one the page had, and the ``state``. The
    PNG's grey is the class id; without labels it is empty. Both pictures are empty where there is nothing newer.
    """

    def __init__(self, board: Board) -> None:
        self._board = board
        self._locks = [threading.Lock() for _ in range(len(board))]
        self._last: list[_Encoded | None] = [None] * len(board)
        self._heat = [Heat() for _ in range(len(board))]

    def message(self, source: int, after: int) -> bytes:
        """Return what is new of a source since frame number ``after``; waits for it, but not for long."""
        newest = self._board.wait(source, after, WAIT_SECONDS)
        found = None if newest is None else self._encoded(source, newest, after)
        text: dict[str, Any] = {"state": self._board.state(source)}
        picture, masks = b"", b""
        if found is not None:
            picture, masks = found.picture, found.masks
            moments = [moment for moment in self._board.since(source, after) if moment.number <= found.number]
            text |= {"number": found.number, "size": found.size, "moments": moments}
        text |= {"picture": len(picture), "masks": len(masks)}
        head = json.dumps(text, allow_nan=False).encode()
        return len(head).to_bytes(4, "big") + head + picture + masks

    def _encoded(self, source: int, newest: Newest, after: int) -> _Encoded:
        with self._locks[source]:
            last = self._last[source]
            if last is not None and last.number > after:
                return last
            if last is not None:
                time.sleep(max(0.0, last.at + 1 / MOST_FPS - time.monotonic()))
            newest = self._board.wait(source, after, 0.01) or newest
            picture, masks, size = self._drawn(source, newest)
            self._last[source] = found = _Encoded(newest.number, time.monotonic(), size, picture, masks)
            return found

    def _drawn(self, source: int, newest: Newest) -> tuple[bytes, bytes, tuple[int, int]]:
        image, output = newest.shown.frame.image, newest.shown.output
        if self._board.numbers:
            image = self._heat[source](image, output)
        height, width = image.shape[:2]
        scale = min(1.0, WIDEST / width)
        size = max(1, round(width * scale)), max(1, round(height * scale))
        small = cv2.resize(image, size, interpolation=cv2.INTER_AREA) if scale < 1 else image
        picture = _bytes(".jpg", cv2.cvtColor(small, cv2.COLOR_RGB2BGR), cv2.IMWRITE_JPEG_QUALITY, 82)
        if self._board.numbers:
            return picture, b"", size
        labels = cv2.resize(np.asarray(output), size, interpolation=cv2.INTER_NEAREST)
        return picture, _bytes(".png", labels, cv2.IMWRITE_PNG_COMPRESSION, 1), size


def _bytes(kind: str, image: Array, *options: int) -> bytes:
    _, encoded = cv2.imencode(kind, image, options)
    return encoded.tobytes()
