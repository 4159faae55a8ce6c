"""Times of a container that has none of its own, put in order."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator

import av
from av.container import InputContainer

# More than any encoder reorders by.
_AHEAD = 8


def misordered(container: InputContainer, stream: av.VideoStream) -> bool:
    """Whether times follow the order of the packets, though the pictures come in another: H.264 with B-frames in AVI."""
    return container.format.name == "avi" and bool(stream.codec_context.has_b_frames)


def in_order(found: Iterator[av.VideoFrame]) -> Iterator[av.VideoFrame]:
    """The pictures as they come, the times they bring given out from the smallest on."""
    waiting: deque[av.VideoFrame] = deque()
    times: list[int] = []
    for picture in found:
        waiting.append(picture)
        if picture.pts is not None:
            heapq.heappush(times, picture.pts)
        if len(waiting) > _AHEAD:
            yield _first(waiting, times)
    while waiting:
        yield _first(waiting, times)


def _first(waiting: deque[av.VideoFrame], times: list[int]) -> av.VideoFrame:
    picture = waiting.popleft()
    if picture.pts is not None:
        picture.pts = heapq.heappop(times)
    return picture
