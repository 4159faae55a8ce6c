"""Corrections to the sequence of decoded pictures: deinterlacing, the order of times, and the requested span."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from fractions import Fraction
from itertools import chain, groupby, repeat

import av
from av.filter import Graph

from clockseg.video.clip import Span
from clockseg.video.decode import Damage

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


# More than any encoder reorders by.
_AHEAD = 8


def in_order(found: Iterator[av.VideoFrame]) -> Iterator[av.VideoFrame]:
    """Yield the pictures as they come, with their times sorted."""
    waiting: deque[av.VideoFrame] = deque()
    times: list[int] = []
    for picture in chain(found, repeat(None, _AHEAD)):
        if picture is not None:
            waiting.append(picture)
            if picture.pts is not None:
                heapq.heappush(times, picture.pts)
        if waiting and (picture is None or len(waiting) > _AHEAD):
            first = waiting.popleft()
            first.pts = None if first.pts is None else heapq.heappop(times)
            yield first


# So many pictures in a row after the end: a single one may have a broken time, or come out of order.
_SURE = 8


def within(found: Iterator[av.VideoFrame], span: Span, damage: Damage, *, period: Fraction) -> Iterator[av.VideoFrame]:
    """Yield the pictures whose times lie in the span; earlier ones are skipped.

    A picture without a time comes a ``period`` after the one before. What was lost before the span counts as no loss.
    """
    seconds, inside, beyond = -period, span.start is None, 0
    for picture in found:
        timed = picture.pts is not None and picture.time_base is not None
        seconds = picture.pts * picture.time_base if timed else seconds + period
        beyond = beyond + 1 if span.end is not None and seconds >= span.end else 0
        if beyond == _SURE:
            return
        if span.holds(seconds):
            if not inside:
                damage.forget()
            inside = True
            yield picture
