"""The frames of a video file: decoded, in order, deinterlaced, within the requested span, and in RGB; and where it can be cut."""

from __future__ import annotations

import heapq
import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import chain, groupby, repeat
from pathlib import Path
from time import perf_counter

import av
import numpy as np
from av.container import InputContainer
from av.filter import Graph
from av.sidedata.motionvectors import MotionVectors
from av.sidedata.sidedata import Type

from clockseg.carry.codec import BLOCK, Vectors
from clockseg.errors import VideoError
from clockseg.files import SourceFiles
from clockseg.video.clip import WHOLE, Clip, Frame, Span
from clockseg.video.colour import ToRGB, crop_of
from clockseg.video.decode import Damage, checked_stream, ends_early, open_input, pictures, reason, video_stream

# FFmpeg's decoders that export motion vectors: those of HEVC, VP9 and AV1 don't.
_EXPORTING = {"h264", "mpeg1video", "mpeg2video", "mpegvideo", "mpeg4", "h263", "flv", "msmpeg4", "wmv1", "wmv2"}
# How far before the start a seek aims, one after the other: to its very key frame, where the container has an index; and
# before any key frame that a search by bytes may have run past.
_BACK_SECONDS = (0, 2, 20)
# Containers in which times are right after a seek. In others, as in MPEG's program streams, they are guessed from there on.
_EXACT = ("mov,", "matroska", "avi", "flv", "nut", "ogg", "mpegts", "asf", "mxf")


class Movie(Clip):
    """The frames of a video file, which the caller has open as ``container``; ``vectors`` and ``span`` as of ``open_clip``."""

    kind = "video"

    def __init__(
        self, path: Path, files: SourceFiles, container: InputContainer, *, max_pixels: int, vectors: bool, span: Span
    ) -> None:
        super().__init__(path, files, span)
        self._max_pixels = max_pixels
        stream = checked_stream(path, container, max_pixels)
        self._vectors = vectors and stream.codec_context.name in _EXPORTING
        self.has_audio = bool(container.streams.audio)
        rates = (stream.average_rate, stream.guessed_rate, stream.base_rate)
        # Of a stream without times the average is FFmpeg's own default.
        self.fps = next(filter(None, rates if stream.start_time is not None else rates[1:]), None)
        duration, start = None, 0.0
        if stream.time_base is not None:
            duration = None if stream.duration is None else float(stream.duration * stream.time_base)
            start = float((stream.start_time or 0) * stream.time_base)
        if duration is None and container.duration is not None:
            duration = container.duration / av.time_base
        frames: int | None = stream.frames or None
        if duration is not None and span != WHOLE:
            since = start if span.start is None else max(start, float(span.start))
            until = start + duration if span.end is None else min(start + duration, float(span.end))
            duration, frames = max(0.0, until - since), None
        self.duration_seconds = duration
        self.frames_hint = frames or (round(duration * self.fps) if duration and self.fps else None)

    def _decoded(self, damage: Damage) -> Iterator[Frame]:
        place = None if self._span.start is None else self._place(self._span.start)
        with self._opened() as (container, stream):
            to_rgb = ToRGB(self._max_pixels, crop_of(container, stream), lazily=True)
            if place is not None:
                container.seek(place, stream=stream)
            reordered = bool(stream.codec_context.has_b_frames)
            # A thread per frame is twice as fast as one per slice. But with B-frames a picture comes out while another
            # thread may still decode it, and its vectors are read too early.
            threads = "SLICE" if self._vectors and reordered else "AUTO"
            found = deinterlaced(pictures(container, stream, damage, threads=threads))
            if container.format.name == "avi" and reordered:  # times follow the order of packets
                found = in_order(found)
            if self._span != WHOLE:
                found = within(found, self._span, damage, period=1 / (self.fps or Fraction(25)))
            yield from converted(found, stream, to_rgb, damage, vectors=self._vectors)
            if self._span.end is None and not damage.stopped and ends_early(self.path):
                damage.stopped = "the file is cut short"

    @contextmanager
    def _opened(self) -> Iterator[tuple[InputContainer, av.VideoStream]]:
        """Open the file again; yield the container and the stream to decode."""
        with open_input(self.path, max_pixels=self._max_pixels) as container:
            stream = checked_stream(self.path, container, self._max_pixels)
            if self._vectors:
                stream.codec_context.options |= {"flags2": "+export_mvs"}
            yield container, stream

    def _place(self, start: Fraction) -> int | None:
        """Return a position to seek to, in units of the stream, from which decoding begins at or before ``start``; None if there is none.

        A seek is tried, not trusted: the time of the first picture decoded after it counts.
        """
        for back in _BACK_SECONDS:
            with self._opened() as (container, stream):
                if not container.format.name.startswith(_EXACT):
                    return None
                base = stream.time_base or Fraction(1, av.time_base)
                place = int((start - back) / base)
                try:
                    container.seek(place, stream=stream)
                except (av.FFmpegError, OverflowError):
                    continue
                first = next(pictures(container, stream, Damage()), None)
                # What an interlaced picture becomes depends on the one before it.
                if first is not None and first.pts is not None:
                    seconds = first.pts * base
                    if seconds < start or (seconds == start and not first.interlaced_frame):
                        return place
        return None


def converted(
    found: Iterator[av.VideoFrame], stream: av.VideoStream, to_rgb: ToRGB, damage: Damage, *, vectors: bool = False
) -> Iterator[Frame]:
    """Yield the pictures as frames, whose ``decode_seconds`` is what converting took; one that can't be converted ends them."""
    for index, picture in enumerate(found):
        begun = perf_counter()
        try:
            image = to_rgb(picture)
        except (av.FFmpegError, ValueError, VideoError) as error:
            damage.stopped = reason(error)
            return
        damage.take(picture)
        aspect = stream.sample_aspect_ratio or Fraction(1)
        yield Frame(
            index,
            image,
            picture.pts,
            picture.time_base or stream.time_base,
            perf_counter() - begun,
            vectors=_vectors(picture, index, stream, to_rgb) if vectors else None,
            duration=picture.duration or None,
            pixel_aspect=1 / aspect if to_rgb.upright.swapped else aspect,
        )


def _vectors(picture: av.VideoFrame, index: int, stream: av.VideoStream, to_rgb: ToRGB) -> Vectors:
    """Return the motion vectors of frame ``index``, which ``to_rgb`` has just converted."""
    listed = to_rgb.side_data(picture)
    data = None if listed is None else listed.get(Type.MOTION_VECTORS)
    told = data.to_ndarray() if isinstance(data, MotionVectors) else np.zeros(0, BLOCK)
    # A copy: what FFmpeg gave goes with its frame.
    blocks = np.empty(len(told), BLOCK)
    for name in BLOCK.names or ():
        blocks[name] = told[name]
    size, reordered = (picture.width, picture.height), bool(stream.codec_context.has_b_frames)
    return Vectors(index, blocks, size, to_rgb.upright.axes(size), reordered)


# FFmpeg's filter takes no smaller ones, and no network needs them.
_LEAST_SIDE = 16
# Only what is flagged as interlaced is changed; it needs the picture before and the one after.
_FILTER = ("bwdif", "mode=send_frame:deint=interlaced")


def deinterlaced(found: Iterator[av.VideoFrame]) -> Iterator[av.VideoFrame]:
    """Yield the pictures, deinterlaced: the first field stays, and the lines of the other are interpolated.

    What makes them follows motion (FFmpeg's bwdif): where nothing moves, both fields stay. As many come out as go in, each
    with its own times. A video without interlaced pictures costs nothing.
    """
    for _, same in groupby(found, lambda one: (one.width, one.height, one.format.name, one.time_base)):
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


PIECE_SECONDS = 60
"""The least time between two boundaries."""
NEAR_SECONDS = 15
"""Before a boundary: where a seek to it may end."""
BACK_SECONDS = (0, 2)
"""Distances before a boundary at which seeks are tried: in MPEG-TS, which has no index, a seek may end a little too late."""


def boundaries(
    path: str | os.PathLike[str],
    *,
    start: Fraction | None = None,
    end: Fraction | None = None,
) -> tuple[Fraction, ...]:
    """Return the start times of the pieces after the first: key frames at least ``PIECE_SECONDS`` apart.

    Times are in seconds on the video's own time line, within ``start`` and ``end`` (None: all of it). Packets are read, none is
    decoded, so that the result depends on the file alone. If the container can't seek to each of them, or times are missing
    or go back, there are none: the video is one piece.
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
                if key - before >= PIECE_SECONDS and (end is None or key < end):
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
