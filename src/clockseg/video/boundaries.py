"""Boundaries: the times at which a long video is cut into pieces that can be decoded independently."""

from __future__ import annotations

import os
from fractions import Fraction

import av
from av.container import InputContainer

from clockseg.video.decode import open_input, video_stream

PIECE_SECONDS = 60
"""The least time between two boundaries."""
NEAR_SECONDS = 15
"""Before a boundary: where a seek to it may end."""
BACK_SECONDS = (0, 2)
"""Distances before a boundary at which seeks are tried: in MPEG-TS, which has no index, a seek may end a little too late."""


def boundaries(
    path: str | os.PathLike[str],
    *,
    seconds: float = PIECE_SECONDS,
    start: Fraction | None = None,
    end: Fraction | None = None,
) -> tuple[Fraction, ...]:
    """Return the start times of the pieces after the first: key frames at least ``seconds`` apart.

    Times are in seconds on the video's own time line, within ``start`` and ``end`` (None: all of it). Packets are read, none is
    decoded, so that the result depends on the file alone. If the container can't seek to each of them, or times are missing
    or go back, there are none: the video is one piece.

    >>> boundaries("no such file.mp4")
    ()
    """
    try:
        with open_input(path) as container:
            stream = video_stream(container)
            if stream is None or not (keys := _keys(container, stream)):
                return ()
            found: list[Fraction] = []
            # The first piece is not empty where the video begins after ``start``.
            before = keys[0] if start is None else max(start, keys[0])
            for key in keys:
                if key - before >= seconds and (end is None or key < end):
                    found.append(key)
                    before = key
            reached = all(any(_reached(container, stream, key, back) for back in BACK_SECONDS) for key in found)
            return tuple(found) if reached else ()
    except (av.FFmpegError, OSError):
        return ()


def _keys(container: InputContainer, stream: av.VideoStream) -> list[Fraction]:
    """Return the times of the first packet, and of every packet that is a key frame, at which decoding can begin.

    There are none if packets have no times, or times that go back: a position in the file is then no time in the video.
    """
    found: list[Fraction] = []
    last_dts: int | None = None
    for packet in container.demux(stream):
        if not packet.size:
            continue
        # Some containers don't tell when the first packets are decoded.
        back = last_dts is not None and packet.dts is not None and packet.dts <= last_dts
        if packet.pts is None or back:
            return []
        last_dts = packet.dts if packet.dts is not None else last_dts
        if not found or packet.is_keyframe:
            key = packet.pts * packet.time_base
            if found and key <= found[-1]:
                return []
            found.append(key)
    return found


def _reached(container: InputContainer, stream: av.VideoStream, key: Fraction, back: int) -> bool:
    """Return True if a seek to the key ends at its packet, or so little before it that decoding from there costs little."""
    container.seek(max(0, round((key - back) / stream.time_base)), stream=stream)
    packet = next(container.demux(stream))
    return packet.pts is not None and 0 <= key - packet.pts * packet.time_base <= NEAR_SECONDS
