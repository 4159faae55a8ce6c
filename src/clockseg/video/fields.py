"""Deinterlacing: one whole picture for each interlaced one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import av
from av.filter import Graph

# FFmpeg's filter takes no smaller ones, and no network needs them.
_LEAST_SIDE = 16
# Only what is flagged as interlaced is changed; it needs the picture before and the one after.
_FILTER = ("bwdif", "mode=send_frame:deint=interlaced")


def deinterlaced(found: Iterator[av.VideoFrame]) -> Iterator[av.VideoFrame]:
    """Yield the pictures, deinterlaced: the first field stays, and the lines of the other are interpolated.

    What makes them follows motion (FFmpeg's bwdif): where nothing moves, both fields stay. As many come out as go in, each
    with its own times. A video without interlaced pictures costs nothing.
    """
    bwdif: _Bwdif | None = None
    before: av.VideoFrame | None = None
    for picture in found:
        if bwdif is not None and not bwdif.takes(picture):
            yield from bwdif.push(None)
            bwdif = None
        if bwdif is None and picture.interlaced_frame and min(picture.width, picture.height) >= _LEAST_SIDE:
            bwdif = _Bwdif(picture)
            if before is not None and bwdif.takes(before):
                bwdif.show(before)
        if bwdif is None:
            yield picture
        else:
            yield from bwdif.push(picture)
        before = picture
    if bwdif is not None:
        yield from bwdif.push(None)


class _Bwdif:
    """FFmpeg's bwdif filter for pictures of one size and format."""

    def __init__(self, picture: av.VideoFrame) -> None:
        self._kind = _kind(picture)
        self._waiting: deque[av.VideoFrame] = deque()
        self._shown = 0
        self._graph = Graph()
        self._graph.threads = 1
        source = self._graph.add_buffer(
            width=picture.width, height=picture.height, format=picture.format, time_base=picture.time_base
        )
        self._graph.link_nodes(source, self._graph.add(*_FILTER), self._graph.add("buffersink")).configure()

    def takes(self, picture: av.VideoFrame) -> bool:
        return self._kind == _kind(picture)

    def show(self, picture: av.VideoFrame) -> None:
        """Push a picture that has been yielded already, as context for the next one."""
        self._waiting.append(picture)
        self._graph.vpush(picture)
        self._shown = 1

    def push(self, picture: av.VideoFrame | None) -> Iterator[av.VideoFrame]:
        """Push one more picture (None at the end), and yield the finished ones."""
        if picture is not None:
            self._waiting.append(picture)
        self._graph.vpush(picture)
        while (made := self._made()) is not None:
            given = self._waiting.popleft()
            made.pts, made.time_base, made.duration = given.pts, given.time_base, given.duration
            if self._shown:
                self._shown = 0
            else:
                yield made

    def _made(self) -> av.VideoFrame | None:
        try:
            return self._graph.vpull()
        except (av.BlockingIOError, av.EOFError):
            return None


def _kind(picture: av.VideoFrame) -> tuple[object, ...]:
    return picture.width, picture.height, picture.format.name, picture.time_base
