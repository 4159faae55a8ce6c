"""Deinterlacing: one whole picture for each interlaced one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain, groupby

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
    for _, same in groupby(found, _kind):
        yield from _deinterlaced(same)


def _deinterlaced(found: Iterator[av.VideoFrame]) -> Iterator[av.VideoFrame]:
    """Deinterlace pictures of one size and format, from the first interlaced one on."""
    before: av.VideoFrame | None = None
    for picture in found:
        if picture.interlaced_frame and min(picture.width, picture.height) >= _LEAST_SIDE:
            break
        yield picture
        before = picture
    else:
        return
    graph, waiting = _bwdif(picture), deque[av.VideoFrame]()
    # The one before, which was yielded already, is context for the first.
    for given in chain([] if before is None else [before], [picture], found, [None]):
        if given is not None:
            waiting.append(given)
        graph.vpush(given)
        while (made := _pulled(graph)) is not None:
            source = waiting.popleft()
            made.pts, made.time_base, made.duration = source.pts, source.time_base, source.duration
            if source is not before:
                yield made


def _bwdif(picture: av.VideoFrame) -> Graph:
    """Return FFmpeg's bwdif filter for pictures like this one."""
    graph = Graph()
    graph.threads = 1
    source = graph.add_buffer(
        width=picture.width, height=picture.height, format=picture.format, time_base=picture.time_base
    )
    graph.link_nodes(source, graph.add(*_FILTER), graph.add("buffersink")).configure()
    return graph


def _pulled(graph: Graph) -> av.VideoFrame | None:
    try:
        return graph.vpull()
    except (av.BlockingIOError, av.EOFError):
        return None


def _kind(picture: av.VideoFrame) -> tuple[object, ...]:
    return picture.width, picture.height, picture.format.name, picture.time_base
